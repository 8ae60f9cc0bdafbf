import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

@Suite("Two devices with the same identity", .timeLimit(.minutes(60)))
struct IdentityTests {
    @Test("A device and its clone become two clients if they push in turns, and nothing is overwritten")
    func turns() async throws {
        let fixture = try Fixture()
        let original = try fixture.device("original")
        let client = try await original.push(adding: "common").client
        let clone = try Self.clone(of: original, as: "clone", in: fixture)
        #expect(try clone.notes() == ["common"])

        let second = try await clone.push(adding: "of the clone")
        #expect(second.client == client, "the clone can't know yet that it is a clone")
        #expect(second.divergedFrom.isEmpty)
        let uploads = try Self.uploads(in: fixture)

        // The original finds an upload under its name that it never pushed.
        let third = try await original.push(adding: "of the original")
        #expect(third.client != client)
        #expect(third.warnings.contains { $0.contains("storesync remove client \(client).") }, "\(third.warnings)")
        #expect(third.divergedFrom == [client])
        #expect(try Self.uploads(in: fixture).isSuperset(of: uploads), "another device's upload was removed")

        // No other device has pushed under the clone's name since, so the clone keeps it. Both contents exist.
        let fourth = try await clone.push(adding: "again of the clone")
        #expect(fourth.client == client)
        #expect(fourth.divergedFrom == [third.client])
        let reader = try fixture.device("reader")
        #expect(await code { try await reader.pull().value } == .diverged)
        _ = try await reader.pull(from: client, overwrite: true).value
        #expect(try reader.notes() == ["common", "of the clone", "again of the clone"])
        _ = try await reader.pull(from: third.client, overwrite: true).value
        #expect(try reader.notes() == ["common", "of the original"])

        // From now on they work like any two clients.
        _ = try await original.pull(from: client, overwrite: true).value
        let fifth = try await original.push(adding: "both")
        #expect(fifth.client == third.client)
        #expect(fifth.divergedFrom == [third.client], "its former upload holds an edit that it discarded only locally")
        // Both heads of one client are shown, and can be pulled as the warning says.
        let stores = try await reader.status().value.documents.flatMap(\.stores).filter { $0.client == third.client }
        #expect(stores.map(\.generation) == [third.generation, fifth.generation])
        let hint = "--from \(third.client) --generation \(third.generation) "
        #expect(fifth.warnings.contains { $0.contains(hint) }, "\(fifth.warnings)")
        #expect(await code { try await clone.pull().value } == .diverged)
        #expect(try await original.push(resolves: true).value.divergedFrom.isEmpty)
        _ = try await clone.pull().value
        #expect(try clone.notes() == ["common", "of the clone", "again of the clone", "both"])
        try await Self.expectSound(reader)
    }

    @Test("Until its first push, a clone shares the original's name and disturbs no other device")
    func pullingClone() async throws {
        let fixture = try Fixture()
        let original = try fixture.device("original")
        let client = try await original.push(adding: "common").client
        let clone = try Self.clone(of: original, as: "clone", in: fixture)
        for round in 1...3 {
            try original.write("round \(round)")
            #expect(try await original.push().value.client == client)
            _ = try await clone.pull().value
            #expect(try clone.notes() == original.notes())
        }
        let push = try await clone.push(adding: "of the clone")
        #expect(push.client != client)
        #expect(push.divergedFrom.isEmpty)
        _ = try await original.pull().value
        #expect(try original.notes().contains("of the clone"))
        let back = try await original.push(adding: "back")
        #expect(back.client == client)
        _ = try await clone.pull().value
        #expect(try clone.notes() == original.notes())
        try await Self.expectSound(original)
    }

