import Foundation
import GRDB
import Synchronization
import Testing

@testable import StoreChanges

@Suite("Building a replica again from the store with which it began", .timeLimit(.minutes(60)))
struct ReplicaRebuildingTests {
    private typealias Fixture = SynchronizedStoreTests.Fixture

    private let identity = SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop"))

    private func replica(_ fixture: Fixture) -> URL { fixture.folder.appending(path: "laptop.replica") }

    /// The app of a device that began with a store of one note, and a copy of that store.
    private func laptop(_ fixture: Fixture) throws -> (DatabaseQueue, SynchronizedStore.Beginning) {
        let app = try fixture.app("laptop")
        try app.execute("INSERT INTO note (title, body) VALUES ('milk', 'two litres')")
        let copy = fixture.folder.appending(path: "beginning.sqlite")
        try FileManager.default.copyItem(at: fixture.storeURL("laptop"), to: copy)
        let beginning = SynchronizedStore.Beginning(store: copy)
        try SynchronizedStore.createReplica(at: replica(fixture), from: beginning, identity)
        let outcome = try fixture.open("laptop").synchronized(with: [])
        try #require(outcome.captured.isEmpty)
        return (app, beginning)
    }

    private func rebuild(
        _ fixture: Fixture,
        from sources: SynchronizedStore.Sources,
        through app: DatabaseQueue? = nil
    ) throws -> Bool {
        try SynchronizedStore.rebuildReplica(
            at: replica(fixture),
            ofStoreAt: fixture.storeURL("laptop"),
            from: sources,
            identity,
            options: SynchronizedStore.Options(app: app)
        )
    }

    @Test("A replica isn't given up because one read failed: edits that aren't published are kept")
    func failedRead() throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try app.execute("DELETE FROM note")
        try app.close()
        let former = try Data(contentsOf: replica(fixture))
        let fails = Mutex(false)
        var configuration = Configuration()
        configuration.prepareDatabase { _ in
            let failsNow = fails.withLock { fails in
                defer { fails = false }
                return fails
            }
            // As SQLite reports a page that the medium doesn't give, once.
            if failsNow { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
        }
        let other = try DatabaseQueue(path: fixture.storeURL("laptop").path, configuration: configuration)
        fails.withLock { $0 = true }
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        let error = #expect(throws: StoreChangesError.self) { try rebuild(fixture, from: sources, through: other) }
        #expect(error?.code == .cannotWrite && error?.message.contains("couldn't be read") == true, "\(error as Any)")
        #expect(try Data(contentsOf: replica(fixture)) == former)
        #expect(try rebuild(fixture, from: sources, through: other))
        _ = try fixture.open("laptop").synchronized(with: [])
        #expect(try other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") } == 0)
    }

