import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Baselines whose files the storage has lost", .timeLimit(.minutes(60)))
struct IncompleteBaselineTests {
    /// Two devices that have each written a baseline.
    ///
    /// The storage has the manifest of the second one, which is the newest, and has lost its store.
    private func devices(_ fixture: Fixture) async throws -> (Device, lost: Device) {
        let (a, z) = (try fixture.device("a"), try fixture.device("z"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, z] { _ = try await device.synchronize().value }
        try await fixture.writeLargeNotes(2, by: a)
        for device in [a, z] { _ = try await device.synchronize().value }
        #expect(try await a.vacuum().value.isBaselineWritten)
        try await fixture.writeLargeNotes(1, by: z)
        #expect(try await z.vacuum().value.isBaselineWritten)
        let client = try z.client()
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
        #expect(try joiner.titles() == ["a", "a", "z"])
        let other = try fixture.device("other")
        try other.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        _ = try await other.synchronize { $0.takenSide = .remote }.value
        #expect(try other.titles() == joiner.titles())
        #expect(try await a.synchronize { $0.rebuildsReplica = true }.value.applied.isEmpty)
        #expect(try a.titles() == joiner.titles())
    }

    @Test("A vacuum writes a baseline although the newest one is incomplete")
    func vacuum() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _) = try await devices(fixture)
        #expect(try await a.vacuum().value.isBaselineWritten)
        let joiner = try fixture.device("joiner")
        _ = try await joiner.synchronize().value
        #expect(try joiner.titles() == ["a", "a", "z"])
        try await fixture.writeLargeNotes(1, by: a)
        #expect(try await a.vacuum().value.isBaselineWritten)
    }

    @Test("Edits stay on the remote that only an incomplete and another baseline contain")
    func pruning() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, _) = try await devices(fixture)
        let former = try fixture.segments(of: a)
        #expect(former.count == 2)
        try await fixture.writeLargeNotes(1, by: a)
        #expect(try a.synchronizationMemory()?.removed == 0)
        #expect(try Set(fixture.segments(of: a)).isSuperset(of: former))
        // A second complete baseline contains them.
        _ = try await a.vacuum().value
        #expect(try a.synchronizationMemory()?.removed == 2)
        #expect(try Set(fixture.segments(of: a)).isDisjoint(with: former))
    }

    @Test(
        "An edited store without a replica, whose baseline is incomplete, is explained, and keeps its edits",
        arguments: [TakenSide.both, .local]
    )
    func editedStore(side: TakenSide) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, z) = try await devices(fixture)
        _ = try await a.synchronize().value
        try await fixture.expectEditIsKept(of: z, besides: a, taking: side)
    }
}
