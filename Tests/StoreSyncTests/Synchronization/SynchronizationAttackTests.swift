import Foundation
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Synchronizing records on a storage that plants, loses and hides files", .timeLimit(.minutes(60)))
struct SynchronizationAttackTests {
    /// Two devices that have synchronized, and the titles of their notes.
    private func devices(_ fixture: Fixture) async throws -> (Device, Device) {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        _ = try await b.synchronize().value
        return (a, b)
    }

    private func titles(_ device: Device) throws -> Set<String> { try Set(device.query("SELECT title FROM note")) }

    private func heads(_ fixture: Fixture) throws -> [(path: String, name: SyncHeadName)] {
        try fixture.files().keys.compactMap { path in
            SyncHeadName(String(path.split(separator: "/").last ?? "")).map { (path, $0) }
        }
    }

    @Test("A file that is planted under the name of a newer head is named in a warning, and holds up no edit")
    func planted() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await devices(fixture)
        let planted = try heads(fixture).map { path, name in
            var forged = name
            forged.number = 1 << 61
            forged.unique = "0123456789abcdef"
            return path.replacing(name.name, with: forged.name)
        }
        #expect(planted.count == 2)
        for path in planted { try fixture.put(Data("garbage".utf8), at: path) }
        for (device, title) in [(a, "of a"), (b, "of b"), (a, ""), (b, "")] {
            if !title.isEmpty { try device.execute("INSERT INTO note (title) VALUES ('\(title)')") }
            let result = try await device.synchronize().value
            #expect(result.warnings.count { $0.contains("isn't sealed") } == 2, "\(result.warnings)")
        }
        #expect(try titles(a) == ["of a", "of b"])
        #expect(try titles(b) == ["of a", "of b"])
        #expect(try heads(fixture).filter { $0.name.number < 100 }.count == 2)
    }

    @Test("A missing file of one client's edits holds up no other client, and the edits arrive once it's there")
    func missingSegment() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        let c = try fixture.device("c")
        _ = try await c.synchronize().value
        try await a.synchronize(after: "INSERT INTO note (title, bytes) VALUES ('large', randomblob(100000))")
        try c.execute("INSERT INTO note (title) VALUES ('small')")
        let files = try fixture.files()
        let segment = try #require(files.first { $0.key.hasSuffix(".syncchg") })
        try fixture.put(nil, at: segment.key)
        // The third device doesn't have the large edit either, so that its own doesn't wait for it.
        #expect(try await c.synchronize().value.warnings.contains { $0.contains(".syncchg") })
        let result = try await b.synchronize().value
        #expect(result.warnings.contains { $0.contains(".syncchg") && $0.contains("again later") })
        #expect(try titles(b) == ["small"])
        try fixture.put(segment.value, at: segment.key)
        #expect(try await b.synchronize().value.warnings == [])
        #expect(try titles(b) == ["small", "large"])
    }

    @Test("A head that the storage has lost is published again")
    func lostHead() async throws {
        let fixture = try Fixture()
        let (a, _) = try await devices(fixture)
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('of a')")
        for (path, _) in try heads(fixture) { try fixture.put(nil, at: path) }
        _ = try await a.synchronize().value
        let c = try fixture.device("c")
        _ = try await c.synchronize().value
        #expect(try titles(c) == ["of a"])
    }

    @Test("What a device captured before it became another client is published all the same")
    func otherClient() async throws {
        let fixture = try Fixture()
        let dies = Locked(false)
        let a = try fixture.device("a") { step in
            if step == "captured", dies.withLock(\.self) { throw CancellationError() }
        }
        let b = try fixture.device("b")
        try await a.synchronize(after: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        try await a.synchronize(after: "INSERT INTO note (title, bytes) VALUES ('published', randomblob(100000))")
        try a.execute("INSERT INTO note (title) VALUES ('captured')")
        dies.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await a.synchronize().value }
        dies.withLock { $0 = false }
        _ = try a.state.replaceClientIdentifier(for: a.key)
        try await a.synchronize(after: "INSERT INTO note (title) VALUES ('of the new client')")
        _ = try await b.synchronize().value
        #expect(try titles(b) == ["published", "captured", "of the new client"])
        #expect(try await a.verify().value.problems.isEmpty)
    }
}
