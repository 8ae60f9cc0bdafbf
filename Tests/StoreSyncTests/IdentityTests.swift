import Foundation
import GRDB
import Operations
import OperationsTesting
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("An identity that lives twice", .timeLimit(.minutes(60)))
struct IdentityTests {
    @Test("a device and its clone that push in turns go on as two clients, and nothing is overwritten")
    func turns() async throws {
        let world = try World()
        let original = try world.device("original")
        try original.write("common")
        let client = try await original.push().value.client
        let clone = try Self.clone(of: original, as: "clone", in: world)
        #expect(try clone.notes() == ["common"])

        try clone.write("of the clone")
        let second = try await clone.push().value
        #expect(second.client == client, "nothing tells the clone yet that it is one")
        #expect(second.divergedFrom.isEmpty)
        let uploads = try Self.uploads(in: world)

        // The original finds an upload under its name that it never made.
        try original.write("of the original")
        let third = try await original.push().value
        #expect(third.client != client)
        #expect(third.divergedFrom == [client])
        #expect(try Self.uploads(in: world).isSuperset(of: uploads), "somebody else's upload was removed")

        // Nobody has touched the clone's name, so it stays what it is; both contents are there.
        try clone.write("again of the clone")
        let fourth = try await clone.push().value
        #expect(fourth.client == client)
        #expect(fourth.divergedFrom == [third.client])
        let reader = try world.device("reader")
        #expect(await code { try await reader.pull().value } == .diverged)
        _ = try await reader.pull(from: client, overwrite: true).value
        #expect(try reader.notes() == ["common", "of the clone", "again of the clone"])
        _ = try await reader.pull(from: third.client, overwrite: true).value
        #expect(try reader.notes() == ["common", "of the original"])

        // And they go on as any two clients do.
        _ = try await original.pull(from: client, overwrite: true).value
        try original.write("both")
        let fifth = try await original.push().value
        #expect(fifth.client == third.client)
        #expect(fifth.divergedFrom == [third.client], "its former upload holds an edit that it has given up here alone")
        #expect(await code { try await clone.pull().value } == .diverged)
        #expect(try await original.push(resolves: true).value.divergedFrom.isEmpty)
        _ = try await clone.pull().value
        #expect(try clone.notes() == ["common", "of the clone", "again of the clone", "both"])
        try await Self.expectSound(reader)
    }

    @Test("a clone that only pulls has the original's name and disturbs nobody until it pushes")
    func pullingClone() async throws {
        let world = try World()
        let original = try world.device("original")
        try original.write("common")
        let client = try await original.push().value.client
        let clone = try Self.clone(of: original, as: "clone", in: world)
        for round in 1...3 {
            try original.write("round \(round)")
            #expect(try await original.push().value.client == client)
            _ = try await clone.pull().value
            #expect(try clone.notes() == original.notes())
        }
        try clone.write("of the clone")
        let push = try await clone.push().value
        #expect(push.client != client)
        #expect(push.divergedFrom.isEmpty)
        _ = try await original.pull().value
        #expect(try original.notes().contains("of the clone"))
        try original.write("back")
        let back = try await original.push().value
        #expect(back.client == client)
        _ = try await clone.pull().value
        #expect(try clone.notes() == original.notes())
        try await Self.expectSound(original)
    }

    @Test("a device and its clone that push one generation at once lose nothing, whoever is when first")
    func atOnce() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let world = try World()
                let backend = InMemoryBackend()
                let original = try world.device("original", backend: backend, simulation: simulation)
                try original.write("common")
                let client = try await original.push().value.client
                let clone = try Self.clone(of: original, as: "clone", in: world, backend, simulation)
                try original.write("of the original")
                try clone.write("of the clone")
                let handles = [original.push(), clone.push()]
                for handle in handles { _ = try await handle.value }

                // What they edit next is pushed by names that are theirs alone.
                try original.write("next of the original")
                try clone.write("next of the clone")
                let first = try await original.push().value
                let second = try await clone.push().value
                #expect(first.client != second.client, "seed \(seed)")
                #expect([first.client, second.client].contains { $0 != client }, "seed \(seed)")
                let reader = try world.device("reader", backend: backend, simulation: simulation)
                #expect(await code { try await reader.pull().value } == .diverged, "seed \(seed)")
                _ = try await reader.pull(from: first.client, overwrite: true).value
                #expect(try reader.notes() == original.notes(), "seed \(seed)")
                _ = try await reader.pull(from: second.client, overwrite: true).value
                #expect(try reader.notes() == clone.notes(), "seed \(seed)")
                try await Self.expectSound(reader)
            }
        }
    }

    @Test("a backup of the state that is put back doesn't overwrite what was pushed since")
    func restoredBackup() async throws {
        let world = try World()
        let device = try world.device("device")
        try device.write("one")
        let client = try await device.push().value.client
        let backup = try Self.clone(of: device, as: "backup", in: world)
        try device.write("two")
        _ = try await device.push().value
        let uploads = try Self.uploads(in: world)
        // The device is gone; its backup, which has never heard of the second push, goes on.
        try backup.write("other")
        let push = try await backup.push().value
        #expect(push.client != client)
        #expect(push.divergedFrom == [client])
        #expect(try Self.uploads(in: world).isSuperset(of: uploads))
        _ = try await backup.pull(from: client).value
        #expect(try backup.notes() == ["one", "two"])
    }

    @Test("H6: who takes a new name keeps description and user info")
    func keepsUserInfo() async throws {
        let world = try World()
        let original = try world.device("original")
        let request = ApplicationRegistrationRequest(
            application: world.application,
            clientDescription: "original",
            userInfo: ["colour": .string("red")]
        )
        _ = try await original.supervisor.add(
            ApplicationRegistrationOperation(request, backend: original.backend, state: original.state) { _ in
                .unencrypted
            }
        ).value
        try original.write("common")
        _ = try await original.push().value
        let clone = try Self.clone(of: original, as: "clone", in: world)
        try original.write("more")
        _ = try await original.push().value
        try clone.write("other")
        let new = try await clone.push().value.client
        let listed = try await clone.status().value.clients.first { $0.client == new }
        #expect(listed?.userInfo == ["colour": .string("red")])
    }

    // MARK: Cloning

    /// Copies a device's home to another machine, on which everything has the path it had on the first.
    ///
    /// Here they share one file system, so the copy is told its own path instead.
    static func clone(
        of device: Device,
        as name: String,
        in world: World,
        _ backend: (any RemoteBackend)? = nil,
        _ simulation: Simulation? = nil
    ) throws -> Device {
        let home = world.folder.appending(path: device.name)
        let copy = world.folder.appending(path: name)
        try FileManager.default.copyItem(at: home, to: copy)
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
        return try world.device(name, backend: backend, simulation: simulation)
    }

    private static func canonicalPath(_ url: URL) throws -> String { try LocalStore(url).path }

    private static func escaped(_ path: String) -> String { path.replacingOccurrences(of: "/", with: "\\/") }

    /// Every upload's folder and manifest in the share, by its path.
    private static func uploads(in world: World) throws -> Set<String> {
        let stores = world.share.appending(path: "\(world.application)/Documents/\(world.document)/WholeStore")
        return Set(try FileManager.default.subpathsOfDirectory(atPath: stores.path))
    }

    private static func expectSound(_ device: Device) async throws {
        let report = try await device.verify().value
        #expect(report.problems.isEmpty, "\(report)")
    }
}
