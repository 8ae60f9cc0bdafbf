import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("Edits of a client that is removed by a device that hasn't seen them", .timeLimit(.minutes(60)))
struct RemovedClientEditTests {
    @Test(
        "A device that had merged them keeps them in its conflict log, from which they are restored",
        arguments: [false, true]
    )
    func removal(isReadByRebuilding: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b, c) = (try fixture.device("a"), try fixture.device("b"), try fixture.device("c"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO note VALUES (1, 'first')")
        for device in [a, b, c] { _ = try await device.synchronize().value }
        try c.execute("INSERT INTO note (title) VALUES ('early')")
        for device in [c, a, b] { _ = try await device.synchronize().value }
        let client = try c.client()
        func heads() throws -> [String: Data] {
            try fixture.files().filter { $0.key.contains("RecentSyncs/\(client)-") }
        }
        let former = try heads()
        try c.execute("INSERT INTO note (title) VALUES ('late')")
        try c.execute("UPDATE note SET title = 'changed' WHERE title = 'first'")
        for device in [c, b] { _ = try await device.synchronize().value }
        #expect(try b.titles() == ["changed", "early", "late"])
        // The first device's list of these files is late.
        let late = try heads()
        for path in late.keys { try fixture.put(nil, at: path) }
        for (path, bytes) in former { try fixture.put(bytes, at: path) }
        _ = try await a.remove(RemoteIdentifier(client), from: fixture.document).value
        _ = try await a.vacuum().value
        for path in former.keys where late[path] == nil { try? fixture.put(nil, at: path) }
        for (path, bytes) in late { try fixture.put(bytes, at: path) }

        _ = try await b.synchronize { $0.rebuildsReplica = isReadByRebuilding }.value
        for device in [a, b] { _ = try await device.synchronize().value }
        #expect(try a.titles() == ["early", "first"] && b.titles() == a.titles())
        var log = ConflictLog(ofStoreAt: b.store, state: b.state)
        let lost = try await log.entries().filter { $0.conflict.rule.rawValue == "clientRemoved" }
        #expect(lost.count == 2 && lost.allSatisfy { $0.author.set.client.rawValue == client }, "\(lost)")
        let values = Set(lost.compactMap { $0.conflict.lost["title"] })
        #expect(values == [.value(.text("late")), .value(.text("changed"))])
        // They stay when the replica is built again.
        _ = try await b.synchronize { $0.rebuildsReplica = true }.value
        log = ConflictLog(ofStoreAt: b.store, state: b.state)
        for entry in try await log.entries() where entry.conflict.rule.rawValue == "clientRemoved" {
            try await log.restore(entry.number)
        }
        for device in [b, a] { _ = try await device.synchronize().value }
        #expect(try b.titles() == ["changed", "early", "late"] && a.titles() == b.titles())
        // The removed device comes back as another client, and says which client it was.
        let error = await #expect(throws: StoreSyncError.self) { try await c.synchronize().value }
        #expect(error?.code == .identityTwice && error?.message.contains(client) == true)
        for device in [c, b, a, c] { _ = try await device.synchronize().value }
        for device in [a, b, c] { #expect(try device.titles() == ["changed", "early", "late"], "\(device.name)") }
    }

    @Test("A removed device whose replica is damaged says with --rebuild, too, which client it was, and loses no edit")
    func rebuilding() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        _ = try await a.synchronize().value
        let former = try fixture.files()
        try await b.synchronize(after: "INSERT INTO note (title) VALUES ('late')")
        // The first device never sees the edit.
        try fixture.restore(former)
        let client = try b.client()
        _ = try await a.remove(RemoteIdentifier(client), from: fixture.document).value
        _ = try await a.vacuum().value
        var request = SynchronizationRequest(url: b.store)
        for _ in 0..<2 {
            let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize(request).value }
            #expect(error?.code == .identityTwice && error?.message.contains(client) == true, "\(error as Any)")
            try Data(repeating: 7, count: 8192).write(to: #require(b.state.replicas().first))
            request.rebuildsReplica = true
        }
        _ = try await b.synchronize(request).value
        _ = try await a.synchronize().value
        #expect(try a.titles() == ["first", "late"])
    }

    @Test("A preview on a client that was removed says that only a synchronization makes it another client")
    func preview() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.devicesWithNotes("a", "b").pair
        try b.execute("INSERT INTO note (title) VALUES ('early')")
        for device in [b, a] { _ = try await device.synchronize().value }
        try b.execute("INSERT INTO note (title) VALUES ('late')")
        let client = try RemoteIdentifier(b.client())
        _ = try await a.remove(client, from: fixture.document).value
        _ = try await a.vacuum().value
        var request = SynchronizationRequest(url: b.store)
        request.isPreview = true
        for _ in 0..<2 {
            let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize(request).value }
            #expect(error?.code == .identityTwice && error?.message.contains("without a preview") == true)
        }
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .identityTwice && error?.message.contains("Synchronize again") == true)
        #expect(try await b.synchronize(request).value.publishedChanges == 1)
        #expect(try await b.synchronize().value.publishedChanges == 1)
        _ = try await a.synchronize().value
        #expect(try a.titles() == ["early", "first", "late"])
    }
}
