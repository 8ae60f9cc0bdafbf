import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Keychain files that no client writes any more", .timeLimit(.minutes(60)))
struct LeftKeychainFileTests {
    private let fixture: Fixture
    private let a: Device
    private let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)

    init() async throws {
        fixture = try Fixture(password: "correct horse")
        a = try fixture.device("a")
        try await a.keychain().add(SecretBytes("secret"), as: item)
        #expect(try await a.synchronizeKeychain().value.hasPublished)
    }

    private func url(_ client: RemoteIdentifier) -> URL {
        fixture.share.appending(path: "\(fixture.hierarchy.keychain(client))")
    }

    /// Writes a file that was sealed for another application of the same name.
    private func writeOrphan(of client: RemoteIdentifier) throws {
        let key = EpochKey(master: MasterKey(), epoch: UUID())
        let context = SealedContext(
            application: fixture.application.rawValue,
            role: "keychain",
            client: client.rawValue
        )
        try Data(key.seal([1, 2, 3], as: context)).write(to: url(client))
    }

    /// Device `a` after some days.
    private func later(_ days: Double = 31) throws -> Device {
        try fixture.device("a", clockError: days * 24 * 60 * 60)
    }

    @Test("A file that was sealed for a former application of the same name is removed after 30 days without a warning")
    func formerApplication() async throws {
        let former = try RemoteIdentifier("former")
        try writeOrphan(of: former)
        for (days, isKept) in [(0.0, true), (29, true), (31, false)] {
            #expect(try await later(days).synchronizeKeychain().value.warnings.isEmpty != isKept, "after \(days) days")
            #expect(FileManager.default.fileExists(atPath: url(former).path) == isKept, "after \(days) days")
        }
        #expect(try await a.items() == ["account": "secret"])
    }

    @Test("A file of another epoch stays if its client is registered, or if the application was just created again")
    func currentFiles() async throws {
        let registered = try await a.register().value
        let b = try await fixture.device("b").register().value.client
        try writeOrphan(of: b)
        let later = try later()
        #expect(try await later.synchronizeKeychain().value.warnings.count == 1)
        #expect(FileManager.default.fileExists(atPath: url(b).path))

        let new = try RemoteIdentifier("new")
        try writeOrphan(of: new)
        let registration = fixture.share.appending(path: "\(fixture.hierarchy.registration)")
        let text = try String(contentsOf: registration, encoding: .utf8)
        let epoch = try #require(registered.seal.key?.epoch.uuidString)
        let replaced = text.replacing(epoch, with: UUID().uuidString)
        #expect(replaced != text)
        try Data(replaced.utf8).write(to: registration)
        let operation = KeychainSynchronizationOperation(registered, backend: later.backend, state: later.state)
        let warnings = try await later.supervisor.add(operation).value.warnings
        #expect(warnings.contains { $0.contains("\(fixture.hierarchy.keychain(new)) on the remote was ignored") })
        #expect(FileManager.default.fileExists(atPath: url(new).path))
    }

    @Test(
        "A removed client's file that can't be read stays, and a warning says how it's got rid of",
        arguments: ["cut off", "of a damaged epoch"]
    )
    func removedClient(damage: String) async throws {
        let b = try fixture.device("b")
        try await b.keychain().add(
            SecretBytes("other"),
            as: KeychainItem(service: "s", account: "b", isSynchronizable: true)
        )
        #expect(try await b.synchronizeKeychain().value.hasPublished)
        let client = try await b.register().value.client
        let content = try Data(contentsOf: url(client))
        var damaged = content
        if damage == "cut off" {
            damaged.removeLast()
        } else {
            damaged[24] ^= 1
            #expect(EpochKey.epoch(ofSealed: Array(damaged)) != EpochKey.epoch(ofSealed: Array(content)))
        }
        try damaged.write(to: url(client))
        _ = try await a.remove(client).value
        let warnings = try await a.synchronizeKeychain().value.warnings
        #expect(warnings.contains { $0.contains("delete this file on the remote") }, "\(warnings)")
        #expect(FileManager.default.fileExists(atPath: url(client).path))
        // The rest of the file arrives: nothing is lost.
        try content.write(to: url(client))
        #expect(try await a.synchronizeKeychain().value.warnings.isEmpty)
        #expect(try await a.items() == ["account": "secret", "b": "other"])
        #expect(!FileManager.default.fileExists(atPath: url(client).path))
    }

    @Test("A removed client's file that is older than a file that was read isn't called unreadable")
    func olderFile() async throws {
        let b = try fixture.device("b")
        let client = try await b.register().value.client
        func synchronize(_ account: String) async throws -> Data {
            let item = KeychainItem(service: "s", account: account, isSynchronizable: true)
            try await b.keychain().add(SecretBytes("other"), as: item)
            #expect(try await b.synchronizeKeychain().value.hasPublished)
            return try Data(contentsOf: url(client))
        }
        let older = try await synchronize("one")
        _ = try await synchronize("two")
        _ = try await a.synchronizeKeychain().value
        try older.write(to: url(client))
        _ = try await a.remove(client).value
        let warnings = try await a.synchronizeKeychain().value.warnings
        #expect(warnings.contains { $0.contains("is older than the version") }, "\(warnings)")
        #expect(!warnings.contains { $0.contains("delete this file on the remote") }, "\(warnings)")
    }
}