    @Test("Concurrent pushes of one generation by a device and its clone lose nothing, in any order")
    func atOnce() async throws {
        for seed in TestDepth.seeds(quick: 5, ci: 10, deep: 2_000) {
            try await Simulation.run(seed: seed) { simulation in
                let fixture = try Fixture()
                let backend = InMemoryBackend()
                let original = try fixture.device("original", backend: backend, simulation: simulation)
                let client = try await original.push(adding: "common").client
                let clone = try Self.clone(of: original, as: "clone", in: fixture, backend, simulation)
                try original.write("of the original")
                try clone.write("of the clone")
                let handles = [original.push(), clone.push()]
                for handle in handles { _ = try await handle.value }

                // They push their next edits under different names.
                try original.write("next of the original")
                try clone.write("next of the clone")
                let first = try await original.push().value
                let second = try await clone.push().value
                #expect(first.client != second.client, "seed \(seed)")
                #expect([first.client, second.client].contains { $0 != client }, "seed \(seed)")
                let reader = try fixture.device("reader", backend: backend, simulation: simulation)
                #expect(await code { try await reader.pull().value } == .diverged, "seed \(seed)")
                _ = try await reader.pull(from: first.client, overwrite: true).value
                #expect(try reader.notes() == original.notes(), "seed \(seed)")
                _ = try await reader.pull(from: second.client, overwrite: true).value
                #expect(try reader.notes() == clone.notes(), "seed \(seed)")
                try await Self.expectSound(reader)
            }
        }
    }

    @Test("A restored backup of the state doesn't overwrite uploads that were pushed since")
    func restoredBackup() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        let client = try await device.push(adding: "one").client
        let backup = try Self.clone(of: device, as: "backup", in: fixture)
        try await device.push(adding: "two")
        let uploads = try Self.uploads(in: fixture)
        // The device is lost. Its backup, which doesn't know of the second push, continues.
        let push = try await backup.push(adding: "other")
        #expect(push.client != client)
        #expect(push.divergedFrom == [client])
        // The backup can't know what its store has of that upload.
        #expect(push.warnings.last?.hasPrefix("As far as this device knows, generation 2 of client \(client)") == true)
        #expect(try Self.uploads(in: fixture).isSuperset(of: uploads))
        _ = try await backup.pull(from: client).value
        #expect(try backup.notes() == ["one", "two"])
    }

    @Test("H6: A device that takes a new name keeps its description and user info")
    func keepsUserInfo() async throws {
        let fixture = try Fixture()
        let original = try fixture.device("original")
        let request = ApplicationRegistrationRequest(
            application: fixture.application,
            clientDescription: "original",
            userInfo: ["colour": .string("red")]
        )
        _ = try await original.supervisor.add(
            ApplicationRegistrationOperation(request, backend: original.backend, state: original.state) { _ in
                .unencrypted
            }
        ).value
        try await original.push(adding: "common")
        let clone = try Self.clone(of: original, as: "clone", in: fixture)
        try await original.push(adding: "more")
        let new = try await clone.push(adding: "other").client
        let listed = try await clone.status().value.clients.first { $0.client == new }
        #expect(listed?.userInfo == ["colour": .string("red")])
    }

    // MARK: Cloning

    /// Copies a device's home, as to another machine on which every path is the same.
    ///
    /// Here both share one file system, so the paths in the copy's memory are replaced by its own.
    static func clone(
        of device: Device,
        as name: String,
        in fixture: Fixture,
        _ backend: (any RemoteBackend)? = nil,
        _ simulation: Simulation? = nil
    ) throws -> Device {
        let copy = fixture.folder.appending(path: name)
        try fixture.copy(device, to: name)
        let (path, newPath) = (try canonicalPath(device.store), try canonicalPath(copy.appending(path: "store.sqlite")))
        let queue = try DatabaseQueue(path: copy.appending(path: "state/state.sqlite").path)
        try queue.write { db in
            for (table, column) in [("store", "path"), ("store", "value"), ("upload", "value")] {
                // In JSON a slash may be escaped.
                for (old, new) in [(path, newPath), (escaped(path), escaped(newPath))] {
                    try db.execute(
                        sql: "UPDATE \(table) SET \(column) = replace(\(column), ?, ?)",
                        arguments: [old, new]
                    )
                }
            }
        }
        try queue.close()
        return try fixture.device(name, backend: backend, simulation: simulation)
    }

    private static func canonicalPath(_ url: URL) throws -> String { try LocalStore(url).path.text }

    private static func escaped(_ path: String) -> String { path.replacingOccurrences(of: "/", with: "\\/") }

    /// Returns the paths of all uploads' folders and manifests in the share.
    private static func uploads(in fixture: Fixture) throws -> Set<String> {
        let stores = fixture.share.appending(path: "\(fixture.application)/Documents/\(fixture.document)/WholeStore")
        return Set(try FileManager.default.subpathsOfDirectory(atPath: stores.path))
    }

    private static func expectSound(_ device: Device) async throws {
        let report = try await device.verify().value
        #expect(report.problems.isEmpty, "\(report)")
    }
}
