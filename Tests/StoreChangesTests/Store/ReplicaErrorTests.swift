import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Errors of a replica's file", .timeLimit(.minutes(60)))
struct ReplicaErrorTests {
    @Test("A damaged page of the replica isn't blamed on the store, and the error names the remedy")
    func damagedPage() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('milk')") }
        _ = try fixture.open("laptop").synchronized(with: [])
        let store = try fixture.open("laptop")
        let path = store.replicaDatabase.path
        let (page, size) = try DatabaseQueue(path: path).read { db in
            (
                try #require(
                    try UInt64.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'conflicts'")
                ),
                try #require(try Int.fetchOne(db, sql: "PRAGMA page_size"))
            )
        }
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.seek(toOffset: (page - 1) * UInt64(size))
        // No page of a tree is of kind 7.
        try file.write(contentsOf: Data(repeating: 7, count: size))
        try file.close()
        let error = #expect(throws: StoreChangesError.self) { try store.conflicts() }
        #expect(error?.code == .corrupt)
        #expect(error?.message.contains("laptop.replica") == true && error?.message.contains("--rebuild") == true)
    }

    @Test("A damaged store is still named as such while its replica is whole")
    func damagedStore() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('milk')") }
        let store = try fixture.open("laptop")
        let error = #expect(throws: StoreChangesError.self) {
            try store.locked { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        }
        #expect(error?.code == .corrupt && error?.message.hasPrefix("laptop.sqlite is damaged") == true)
    }

    @Test("A full disk of the replica is reported with the replica's directory")
    func fullDisk() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [])
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES (hex(randomblob(1000000)))") }
        // The file can't become larger than it is.
        try store.replicaDatabase.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        let error = #expect(throws: StoreChangesError.self) { try store.recordSet() }
        #expect(error?.code == .cannotWrite)
        #expect(error?.message.contains("or in \(fixture.folder.path), can't be written") == true)
    }
}
