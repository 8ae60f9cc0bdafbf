import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Baselines that devices write by themselves", .timeLimit(.minutes(60)))
struct AutomaticBaselineTests {
    /// Devices that have synchronized a table of notes.
    private func devices(_ names: String..., in fixture: Fixture) async throws -> [Device] {
        let devices = try names.map { try fixture.device($0) }
        try devices[0].execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try devices[0].execute("INSERT INTO note (title) VALUES ('first')")
        for device in devices { _ = try await device.synchronize().value }
        return devices
    }

    /// Publishes an edit; two of them are reason enough for a baseline.
    private func edit(_ device: Device) async throws -> Synchronization {
        try device.execute("UPDATE note SET bytes = randomblob(600000)")
        return try await device.synchronize().value
    }

    private func client(_ device: Device) throws -> String { try #require(try device.synchronizationMemory()?.client) }

    /// The files of stores that a device has uploaded.
    private func uploads(_ device: Device, _ fixture: Fixture) throws -> Set<String> {
        let client = try client(device)
        return Set(try fixture.files().keys.filter { $0.contains("WholeStore/\(client)/") })
    }

    @Test("A baseline is announced at once, so that other devices upload none for the same edits")
    func announcement() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await devices("a", "b", in: fixture)
        let (a, b) = (all[0], all[1])
        for _ in 0..<2 { #expect(try await edit(a).warnings.isEmpty) }
        #expect(try a.synchronizationMemory()?.baselines.count == 1)
        let joiner = try fixture.device("joiner")
        for device in [b, joiner] {
            _ = try await device.synchronize().value
            #expect(try device.synchronizationMemory()?.baselines == a.synchronizationMemory()?.baselines)
            #expect(try uploads(device, fixture).isEmpty)
        }
    }

    @Test("A baseline that no head names is found on the remote before another one is written")
    func lookUp() async throws {
        let fixture = try Fixture(password: "correct horse")
        let all = try await devices("a", "b", in: fixture)
        let (a, b) = (all[0], all[1])
        for _ in 0..<2 { _ = try await edit(a) }
        _ = try await b.synchronize().value
        // As if the first device had died before it published a head that names its baseline.
        var memory = try #require(try b.synchronizationMemory())
        (memory.baselines, memory.bytesSinceBaseline) = ([], 10 << 20)
        try b.setSynchronizationMemory(memory)
        #expect(try await b.synchronize().value.warnings.isEmpty)
        #expect(try uploads(b, fixture).isEmpty)
        #expect(try b.synchronizationMemory()?.baselines == a.synchronizationMemory()?.baselines)
        #expect(try b.synchronizationMemory()?.bytesSinceBaseline == 0)
    }

    @Test("Devices that haven't written the newest baseline wait for different numbers of edits")
    func patience() throws {
        func sets(_ client: String, hasWrittenNewest: Bool = false) throws -> UInt64 {
            SynchronizationOperation.setsPerBaseline(
                of: try RemoteIdentifier(client),
                hasWrittenNewest: hasWrittenNewest
            )
        }
        let clients = (0..<8).map { "client-\($0)" }
        let numbers = try clients.map { try sets($0) }
        #expect(Set(numbers).count == clients.count && numbers.allSatisfy { (512..<768).contains($0) }, "\(numbers)")
        #expect(try clients.map { try sets($0) } == numbers)
        #expect(try sets(clients[0], hasWrittenNewest: true) == 256)
    }
}
