import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

#if !canImport(Security)
/// On Linux no secret is in a system's keychain, so a file that names an item there is of another device.
@Suite("A state directory that was copied from a device with a system's keychain", .timeLimit(.minutes(60)))
struct CopiedStateDirectoryTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture(password: "correct horse") }

    /// Copies all files of a device, and lets its secret be in the system's keychain of the original.
    private func copyFiles(of original: Device, to name: String) throws {
        _ = try IdentityTests.clone(of: original, as: name, in: fixture)
        try writeSecret(Self.copiedName, of: name)
    }

    private static var copiedName: Data { Data(DeviceSecret.Name(item: UUID(), inode: 0).bytes) }

    private func writeSecret(_ content: Data, of name: String, mode: Int = 0o600) throws {
        let secret = state(of: name).appending(path: DeviceSecret.name)
        try content.write(to: secret)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: secret.path)
    }

    private func state(of name: String) -> URL { fixture.folder.appending(path: name).appending(path: "state") }

    private func key(_ device: Device) -> ApplicationKey {
        ApplicationKey(remote: device.backend.identity, application: device.application.rawValue)
    }

    private func client(_ device: Device) throws -> String? {
        try device.state.peekClientIdentifier(for: key(device))
    }

    @Test("It continues as another client, asks for the password once, and both devices' uploads and items arrive")
    func uploads() async throws {
        let original = try fixture.device("original")
        try original.write("common")
        let first = try await original.push().value.client
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await original.keychain().add(SecretBytes("s"), as: item)
        _ = try await original.synchronizeKeychain().value
        try copyFiles(of: original, to: "copy")
        var copy = try fixture.device("copy")
        copy.password = nil
        #expect(await code { try await copy.push().value } == .encryptionMismatch)
        copy.password = fixture.password
        _ = try await copy.synchronizeKeychain().value
        #expect(try await copy.items() == ["account": "s"])
        copy.password = nil
        try copy.write("of the copy")
        let second = try await copy.push().value
        #expect(second.client != first && second.divergedFrom.isEmpty)

        _ = try await original.pull().value
        try original.write("of the original")
        #expect(try await original.push().value.client == first)
        _ = try await copy.pull().value
        #expect(try copy.notes() == ["common", "of the copy", "of the original"])
        #expect(try await copy.verify().value.problems.isEmpty)
        #expect(try client(fixture.device("copy")) == second.client.rawValue)
    }

    @Test("It synchronizes records as another client, and no edit is lost")
    func records() async throws {
        let original = try fixture.device("original")
        try original.execute("CREATE TABLE note (title TEXT PRIMARY KEY); INSERT INTO note VALUES ('common')")
        let client = try await original.synchronize().value.client
        try original.execute("INSERT INTO note VALUES ('captured before the copy')")
        #expect(try await original.recordChanges() == 1)
        try copyFiles(of: original, to: "copy")
        let copy = try fixture.device("copy")
        try copy.execute("INSERT INTO note VALUES ('of the copy')")
        try original.execute("INSERT INTO note VALUES ('of the original')")
        #expect(try await copy.synchronize().value.client != client)
        #expect(try await original.synchronize().value.client == client)
        #expect(try await copy.synchronize().value.waitingFor.isEmpty)
        for device in [copy, original] {
            let titles = try device.query("SELECT title FROM note ORDER BY title")
            #expect(titles == ["captured before the copy", "common", "of the copy", "of the original"])
        }
    }

    @Test("It becomes another client, whichever step the program dies in")
    func deaths() async throws {
        struct Death: Error {}
        let original = try fixture.device("original")
        try original.write("common")
        let former = try await original.push().value.client.rawValue
        // Of a directory that the original will move into place.
        try original.state.recordStaging(name: "staging", for: key(original))
        let steps = Locked<[String]>([])
        try copyFiles(of: original, to: "observed")
        _ = try fixture.device("observed") { step in steps.withLock { $0.append(step) } }
        #expect(steps.withLock { $0.count } == 3)
        for step in steps.withLock({ $0 }) {
            try copyFiles(of: original, to: step)
            #expect(throws: (any Error).self) {
                try fixture.device(step) { reached in if reached == step { throw Death() } }
            }
            let copy = try fixture.device(step)
            #expect(try client(copy) == nil)
            #expect(try copy.state.stagings(for: key(copy)).isEmpty, "the staging directory is the original's")
            let files = try FileManager.default.contentsOfDirectory(atPath: state(of: step).path)
            #expect(!files.contains { $0.hasPrefix("keychain") }, "\(files)")
            let aside = try #require(files.first { $0.hasPrefix("of-another-device-") })
            let kept = try FileManager.default.contentsOfDirectory(
                atPath: state(of: step).appending(path: aside).path
            )
            #expect(Set(kept).isSuperset(of: [DeviceSecret.name, "keychain.sqlite"]))
            #expect(try await copy.register().value.client.rawValue != former)
        }
    }

    @Test(
        "A program that can't find the item that its directory names doesn't take it for a copy, and says what is wrong"
    )
    func hiddenItem() async throws {
        let device = try fixture.device("device")
        let client = try await device.register().value.client.rawValue
        let secret = state(of: "device").appending(path: DeviceSecret.name)
        let attributes = try FileManager.default.attributesOfItem(atPath: secret.path)
        let inode = try #require(attributes[.systemFileNumber] as? NSNumber).uint64Value
        let file = try FileHandle(forWritingTo: secret)
        try file.truncate(atOffset: 0)
        try file.write(contentsOf: DeviceSecret.Name(item: UUID(), inode: inode).bytes)
        try file.close()
        let again = try fixture.device("device")
        #expect(try self.client(again) == client)
        #expect(await code { try await again.register().value } == .notEntitled)
        let files = try FileManager.default.contentsOfDirectory(atPath: state(of: "device").path)
        #expect(!files.contains { $0.hasPrefix("of-another-device-") })
    }

    @Test("A secret that is damaged, or that other users could have written, makes no other client")
    func damagedSecret() async throws {
        let client = try await fixture.device("device").register().value.client.rawValue
        for content in [Data(), Data(repeating: 7, count: 40), Data(repeating: 7, count: 32)] {
            try writeSecret(content, of: "device")
            #expect(try self.client(fixture.device("device")) == client)
        }
        try writeSecret(Self.copiedName, of: "device", mode: 0o644)
        #expect(try self.client(fixture.device("device")) == client)
        try FileManager.default.removeItem(at: state(of: "device").appending(path: DeviceSecret.name))
        #expect(try self.client(fixture.device("device")) == client)
    }
}
#endif
