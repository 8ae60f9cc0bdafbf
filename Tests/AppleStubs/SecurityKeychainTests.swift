import Foundation
import Security
import SyncCryptography
import Testing

@testable import Keychain

@main
struct Runner {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}

/// Tests that need the stub of Security.framework, beside the conformance suite.
extension KeychainConformanceTests {
    @Test("The system's keychain leaves out an item that vanishes between the list and its secret")
    func vanishing() async throws {
        let keychain = SecurityKeychain()
        let items = ["a", "b"].map { KeychainItem(service: "vanishing", account: $0) }
        for item in items { try await keychain.add(SecretBytes(item.account), as: item) }
        vanish = { deleteItem("vanishing", "a") }
        #expect(try await keychain.copyMatching(KeychainQuery(service: "vanishing")).map(\.item.account) == ["b"])
        vanish = { deleteItem("vanishing", "b") }
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(KeychainQuery(service: "vanishing")) }
        vanish = nil
    }

    @Test("Items stay on the device, unless they're synchronizable")
    func accessible() async throws {
        let keychain = SecurityKeychain()
        for isSynchronizable in [false, true] {
            let item = KeychainItem(service: "accessible", account: "a", isSynchronizable: isSynchronizable)
            try await keychain.add(SecretBytes("s"), as: item)
        }
        #expect(protection("accessible", false) == kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly)
        #expect(protection("accessible", true) == kSecAttrAccessibleAfterFirstUnlock)
    }

    @Test("A device secret is in the system's keychain, and a copy of its directory doesn't open on another device")
    func deviceSecret() async throws {
        let fixture = try KeychainFixture()
        let secret = try DeviceSecret(in: fixture.folder).readOrMake()
        #expect(secret.count == 32)
        let file = try Data(contentsOf: fixture.url(DeviceSecret.name))
        let name = try #require(DeviceSecret.Name(Array(file)))
        #expect(try DeviceSecret(in: fixture.folder).readOrMake() == secret)
        let keychain = try await fixture.open()
        try await keychain.add(SecretBytes("s"), as: KeychainItem(service: "notes", account: "key"))
        // Restored on its own device.
        try Data(DeviceSecret.Name(item: name.item, inode: 0).bytes).write(to: fixture.url(DeviceSecret.name))
        #expect(try DeviceSecret(in: fixture.folder).read() == secret)
        #expect(
            try Data(contentsOf: fixture.url(DeviceSecret.name))
                != Data(DeviceSecret.Name(item: name.item, inode: 0).bytes)
        )
        deleteItem(DeviceSecret.service, name.item.uuidString)
        await expect(.notEntitled, "access group") {
            let original = try await FileKeychain(at: fixture.url(), entitlements: .notes)
            try await original.unlock(with: fixture.deviceSecret)
        }
        #expect(DeviceSecret(in: fixture.folder).itemOfAnotherDevice() == nil)
        // A copy is a file of its own.
        try FileManager.default.removeItem(at: fixture.url(DeviceSecret.name))
        try Data(DeviceSecret.Name(item: name.item, inode: 0).bytes).write(to: fixture.url(DeviceSecret.name))
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600],
            ofItemAtPath: fixture.url(DeviceSecret.name).path
        )
        #expect(DeviceSecret(in: fixture.folder).itemOfAnotherDevice() == name.item)
        await expect(.deviceSecretMissing, "copied from another device") {
            let copy = try await FileKeychain(at: fixture.url(), entitlements: .notes)
            try await copy.unlock(with: fixture.deviceSecret)
        }
    }

    @Test("A program that the system's keychain refuses keeps the device secret in a file")
    func unsigned() throws {
        let fixture = try KeychainFixture()
        isEntitled = false
        defer { isEntitled = true }
        let secret = try DeviceSecret(in: fixture.folder).readOrMake()
        #expect(try Data(contentsOf: fixture.url(DeviceSecret.name)).count == 32)
        #expect(try DeviceSecret(in: fixture.folder).read() == secret)
    }
}
