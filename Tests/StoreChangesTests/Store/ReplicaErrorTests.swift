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
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
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

    @Test(
        "A number or a digest that no replica has is damage, and the error names the remedy",
        arguments: [
            "UPDATE conflicts SET sequence = -1", "UPDATE conflicts SET stamp = -1", "UPDATE sets SET sequence = -1",
            "UPDATE sets SET digest = x'00'", "UPDATE facts SET value = x'00' WHERE name = 'clock'",
            "UPDATE facts SET value = x'FFFFFFFFFFFFFFFF' WHERE name = 'clock'",
            "INSERT INTO removals (client, sequence) VALUES ('tablet', -1)",
        ]
    )
    func damagedValue(sql: String) throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let apps = [try fixture.app("laptop"), try fixture.app("phone")]
        try apps[0].execute("INSERT INTO note (title) VALUES ('milk')")
        let first = try fixture.open("laptop").synchronized(with: []).captured
        _ = try fixture.open("phone").synchronized(with: first)
        for (app, title) in zip(apps, ["oat milk", "soy milk"]) {
            try app.write { try $0.execute(sql: "UPDATE note SET title = ?", arguments: [title]) }
        }
        let edit = try fixture.open("phone").synchronized(with: []).captured
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: edit)
        #expect(try store.conflicts().count == 1)
        try store.replicaDatabase.execute(sql)
        try apps[0].execute("INSERT INTO note (title) VALUES ('bread')")
        let error = #expect(throws: StoreChangesError.self) {
            _ = try store.conflicts()
            _ = try store.synchronized(with: [])
        }
        #expect(error?.code == .corrupt && error?.message.contains("--rebuild") == true)
    }

    @Test("A damaged store is still named as such while its replica is whole")
    func damagedStore() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        let store = try fixture.open("laptop")
        try app.close()
        let file = try FileHandle(forUpdating: fixture.storeURL("laptop"))
        try file.seek(toOffset: 4096)
        try file.write(contentsOf: Data(repeating: 7, count: 4096))
        try file.close()
        let error = #expect(throws: StoreChangesError.self) {
            try store.locked { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        }
        #expect(error?.code == .corrupt && error?.message.hasPrefix("laptop.sqlite is damaged") == true)
    }

    @Test("A read that fails is called damage neither of the store nor of the replica")
    func failedRead() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        _ = try fixture.app("laptop")
        let store = try fixture.open("laptop")
        for code in [ResultCode.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_IOERR_READ] {
            let error = #expect(throws: StoreChangesError.self) {
                try store.locked { throw DatabaseError(resultCode: code) }
            }
            #expect(error?.code == .cannotWrite)
            let files = "laptop.sqlite, or its record \(store.replicaDatabase.path), couldn't be read"
            #expect(error?.message.hasPrefix(files) == true, "\(error as Any)")
        }
    }

    @Test("A replica that the file system can't find isn't taken for a missing one")
    func unreachable() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        _ = try fixture.app("laptop")
        // A link to itself is an error for every user. Permissions wouldn't hold back root.
        let path = fixture.folder.appending(path: "laptop.replica").path
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: path)
        let replica = URL(filePath: path)
        for body in [
            { _ = try fixture.open("laptop") },
            { try SynchronizedStore.forgetStore(fixture.storeURL("laptop"), ofReplicaAt: replica) },
            {
                try SynchronizedStore.createReplica(
                    at: replica,
                    from: .init(store: fixture.storeURL("laptop")),
                    identity
                )
            },
        ] {
            let error = #expect(throws: StoreChangesError.self) { try body() }
            #expect(error?.code == .cannotWrite && error?.message.hasPrefix("\(path) can't be read") == true)
        }
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path) == path)
    }

    @Test("A replica that exists isn't replaced by the one of a device that joins")
    func joining() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        _ = try fixture.app("laptop")
        _ = try fixture.open("laptop").synchronized(with: [])
        let replica = fixture.folder.appending(path: "laptop.replica")
        let content = try Data(contentsOf: replica)
        let beginning = SynchronizedStore.Beginning(store: fixture.storeURL("laptop"))
        let error = #expect(throws: StoreChangesError.self) {
            try SynchronizedStore.createReplica(at: replica, from: beginning, identity)
        }
        #expect(error?.code == .busy && error?.message.hasSuffix("Synchronize again.") == true)
        #expect(try Data(contentsOf: replica) == content)
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path)
        #expect(!files.contains { $0.contains("building") })
    }

    private let identity = SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop"))

    @Test("A full disk of the replica is reported with the replica's directory")
    func fullDisk() throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let app = try fixture.app("laptop")
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [])
        try app.execute("INSERT INTO note (title) VALUES (hex(randomblob(1000000)))")
        // The file can't become larger than it is.
        try store.replicaDatabase.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        let error = #expect(throws: StoreChangesError.self) { try store.recordSet() }
        #expect(error?.code == .cannotWrite)
        #expect(error?.message.contains("or in \(fixture.folder.path), can't be written") == true)
    }
}
