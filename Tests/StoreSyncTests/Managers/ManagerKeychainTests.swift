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
}
