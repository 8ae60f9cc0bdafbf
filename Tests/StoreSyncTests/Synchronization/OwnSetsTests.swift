import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("What a device keeps of its own published edits", .timeLimit(.minutes(60)))
struct OwnSetsTests {
    /// Inserts a note that is too large for a head.
    private func write(by device: Device) async throws {
        try device.execute("INSERT INTO note (title, bytes) VALUES ('\(device.name)', randomblob(70000))")
        _ = try await device.synchronize().value
    }

    /// The numbers of the device's own sets whose bytes its replica has.
    private func keptSets(_ device: Device) async throws -> [UInt64] {
        let memory = try #require(try device.synchronizationMemory())
        let replica = try DatabaseQueue(path: #require(device.state.replicas().first).path)
        defer { try? replica.close() }
        let numbers = try await replica.read {
            try Int64.fetchAll(
                $0,
                sql: "SELECT sequence FROM sets WHERE client = ? AND bytes IS NOT NULL ORDER BY sequence",
                arguments: [memory.client]
            )
        }
        return numbers.map { UInt64($0) }
    }

    private func titles(_ device: Device) throws -> [String] {
        try device.query("SELECT title || hex(substr(bytes, 1, 8)) FROM note ORDER BY 1")
    }

    /// Two devices; two baselines contain the first edits of the first one, which are removed from the remote.
    private func devices(_ fixture: Fixture) async throws -> (Device, Device) {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        for _ in 0..<2 {
            for device in [a, b] { try await write(by: device) }
            _ = try await a.vacuum().value
        }
        for device in [a, b, a, b, a] { try await write(by: device) }
        return (a, b)
    }

    @Test("A device forgets its edits that two baselines contain, once all have seen them, and continues without them")
    func forgetting() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(fixture)
        let memory = try #require(try a.synchronizationMemory())
        #expect(memory.removed >= 1)
        let sequence = try #require(memory.sequence)
        #expect(try await keptSets(a) == Array(memory.removed + 1...sequence))
        // It can still build its replica again, and publish what the storage loses.
        _ = try await a.synchronize { $0.rebuildsReplica = true }.value
        for path in try fixture.files().keys where path.contains("RecentSyncs/\(memory.client)-") {
            try fixture.put(nil, at: path)
        }
        for device in [a, b] { try await write(by: device) }
        let c = try fixture.device("c")
        for device in [c, a, b] { _ = try await device.synchronize().value }
        #expect(try titles(a) == titles(b) && titles(c) == titles(a) && titles(a).count == 11)
        #expect(try await a.verify().value.problems.isEmpty)
    }

    @Test("A replica isn't built again while the remote lacks own edits that the replica has forgotten")
    func rebuildingTooEarly() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for device in [a, b] { _ = try await device.synchronize().value }
        // The other device publishes no edits, so that the remote lacks none of it.
        for _ in 0..<2 {
            try await write(by: a)
            #expect(try await b.vacuum().value.isBaselineWritten)
        }
        for _ in 0..<3 { try await write(by: a) }
        let memory = try #require(try a.synchronizationMemory())
        #expect(memory.removed == 1)
        #expect(try await keptSets(a) == [2, 3, 4, 5])
        let former = try titles(a)
        let other = try b.client()
        let files = try fixture.files()
        let lost = files.keys.filter {
            $0.contains("RecentSyncs/\(memory.client)-") || $0.contains("WholeStore/\(other)/")
        }
        #expect(lost.count > 2)
        for path in lost { try fixture.put(nil, at: path) }
        var request = SynchronizationRequest(url: a.store)
        request.rebuildsReplica = true
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize(request).value }
        #expect(error?.code == .remoteUnavailable && error?.message.contains("that this device has published") == true)
        #expect(error?.message.contains("synchronize on that client") == false)
        #expect(try titles(a) == former)
        for path in lost { try fixture.put(files[path], at: path) }
        _ = try await a.synchronize(request).value
        _ = try await b.synchronize().value
        #expect(try titles(a) == former && titles(b) == former)
    }
}