    @Test("An edit that another process records while the replica is built is kept")
    func recordedMeanwhile() throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try fixture.app("phone").execute("INSERT INTO note (title) VALUES ('bread')")
        let set = try #require(try fixture.open("phone").recordSet())
        _ = try fixture.open("laptop").synchronized(with: [set])
        let observed = ObservedSet(set) {
            try app.execute("UPDATE note SET title = 'oat milk' WHERE title = 'milk'")
            #expect(try fixture.open("laptop").recordSet()?.changes.count == 1)
        }
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [observed], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        let store = try fixture.open("laptop")
        #expect(try store.ownSets(1...9).map(\.changeCount) == [1])
        let outcome = try store.synchronized(with: [])
        #expect(outcome.captured.isEmpty && outcome.written.isEmpty)
        let titles = try app.titles()
        #expect(titles == ["bread", "oat milk"])
    }

    @Test(
        "A replica is built again although the store's schema has changed since",
        arguments: ["ADD COLUMN color TEXT DEFAULT 'red'", "DROP COLUMN body"]
    )
    func changedSchema(change: String) throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        let former = try app.write { db in
            try db.execute(sql: "ALTER TABLE note \(change); INSERT INTO note (title) VALUES ('bread')")
            try db.execute(sql: "UPDATE note SET title = 'oat milk' WHERE title = 'milk'")
            return try Row.fetchAll(db, sql: "SELECT * FROM note ORDER BY id")
        }
        _ = try fixture.open("laptop").synchronized(with: [])
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        try app.execute("INSERT INTO note (title) VALUES ('tea')")
        let outcome = try fixture.open("laptop").synchronized(with: [])
        #expect(outcome.captured.flatMap(\.changes).count == 1 && outcome.written.isEmpty)
        let rows = try app.read { try Row.fetchAll($0, sql: "SELECT * FROM note WHERE title <> 'tea' ORDER BY id") }
        #expect(rows == former)
    }

    @Test(
        "No replica is built again while a table can't synchronize any more, damaged or not",
        arguments: [false, true]
    )
    func unsuitableTable(isDamaged: Bool) throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try app.execute("CREATE UNIQUE INDEX places ON note (id * 2); UPDATE note SET title = 'oat milk'")
        if isDamaged { try Data("damaged".utf8).write(to: replica(fixture)) }
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        let error = #expect(throws: StoreChangesError.self) { try rebuild(fixture, from: sources) }
        #expect(error?.code == .unsuitableTable, "\(error as Any)")
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path)
        #expect(!files.contains { $0.contains("rebuilt") })
        try app.execute("DROP INDEX places")
        guard !isDamaged else { return }
        #expect(try fixture.open("laptop").recordSet()?.changes.count == 1)
    }

    @Test("Edits in a schema that the store had between the baseline's and its present one are read again")
    func formerSchema() throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try app.execute(
            """
            ALTER TABLE note ADD COLUMN color TEXT;
            INSERT INTO note (title, body, color) VALUES ('bread', 'one', 'brown')
            """
        )
        _ = try fixture.open("laptop").synchronized(with: [])
        try app.execute("ALTER TABLE note DROP COLUMN body")
        _ = try fixture.open("laptop").synchronized(with: [])
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        try app.execute("INSERT INTO note (title) VALUES ('tea')")
        let outcome = try fixture.open("laptop").synchronized(with: [])
        #expect(outcome.captured.flatMap(\.changes).count == 1 && outcome.written.isEmpty)
        let rows = "SELECT title || ' ' || ifnull(color, '-') FROM note ORDER BY title"
        #expect(try app.query(rows) == ["bread brown", "milk -", "tea -"])
    }

    /// Makes a device with two conflicts, and a baseline of it that lacks the first one.
    private func laptopWithConflicts(_ fixture: Fixture) throws -> ([LoggedConflict], SynchronizedStore.Beginning) {
        let (app, _) = try laptop(fixture)
        let phone = try fixture.app("phone")
        try phone.execute("INSERT INTO note (title) VALUES ('bread'), ('tea')")
        _ = try fixture.open("laptop").synchronized(with: [#require(try fixture.open("phone").recordSet())])
        try phone.execute("UPDATE note SET body = 'one'")
        try app.execute("UPDATE note SET body = 'two' WHERE title <> 'milk'")
        _ = try fixture.open("laptop").synchronized(with: [#require(try fixture.open("phone").recordSet())])
        let conflicts = try fixture.open("laptop").conflicts()
        #expect(conflicts.map(\.conflict.rule) == [.overwritten, .overwritten])
        let beginning = SynchronizedStore.Beginning(
            store: fixture.folder.appending(path: "later.sqlite"),
            checkpoint: fixture.folder.appending(path: "later.checkpoint")
        )
        let url = try #require(beginning.checkpoint)
        _ = try fixture.open("laptop").makeCheckpoint(at: url, withStoreAt: beginning.store)
        // As if the checkpoint had been too large with all of them.
        let checkpoint = try DatabaseQueue(path: url.path)
        try checkpoint.execute("DELETE FROM conflicts WHERE number = (SELECT min(number) FROM conflicts)")
        try checkpoint.close()
        return (conflicts, beginning)
    }

    @Test("A replica that is built again has each entry of the conflict log once, also the ones that no baseline has")
    func conflicts() throws {
        let fixture = try Fixture()
        let (conflicts, beginning) = try laptopWithConflicts(fixture)
        #expect(try rebuild(fixture, from: SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())))
        #expect(try fixture.open("laptop").conflicts() == conflicts)
    }

    @Test(
        "In a replica that is built again, conflicts keep their numbers and marks, and the baseline's others are news"
    )
    func conflictNumbers() throws {
        let fixture = try Fixture()
        let (conflicts, beginning) = try laptopWithConflicts(fixture)
        // As if another device had made the checkpoint: with its numbers, and with an entry of its own.
        let checkpoint = try DatabaseQueue(path: #require(beginning.checkpoint).path)
        try checkpoint.execute(
            """
            UPDATE conflicts SET number = \(conflicts[0].number);
            INSERT INTO conflicts (number, client, sequence, stamp, rule, tbl, name, lost, kept)
            SELECT \(conflicts[1].number), 'tablet', 0, stamp, rule, tbl, name, lost, kept FROM conflicts
            """
        )
        try checkpoint.close()
        try fixture.open("laptop").restore(conflicts[0].number)
        let former = try fixture.open("laptop").conflicts()
        #expect(former.map(\.isRestored) == [true, false])
        for _ in 0..<2 {
            let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
            #expect(try rebuild(fixture, from: sources))
            let (laptop, last) = (try fixture.open("laptop"), try #require(former.last?.number))
            let rebuilt = try laptop.conflicts()
            #expect(rebuilt.prefix(2) == former[...] && rebuilt.map(\.number) == former.map(\.number) + [last + 1])
            #expect(rebuilt.last?.conflict.set.client == ClientID(rawValue: "tablet"))
            #expect(try laptop.conflictCount(after: last) == 1 && laptop.lastConflict() == last + 1)
        }
    }

    @Test("A reference to a row that its app deleted alone has the row's name still, and isn't captured again")
    func leftReference() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.execute(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE item (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, text TEXT);
            INSERT INTO folder VALUES (1, 'home'), (2, 'work');
            INSERT INTO item VALUES (1, 2, 'report');
            """
        )
        let beginning = SynchronizedStore.Beginning(store: fixture.folder.appending(path: "beginning.sqlite"))
        try FileManager.default.copyItem(at: fixture.storeURL("laptop"), to: beginning.store)
        try SynchronizedStore.createReplica(at: replica(fixture), from: beginning, identity)
        _ = try fixture.open("laptop").synchronized(with: [])
        try app.writeWithoutTransaction {
            try $0.execute(
                sql: "PRAGMA foreign_keys = OFF; DELETE FROM folder WHERE name = 'work'; PRAGMA foreign_keys = ON"
            )
        }
        #expect(try fixture.open("laptop").synchronized(with: []).captured.flatMap(\.changes).count == 1)
        let rows = try fixture.open("laptop").content().rows.mapValues(\.cells)
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        #expect(try fixture.open("laptop").content().rows.mapValues(\.cells) == rows)
        let outcome = try fixture.open("laptop").synchronized(with: [])
        #expect(outcome.captured.isEmpty && outcome.written.isEmpty)
        #expect(try app.read { try Int.fetchAll($0, sql: "SELECT folder FROM item") } == [2])
    }

    /// A device that begins with a store whose schema its app has taken back since; and the sets that it captured then.
    private func takenBack(
        _ fixture: Fixture
    ) throws -> (DatabaseQueue, SynchronizedStore.Beginning, [SyncChangeSet]) {
        let (app, first) = try laptop(fixture)
        try app.execute("CREATE UNIQUE INDEX titles ON note (title)")
        let beginning = SynchronizedStore.Beginning(
            store: fixture.folder.appending(path: "newer.sqlite"),
            checkpoint: fixture.folder.appending(path: "newer.checkpoint")
        )
        _ = try fixture.open("laptop").makeCheckpoint(
            at: #require(beginning.checkpoint),
            withStoreAt: beginning.store
        )
        try app.execute("DROP INDEX titles; INSERT INTO note (title) VALUES ('bread')")
        #expect(try rebuild(fixture, from: SynchronizedStore.Sources(beginning: first, sets: [], news: LogNews())))
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        #expect(sets.map(\.header.schema.number) == [3])
        return (app, beginning, sets)
    }

    @Test("A replica is built again from a store whose schema the app has taken back since, damaged or not")
    func schemaTakenBack() throws {
        let fixture = try Fixture()
        let (app, beginning, sets) = try takenBack(fixture)
        for isDamaged in [false, true] {
            if isDamaged { try Data("damaged".utf8).write(to: replica(fixture)) }
            // Without the former replica, the set says that the schema is the newest.
            let sources = SynchronizedStore.Sources(
                beginning: beginning,
                sets: isDamaged ? sets : [],
                news: LogNews()
            )
            #expect(try rebuild(fixture, from: sources) != isDamaged)
            let outcome = try fixture.open("laptop").synchronized(with: [])
            #expect(outcome.captured.isEmpty && outcome.written.isEmpty)
            let titles = try app.titles()
            #expect(titles == ["bread", "milk"])
        }
    }

    @Test("A replica that can't be built again because the app is old leaves no file, and the error says what helps")
    func olderSchema() throws {
        let fixture = try Fixture()
        let (_, beginning, _) = try takenBack(fixture)
        try Data("damaged".utf8).write(to: replica(fixture))
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        let error = #expect(throws: StoreChangesError.self) { try rebuild(fixture, from: sources) }
        #expect(error?.code == .newerSchema && error?.message.contains("Update the app") == true)
        #expect(error?.message.contains("--rebuild") == false)
        let files = try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path)
        #expect(!files.contains { $0.contains("rebuilt") })
    }
}
