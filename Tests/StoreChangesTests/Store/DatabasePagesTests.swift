import DatabaseSupport
import Foundation
import GRDB
import TestSupport
import Testing

@Suite("Reading a database as a file", .timeLimit(.minutes(60)))
struct DatabasePagesTests {
    private let folder = TemporaryFolder()

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

    /// A copy of what a connection's transaction sees.
    private func copied(_ db: Database) throws -> [UInt8] {
        let url = folder.appending(path: "copy.sqlite")
        let copy = try DatabaseQueue(path: url.path)
        try copy.writeWithoutTransaction { try db.backup(to: $0) }
        try copy.close()
        return Self.withoutHeader(try [UInt8](Data(contentsOf: url)))
    }

    /// The header differs in a copy.
    private static func withoutHeader(_ bytes: [UInt8]) -> [UInt8] { Array(repeating: 0, count: 100) + bytes[100...] }

    private func read(_ db: Database, afterEachPart body: (Int64) -> Void = { _ in }) throws -> [UInt8] {
        let pages = try #require(try DatabasePages(of: db))
        var bytes: [UInt8] = []
        while case let part = try pages.read(db, at: Int64(bytes.count), upTo: 65_536), !part.isEmpty {
            bytes += part
            body(Int64(bytes.count))
        }
        #expect(Int64(bytes.count) == pages.byteCount)
        return Self.withoutHeader(bytes)
    }

    @Test(
        "A database read as a file has what the transaction sees, whatever the pages' size",
        arguments: ["delete", "wal"],
        [512, 4_096, 65_536]
    )
    func all(journalMode: String, pageSize: Int) throws {
        let store = try store(journalMode: journalMode, pageSize: pageSize)
        if journalMode == "wal" { #expect(try store.read { try DatabasePages(of: $0) == nil }) }
        try store.writeWithoutTransaction { try DatabasePages.emptyLog(of: $0) }
        try store.read { db in
            #expect(try DatabasePages(of: db)?.pageSize == pageSize)
            let expected = try copied(db)
            #expect(expected.count > 3_000_000)
            #expect(try read(db) == expected)
        }
    }

    @Test("A database read as a file has what the transaction sees while an app commits and empties its log")
    func writtenMeanwhile() throws {
        let app = try store(journalMode: "wal", pageSize: 4_096)
        let reader = try DatabaseQueue(path: app.path)
        try reader.writeWithoutTransaction { try DatabasePages.emptyLog(of: $0) }
        try reader.read { db in
            let expected = try copied(db)
            var errors: [any Error] = []
            let found = try read(db) { offset in
                do {
                    try app.writeWithoutTransaction { db in
                        try db.execute(
                            sql: "UPDATE note SET body = randomblob(1000) WHERE id % 11 = \(offset >> 16 % 11)"
                        )
                        try db.execute(sql: "PRAGMA wal_checkpoint(PASSIVE)")
                    }
                } catch {
                    errors.append(error)
                }
            }
            #expect(errors.isEmpty)
            #expect(found == expected)
        }
        let check = try reader.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") }
        #expect(check == "ok")
    }

    @Test("A database isn't a file while another connection reads its log, which is left as it is")
    func logInUse() throws {
        let app = try store(journalMode: "wal", pageSize: 4_096)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: app.path, configuration: configuration)
        try other.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN; SELECT count(*) FROM note")
        }
        try app.execute("UPDATE note SET body = 'milk' WHERE id = 7")
        try app.writeWithoutTransaction { try DatabasePages.emptyLog(of: $0) }
        #expect(try app.read { try DatabasePages(of: $0) == nil })
        try other.writeWithoutTransaction { db in
            #expect(try Int.fetchOne(db, sql: "SELECT length(body) FROM note WHERE id = 7") == 1000)
            try db.execute(sql: "COMMIT")
        }
        try app.writeWithoutTransaction { try DatabasePages.emptyLog(of: $0) }
        #expect(try app.read { try DatabasePages(of: $0) != nil })
    }

    @Test("Reading a file that is truncated during the transaction fails, and works when its content is back")
    func truncated() throws {
        let store = try store(journalMode: "delete", pageSize: 4_096)
        let content = try Data(contentsOf: URL(filePath: store.path))
        try store.read { db in
            let (whole, pages) = (try read(db), try #require(try DatabasePages(of: db)))
            let file = try FileHandle(forUpdating: URL(filePath: store.path))
            try file.truncate(atOffset: UInt64(content.count / 2))
            try db.execute(sql: "PRAGMA shrink_memory")
            #expect(try DatabasePages(of: db) == nil)
            #expect(throws: DatabaseError.self) { try pages.read(db, at: 0, upTo: content.count) }
            try file.seek(toOffset: 0)
            try file.write(contentsOf: content)
            try file.close()
            let again = try read(db)
            #expect(again == whole)
        }
    }
}
