import FileSupport
import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Errors of a store's file", .timeLimit(.minutes(60)))
struct StoreErrorTests {
    @Test("A store in a directory that can't be searched isn't taken for a missing store")
    func unreachable() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        _ = try fixture.app("laptop")
        _ = try fixture.open("laptop")
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        let directory = fixture.folder.appending(path: "loop").path
        try FileManager.default.createSymbolicLink(atPath: directory, withDestinationPath: directory)
        let url = URL(filePath: directory + "/notes.sqlite")
        let replica = fixture.folder.appending(path: "laptop.replica")
        #expect(FileManager.default.fileExists(atPath: replica.path))
        for replica in [nil, replica] {
            let error = #expect(throws: StoreChangesError.self) {
                try StoreSchema.requireStore(at: url, ofReplicaAt: replica)
            }
            #expect(error?.code == .storeNotFound)
            #expect(
                error?.message.hasPrefix("\(url.path) can't be read") == true
                    && error?.message.hasSuffix("check the permissions of its directory.") == true,
                "\(error as Any)"
            )
        }
    }

    @Test("A schema that this SQLite can't parse needs a newer one, as the error says, and isn't called damaged")
    func laterSyntax() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE VIEW later AS SELECT 1; PRAGMA writable_schema = ON")
            try db.execute(sql: "UPDATE sqlite_schema SET sql = sql || ' OF LATER' WHERE name = 'later'")
        }
        try app.close()
        let opening = #expect(throws: StoreChangesError.self) { try fixture.open("laptop") }
        let reading = #expect(throws: StoreChangesError.self) { try StoreSchema(storeAt: fixture.storeURL("laptop")) }
        for error in [opening, reading] {
            #expect(error?.code == .unsupportedFormat)
            #expect(error?.message.contains("can't read the schema of laptop.sqlite") == true, "\(error as Any)")
        }
    }

    @Test("A store that can be read, but whose log can't be created, can't be written, as the error says")
    func noLog() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = wal") }
        try app.close()
        let log = fixture.storeURL("laptop").path + "-wal"
        try FileManager.default.createDirectory(atPath: log, withIntermediateDirectories: false)
        let error = #expect(throws: StoreChangesError.self) { try fixture.open("laptop") }
        #expect(error?.code == .cannotWrite)
        #expect(
            error?.message
                == "laptop.sqlite, or a file beside it, can't be written. Check permissions and free space."
        )
    }

    @Test("A store whose writer has died stays as it is, and the error says what opens it")
    func leftJournal() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        let url = fixture.folder.appending(path: "left.sqlite")
        // With a cache of one page, the journal and the file are written before the transaction ends.
        try app.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE page (id INTEGER PRIMARY KEY, body BLOB); PRAGMA cache_size = 1;
                    INSERT INTO page (body) VALUES (zeroblob(4000)), (zeroblob(4000)), (zeroblob(4000)), (zeroblob(4000));
                    BEGIN; UPDATE page SET body = randomblob(4000)
                    """
            )
            for suffix in ["", "-journal"] {
                let path = fixture.storeURL("laptop").path + suffix
                try FileManager.default.copyItem(atPath: path, toPath: url.path + suffix)
            }
            try db.execute(sql: "ROLLBACK")
        }
        let files = [url, URL(filePath: url.path + "-journal")]
        let before = try files.map { try Data(contentsOf: $0) }
        let error = #expect(throws: StoreChangesError.self) { try StoreSchema(storeAt: url) }
        #expect(error?.code == .cannotWrite)
        #expect(error?.message.hasPrefix("A program died while it wrote to left.sqlite") == true, "\(error as Any)")
        #expect(error?.message.contains("with its app") == true, "\(error as Any)")
        #expect(try files.map { try Data(contentsOf: $0) } == before)
        let count = try DatabaseQueue(path: url.path).read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM page WHERE body = zeroblob(4000)")
        }
        #expect(count == 4)
        #expect(try StoreSchema(storeAt: url).tables.contains { $0.name == "page" })
    }

    @Test("A store that can't be opened and can't be read is named as such")
    func unreadable() {
        let url = URL(filePath: "/nowhere/notes.sqlite")
        let error = StoreChangesError(DatabaseError(resultCode: .SQLITE_CANTOPEN), storeAt: url)
        #expect(error.code == .storeNotFound)
        #expect(error.message == "/nowhere/notes.sqlite can't be read. Check its permissions.")
    }

    @Test("A store that another program only reads isn't said to be written, and closing it there is named as a remedy")
    func inUse() {
        let error = StoreChangesError(DatabaseError(resultCode: .SQLITE_BUSY), storeAt: URL(filePath: "/notes.sqlite"))
        #expect(error.code == .busy)
        #expect(error.message == "notes.sqlite is being used by another program. Close it there, or try again.")
    }

    @Test("A log that the file system can't find isn't taken for a missing one")
    func unreachableLog() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        try fixture.app("laptop").close()
        let log = fixture.storeURL("laptop").path.canonicalPath.map { $0 + "-wal" } ?? ""
        try FileManager.default.createSymbolicLink(atPath: log, withDestinationPath: log)
        let error = #expect(throws: StoreChangesError.self) { try StoreSchema(storeAt: fixture.storeURL("laptop")) }
        #expect(error?.code == .cannotWrite && error?.message.hasPrefix("\(log) can't be read") == true)
    }

    @Test(
        "What isn't damage isn't called damage, and a store that can't be read isn't called unwritable"
    )
    func codes() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        try fixture.app("laptop").close()
        for (code, expected) in [
            (ResultCode.SQLITE_NOMEM, StoreChangesError.Code.cannotWrite), (.SQLITE_PROTOCOL, .busy),
            (.SQLITE_IOERR_READ, .cannotWrite), (.SQLITE_CORRUPT, .cannotWrite),
        ] {
            let error = StoreChangesError(DatabaseError(resultCode: code), storeAt: fixture.storeURL("laptop"))
            #expect(error.code == expected && !error.message.contains("can't be written"), "\(error)")
        }
    }
}
