import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("The status of a store", .timeLimit(.minutes(60)))
struct StoreStatusTests {
    private let folder = FileManager.default.temporaryDirectory.appending(
        path: "\(UUID())",
        directoryHint: .isDirectory
    )
    private var url: URL { folder.appending(path: "store.sqlite") }

    private func app(_ mode: String) throws -> DatabaseQueue {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let queue = try DatabaseQueue(path: url.path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(mode)")
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        }
        return queue
    }

    private func store(now: @escaping @Sendable () -> Date) throws -> SynchronizedStore {
        try SynchronizedStore(
            storeAt: url,
            replicaAt: folder.appending(path: "replica"),
            SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop")),
            options: SynchronizedStore.Options(now: now)
        )
    }

    @Test("It changes with every commit, and not with reads", arguments: ["wal", "delete", "truncate", "persist"])
    func commits(mode: String) throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let app = try app(mode)
        for index in 0..<3 {
            let before = StoreStatus(ofStoreAt: url.path)
            _ = try app.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") }
            #expect(StoreStatus(ofStoreAt: url.path) == before)
            try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('\(index)')") }
            // Within one tick of the file system's clock only the size may differ: such a status isn't trusted.
            let after = StoreStatus(ofStoreAt: url.path)
            #expect(after != before || !before.isTrusted(at: Int64(Date.now.timeIntervalSince1970)))
        }
    }

    @Test("It isn't trusted within two seconds of a write")
    func distrust() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try app("wal")
        let status = StoreStatus(ofStoreAt: url.path)
        let now = Int64(Date.now.timeIntervalSince1970)
        #expect(!status.isTrusted(at: now))
        #expect(status.isTrusted(at: now + 60))
    }

    @Test("An edit after an idle synchronization is captured", arguments: ["wal", "delete"])
    func edits(mode: String) throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let app = try app(mode)
        let store = try store { Date.now.addingTimeInterval(60) }
        _ = try store.synchronize(with: [])
        for index in 0..<3 {
            let before = StoreStatus(ofStoreAt: url.path)
            // The time says that the status is trusted, so the edit has to show in it.
            repeat {
                try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('\(index)')") }
            } while StoreStatus(ofStoreAt: url.path) == before
            #expect(try store.synchronize(with: []).captured.count == 1)
            for _ in 0..<2 { #expect(try store.synchronize(with: []).captured.isEmpty) }
            #expect(try store.recordChanges() == nil)
        }
    }

    @Test(
        "A synchronization that has nothing to do leaves the store's files as they are",
        arguments: ["wal", "delete"]
    )
    func untouched(mode: String) throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let app = try app(mode)
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('milk')") }
        let store = try store { .now }
        _ = try store.synchronize(with: [])
        let version = try app.read { try Int.fetchOne($0, sql: "PRAGMA data_version") }
        _ = try store.synchronize(with: [])
        #expect(try app.read { try Int.fetchOne($0, sql: "PRAGMA data_version") } == version)
    }
}
