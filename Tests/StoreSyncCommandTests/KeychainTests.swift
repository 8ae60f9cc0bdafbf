import Foundation
import Keychain
import RemoteStorage
import StoreSync
import SyncCryptography
import Testing

extension CommandTests {
    @Suite("Commands synchronize keychain items that are synchronizable", .serialized)
    struct KeychainTests {
        @MainActor private final class Silent: ApplicationSyncDelegate {
            func decideEncryption(
                _ question: EncryptionQuestion,
                of application: RemoteIdentifier
            ) async throws -> EncryptionDecision { throw CancellationError() }
        }

        private static let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)

        /// The keychain of the command's application in a device's state directory.
        private func keychain(of device: Device) async throws -> FileKeychain {
            let manager = try ApplicationSyncManager(
                application: RemoteIdentifier("org.example.notes"),
                clientDescription: "",
                backend: LocalFolderBackend(root: device.fixture.share),
                state: StateDirectory(url: device.state),
                delegate: Silent()
            )
            let group = try AccessGroupPattern("TEAM.notes")
            return try await manager.keychain(entitlements: Entitlements(applicationIdentifier: group))
        }

        @Test("K8, K9: An item added before a push exists after a pull, and register synchronizes it too")
        func travels() async throws {
            let fixture = try Fixture()
            let password = ["STORESYNC_PASSWORD": "correct horse"]
            let (laptop, desktop) = (try fixture.device("laptop"), try fixture.device("desktop"))
            try laptop.write("one")
            try await keychain(of: laptop).add(SecretBytes(copying: Array("1".utf8)), as: Self.item)
            let push = ["push", laptop.store.path, "--document", "notes"] + laptop.options + ["--json"]
            let pushed = try await fixture.run(push, environment: password)
            #expect(pushed.status == 0 && pushed.errorOutput.isEmpty, "\(pushed)")
            let pull = ["pull", desktop.store.path, "--document", "notes"] + desktop.options + ["--json"]
            let pulled = try await fixture.run(pull, environment: password)
            #expect(pulled.status == 0 && pulled.errorOutput.isEmpty, "\(pulled)")
            let query = KeychainQuery(Self.item)
            #expect(
                try await keychain(of: desktop).secret(matching: query) == SecretBytes(copying: Array("1".utf8))
            )
            try await keychain(of: desktop).update(query, to: SecretBytes(copying: Array("2".utf8)))
            for device in [desktop, laptop] { #expect(try await device.run("register").status == 0) }
            #expect(try await keychain(of: laptop).secret(matching: query) == SecretBytes(copying: Array("2".utf8)))
            let verify = try await laptop.run("verify")
            #expect(verify.status == 0, "\(verify)")
            #expect(try verify.json()["warnings"] == .array([]), "\(verify)")
        }

        @Test("A push succeeds with a warning if the keychain fails, or if unencrypted items stay on the device")
        func warnings() async throws {
            let laptop = try Fixture().device("laptop")
            try laptop.write("one")
            try await keychain(of: laptop).add(SecretBytes(copying: [1]), as: Self.item)
            let push = try await laptop.push()
            #expect(push.status == 0, "\(push)")
            #expect(push.errorOutput.contains("warning: org.example.notes isn't encrypted"), "\(push)")
            let keychains = laptop.state.appending(path: "keychains")
            let files = try FileManager.default.contentsOfDirectory(atPath: keychains.path)
            let file = try #require(files.first { $0.hasSuffix(".sqlite") })
            try Data(count: 5_000).write(to: keychains.appending(path: file))
            try laptop.write("two")
            let again = try await laptop.push()
            #expect(again.status == 0, "\(again)")
            #expect(again.errorOutput.contains("warning: The keychain's items were not synchronized"), "\(again)")
        }
    }
}
