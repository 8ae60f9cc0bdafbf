import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Reading all pages of a store", .timeLimit(.minutes(10)))
final class PageReaderTests {
    private let folder = FileManager.default.temporaryDirectory.appending(
        path: "\(UUID())",
        directoryHint: .isDirectory
    )

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// A store of about 3 MB, which is more than is read at once.
    private func store(journalMode: String, pageSize: Int) throws -> DatabaseQueue {
        let store = try DatabaseQueue(path: folder.appending(path: "store.sqlite").path)
        try store.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA page_size = \(pageSize)")
            try db.execute(sql: "PRAGMA journal_mode = \(journalMode)")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB)")
            try db.execute(
                sql: """
                    WITH RECURSIVE numbers (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM numbers WHERE id < 3000)
                    INSERT INTO note SELECT id, randomblob(1000) FROM numbers
                    """
            )
        }
        return store
    }

    /// The pages of a copy of what a connection's transaction sees, without the header, which differs in a copy.
    private func copiedPages(_ db: Database, pageSize: Int) throws -> [[UInt8]] {
        let url = folder.appending(path: "copy.sqlite")
        let copy = try DatabaseQueue(path: url.path)
        try copy.writeWithoutTransaction { try db.backup(to: $0) }
        try copy.close()
        let bytes = try [UInt8](Data(contentsOf: url))
        return stride(from: 0, to: bytes.count, by: pageSize).map {
            Self.withoutHeader(Array(bytes[$0..<$0 + pageSize]), at: $0)
        }
    }

    private static func withoutHeader(_ page: [UInt8], at offset: Int) -> [UInt8] {
        offset == 0 ? Array(repeating: 0, count: 100) + page[100...] : page
    }

    private func pages(_ db: Database, observing body: @escaping (Int) -> Void = { _ in }) throws -> [[UInt8]] {
        var pages: [Int: [UInt8]] = [:]
        try PageReader.forEachPage(of: db) { number, bytes in
            pages[number] = Self.withoutHeader(Array(bytes), at: number - 1)
            body(number)
        }
        return pages.sorted { $0.key < $1.key }.map(\.value)
    }

    @Test("returns those of the transaction, whatever their size", arguments: ["delete", "wal"], [512, 4_096, 65_536])
    func all(journalMode: String, pageSize: Int) throws {
        let store = try store(journalMode: journalMode, pageSize: pageSize)
        if journalMode == "wal" {
            // Some pages are in the file only, some in the log, and some in both.
            try store.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
            try store.write { try $0.execute(sql: "UPDATE note SET body = randomblob(1000) WHERE id % 7 = 0") }
        }
        try store.read { db in
            let expected = try copiedPages(db, pageSize: pageSize)
            #expect(expected.count > 40)
            #expect(try pages(db) == expected)
        }
    }

    @Test("returns those of the transaction while an app commits and copies its log into the file")
    func writtenMeanwhile() throws {
        let app = try store(journalMode: "wal", pageSize: 4_096)
        let reader = try DatabaseQueue(path: app.path)
        try app.write { try $0.execute(sql: "UPDATE note SET body = randomblob(1000) WHERE id % 7 = 0") }
        try reader.read { db in
            let expected = try copiedPages(db, pageSize: 4_096)
            var errors: [any Error] = []
            var commitCount = 0
            let found = try pages(db) { number in
                guard number % 40 == 1 else { return }
                do {
                    try app.writeWithoutTransaction { db in
                        try db.execute(sql: "UPDATE note SET body = randomblob(1000) WHERE id % 11 = \(number % 11)")
                        try db.execute(sql: "PRAGMA wal_checkpoint(PASSIVE)")
                    }
                    commitCount += 1
                } catch {
                    errors.append(error)
                }
            }
            #expect(errors.isEmpty)
            #expect(commitCount > 10)
            #expect(found == expected)
        }
        let check = try reader.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
        #expect(check == "ok")
    }

    @Test("A file that a program cuts off during the transaction is an error, and the connection reads what comes back")
    func truncated() throws {
        let store = try store(journalMode: "delete", pageSize: 4_096)
        let content = try Data(contentsOf: URL(filePath: store.path))
        try store.read { db in
            let whole = try pages(db)
            let file = try FileHandle(forUpdating: URL(filePath: store.path))
            try file.truncate(atOffset: UInt64(content.count / 2))
            try db.execute(sql: "PRAGMA shrink_memory")
            #expect(throws: DatabaseError.self) { try pages(db) }
            try file.seek(toOffset: 0)
            try file.write(contentsOf: content)
            try file.close()
            let again = try pages(db)
            #expect(again == whole)
        }
    }
}
