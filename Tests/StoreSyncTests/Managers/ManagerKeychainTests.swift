import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("An application's keychain that its manager provides", .timeLimit(.minutes(60)))
struct ManagerKeychainTests {
    @Test("Its lock can't be changed: synchronization and registration would never open it again")
    func fixedLock() async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("device")
        let entitlements = Entitlements(applicationIdentifier: try AccessGroupPattern("TEAM.shared"))
        let delegate = Asker()
        let keychain = try await device.manager(delegate).keychain(entitlements: entitlements)
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await keychain.add(SecretBytes("secret"), as: item)
        let passphrase = KeychainLock.passphrase(try Password("passphrase"), parameters: .interactive)
        for lock in [passphrase, .deviceSecret(in: fixture.temporary)] {
            let error = await #expect(throws: KeychainError.self) { try await keychain.changeLock(to: lock) }
            #expect(error?.code == .wrongLock && error?.message.contains("can't be changed") == true)
        }
        #expect(try await device.synchronizeKeychain().value.hasPublished)
        #expect(try await device.items() == ["account": "secret"])
        withExtendedLifetime(delegate) {}
    }

    @Test(
        "Without its secret, the error names the files that belong together; without these, the password is asked again",
        arguments: [StoreSyncError.Code.keychainLocked, .corrupt]
    )
    func lostSecret(code: StoreSyncError.Code) async throws {
        let fixture = try Fixture(password: "correct horse")
        let original = try fixture.device("device")
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await original.keychain().add(SecretBytes("secret"), as: item)
        #expect(try await original.synchronizeKeychain().value.hasPublished)
        let state = fixture.folder.appending(path: "device/state")
        let secret = state.appending(path: "keychain-secret")
        if code == .corrupt {
            // Its permissions stay.
            let file = try FileHandle(forWritingTo: secret)
            try file.truncate(atOffset: 7)
            try file.close()
        } else {
            try FileManager.default.removeItem(at: secret)
        }
        // A new process, which hasn't opened the keychain.
        let locked = try fixture.device("device")
        let error = await #expect(throws: StoreSyncError.self) { try await locked.synchronizeKeychain().value }
        #expect(error?.code == code)
        let belongTogether = """
            keychain-secret, keychain.sqlite (with keychain.sqlite-journal, if it exists) and the directory keychains belong \
            together
            """
        #expect(error?.message.contains(belongTogether) == true, "\(error?.message ?? "")")
        for name in ["keychain.sqlite", "keychains"] + (code == .corrupt ? ["keychain-secret"] : []) {
            try FileManager.default.removeItem(at: state.appending(path: name))
        }
        let device = try fixture.device("device")
        _ = try await device.synchronizeKeychain().value
        #expect(try await device.items() == ["account": "secret"])
    }

    @Test("If the device's keychain is damaged, the error says to move it away; then the password is asked again")
    func damaged() async throws {
        let fixture = try Fixture(password: "correct horse")
        _ = try await fixture.device("device").register().value
        let file = fixture.folder.appending(path: "device/state/keychain.sqlite")
        try Data(repeating: 1, count: 5_000).write(to: file)
        let error = await #expect(throws: StoreSyncError.self) { try await fixture.device("device").register().value }
        #expect(error?.code == .corrupt && error?.message.contains(file.path) == true, "\(error as Any)")
        #expect(error?.message.contains("move the damaged file") == true, "\(error as Any)")
        let aside = fixture.folder.appending(path: "aside", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: aside, withIntermediateDirectories: false)
        let state = file.deletingLastPathComponent()
        for name in try FileManager.default.contentsOfDirectory(atPath: state.path)
        where name.hasPrefix("keychain.sqlite") {
            try FileManager.default.moveItem(at: state.appending(path: name), to: aside.appending(path: name))
        }
        var device = try fixture.device("device")
        device.password = nil
        #expect(await code { try await device.register().value } == .encryptionMismatch)
        device.password = fixture.password
        _ = try await device.register().value
    }

    @Test(
        "If other users could read the device secret, the error says what to move away; then the password is asked again"
    )
    func unsafeSecret() async throws {
        let fixture = try Fixture(password: "correct horse")
        _ = try await fixture.device("device").register().value
        let state = fixture.folder.appending(path: "device/state")
        let secret = state.appending(path: "keychain-secret").path
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: secret)
        let error = await #expect(throws: StoreSyncError.self) { try await fixture.device("device").register().value }
        #expect(error?.code == .keychainLocked)
        for part in [
            "mode 0600", "move keychain-secret, keychain.sqlite and the directory keychains", "new applications",
        ] {
            #expect(error?.message.contains(part) == true, "\(error as Any)")
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: state.path) where name.hasPrefix("keychain") {
            try FileManager.default.removeItem(at: state.appending(path: name))
        }
        _ = try await fixture.device("device").register().value
    }
}
