import DatabaseSupport
import Foundation
import GRDB
import TestSupport
import Testing

@Suite("What an error of SQLite says of a database's file", .timeLimit(.minutes(60)))
struct DatabaseFaultTests {
    private let folder = TemporaryFolder()

    private var path: String { folder.appending(path: "store.sqlite").path }

    /// Creates a database with this journal mode, and keeps it open.
    private func database(_ journalMode: String = "delete") throws -> DatabaseQueue {
        let database = try DatabaseQueue(path: path)
        try database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(journalMode)")
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT CHECK (body <> 'b'))")
            try db.execute(sql: "CREATE INDEX bodies ON note (body)")
            try db.execute(sql: "INSERT INTO note (body) VALUES ('a'), (hex(zeroblob(20000)))")
            // A row that a constraint refuses isn't damage.
            try db.execute(sql: "PRAGMA ignore_check_constraints = ON; INSERT INTO note (body) VALUES ('b')")
        }
        return database
    }

    private func fault(_ code: ResultCode) -> DatabaseFault? {
        DatabaseError(resultCode: code).fault(ofDatabaseAt: path)
    }

    @Test("Damage that SQLite reports of a whole file is a read that failed", arguments: ["delete", "wal"])
    func whole(journalMode: String) throws {
        let database = try database(journalMode)
        #expect(fault(.SQLITE_CORRUPT) == .reading && fault(.SQLITE_NOTADB) == .reading)
        #expect(fault(.SQLITE_CORRUPT_VTAB) == nil, "a search index may be out of date")
        try database.close()
        #expect(fault(.SQLITE_CORRUPT) == .reading)
    }

    @Test("A damaged page is damage, and so is a file that isn't a database")
    func damaged() throws {
        try database().close()
        var content = try Data(contentsOf: URL(filePath: path))
        // No page of a tree is of kind 7.
        content.replaceSubrange(4096..<8192, with: Data(repeating: 7, count: 4096))
        for content in [content, content.prefix(6000), Data(repeating: 7, count: 8192)] {
            try content.write(to: URL(filePath: path))
            #expect(fault(.SQLITE_CORRUPT) == .damage && fault(.SQLITE_NOTADB) == .damage)
        }
    }

    @Test("An index that lacks a row is damage")
    func index() throws {
        let database = try database()
        try database.writeWithoutTransaction { db in
            try db.execute(
                sql:
                    "PRAGMA writable_schema = ON; CREATE TABLE saved AS SELECT * FROM sqlite_schema WHERE name = 'bodies'"
            )
            try db.execute(sql: "DELETE FROM sqlite_schema WHERE name = 'bodies'")
        }
        try database.close()
        let other = try DatabaseQueue(path: path)
        try other.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO note (body) VALUES ('c'); PRAGMA writable_schema = ON")
            try db.execute(sql: "INSERT INTO sqlite_schema SELECT * FROM saved")
        }
        try other.close()
        #expect(fault(.SQLITE_CORRUPT) == .damage)
    }

    /// Gives the database a trigger in a syntax that no SQLite has yet.
    private func useLaterSyntax() throws {
        let database = try database()
        try database.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TRIGGER guard BEFORE INSERT ON note BEGIN SELECT 1; END")
            try db.execute(
                sql: "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = sql || ' LATER' WHERE name = 'guard'"
            )
        }
        try database.close()
    }

    @Test("A schema that SQLite can't parse is no damage in a whole file, and a damaged page beside it is")
    func unknownSchema() throws {
        try useLaterSyntax()
        #expect(fault(.SQLITE_CORRUPT) == .unknownSchema)
        let content = try Data(contentsOf: URL(filePath: path))
        var damaged = content
        damaged.replaceSubrange(4096..<8192, with: Data(repeating: 7, count: 4096))
        for content in [damaged, content.prefix(6000)] {
            try content.write(to: URL(filePath: path))
            #expect(fault(.SQLITE_CORRUPT) == .damage)
        }
    }

    @Test("A file that can't be read again isn't called damaged")
    func unreadable() throws {
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path)
        #expect(fault(.SQLITE_CORRUPT) == .reading && fault(.SQLITE_NOTADB) == .reading)
    }

    @Test("Errors of reading are told from those of writing, and content that isn't this package's is damage")
    func codes() throws {
        try database().close()
        for code in [ResultCode.SQLITE_IOERR_READ, .SQLITE_IOERR_CORRUPTFS, .SQLITE_IOERR_FSTAT] {
            #expect(fault(code) == .reading)
        }
        for code in [ResultCode.SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_FULL, .SQLITE_BUSY, .SQLITE_NOMEM] {
            #expect(fault(code) == nil)
        }
        #expect(DatabaseError.ofContent("a value can't be read").fault(ofDatabaseAt: path) == .damage)
    }
}
