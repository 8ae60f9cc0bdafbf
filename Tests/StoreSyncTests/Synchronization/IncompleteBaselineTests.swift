import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Baselines whose files the storage has lost", .timeLimit(.minutes(60)))
struct IncompleteBaselineTests {
    private func titles(_ device: Device) throws -> [String] {
        try device.query("SELECT title FROM note ORDER BY title")
    }

    private func client(_ device: Device) throws -> String { try #require(try device.synchronizationMemory()?.client) }

    /// Inserts notes that are too large for a head, each in a synchronization of its own.
    private func write(_ count: Int, by device: Device) async throws {
        for _ in 0..<count {
            try device.execute("INSERT INTO note (title, bytes) VALUES ('\(device.name)', randomblob(70000))")
            _ = try await device.synchronize().value
        }
    }

    private func segments(of device: Device, _ fixture: Fixture) throws -> [String] {
        let client = try client(device)
        return try fixture.files().keys.filter { $0.contains("SyncChanges/\(client)/") }.sorted()
    }

    /// Two devices that have each written a baseline.
    ///
    /// The storage has the manifest of the second one, which is the newest, and has lost its store.
    private func devices(_ fixture: Fixture) async throws -> (Device, lost: Device) {
        let (a, z) = (try fixture.device("a"), try fixture.device("z"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, z] { _ = try await device.synchronize().value }
        try await write(2, by: a)
        for device in [a, z] { _ = try await device.synchronize().value }
        #expect(try await a.vacuum().value.isBaselineWritten)
        try await write(1, by: z)
        #expect(try await z.vacuum().value.isBaselineWritten)
        let client = try client(z)
        let lost = try fixture.files().keys.filter {
            $0.contains("WholeStore/\(client)/") && $0.hasSuffix("/\(WholeStoreFile.store.rawValue)")
        }
        #expect(!lost.isEmpty)
        for path in lost { try fixture.put(nil, at: path) }
        return (a, z)
    }

    @Test("Devices begin with an older baseline if the newest one is incomplete", arguments: [nil, "correct horse"])
    func beginning(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let (a, _) = try await devices(fixture)
        _ = try await a.synchronize().value
        let joiner = try fixture.device("joiner")
        _ = try await joiner.synchronize().value
        #expect(try titles(joiner) == ["a", "a", "z"])
        let other = try fixture.device("other")
        try other.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        _ = try await other.synchronize(SynchronizationRequest(url: other.store, takenSide: .remote)).value
        #expect(try titles(other) == titles(joiner))
        var request = SynchronizationRequest(url: a.store)
        request.rebuildsReplica = true
        #expect(try await a.synchronize(request).value.applied.isEmpty)
        #expect(try titles(a) == titles(joiner))
    }

    @Test("A vacuum writes a baseline although the newest one is incomplete")
    func vacuum() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _) = try await devices(fixture)
        #expect(try await a.vacuum().value.isBaselineWritten)
        let joiner = try fixture.device("joiner")
        _ = try await joiner.synchronize().value
        #expect(try titles(joiner) == ["a", "a", "z"])
        try await write(1, by: a)
        #expect(try await a.vacuum().value.isBaselineWritten)
    }

    @Test("Edits stay on the remote that only an incomplete and another baseline contain")
    func pruning() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _) = try await devices(fixture)
        let former = try segments(of: a, fixture)
        #expect(former.count == 2)
        try await write(1, by: a)
        #expect(try a.synchronizationMemory()?.removed == 0)
        #expect(try Set(segments(of: a, fixture)).isSuperset(of: former))
        // A second complete baseline contains them.
        _ = try await a.vacuum().value
        #expect(try a.synchronizationMemory()?.removed == 2)
        #expect(try Set(segments(of: a, fixture)).isDisjoint(with: former))
    }

    @Test(
        "An edited store without a replica, whose baseline is incomplete, is explained, and keeps its edits",
        arguments: [TakenSide.both, .local]
    )
    func editedStore(side: TakenSide) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await devices(fixture)
        _ = try await a.synchronize().value
        try z.execute("UPDATE note SET title = 'edited' WHERE title = 'z'")
        let store = try Data(contentsOf: z.store)
        try FileManager.default.removeItem(at: #require(z.state.replicas().first))
        let error = await #expect(throws: StoreSyncError.self) { try await z.synchronize().value }
        #expect(error?.code == .noUploadedStore && error?.message.contains("--take both") == true, "\(error as Any)")
        #expect(try Data(contentsOf: z.store) == store)
        _ = try await z.synchronize(SynchronizationRequest(url: z.store, takenSide: side)).value
        _ = try await a.synchronize().value
        #expect(try titles(z).contains("edited") && titles(z).contains("a"))
        #expect(try titles(a) == titles(z))
    }
}
