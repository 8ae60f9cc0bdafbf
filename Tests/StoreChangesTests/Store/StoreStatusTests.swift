import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

@testable import StoreChanges

@Suite("The status of a store", .timeLimit(.minutes(60)))
struct StoreStatusTests {
    private let folder = TemporaryFolder()
    private var url: URL { folder.appending(path: "store.sqlite") }

    private func app(_ mode: String) throws -> DatabaseQueue {
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

    @Test("A file whose time is centuries away is read like any other", arguments: [-9_000_000_000, 1, 10_413_792_000])
    func distantTimes(seconds: Int) throws {
        let app = try app("delete")
        try app.execute("INSERT INTO note VALUES (1, 'milk')")
        let store = try store { .now }
        try store.begin()
        try app.execute("UPDATE note SET title = 'oat milk'")
        let time = timespec(tv_sec: seconds, tv_nsec: 0)
        try #require(utimensat(AT_FDCWD, url.path, [time, time], 0) == 0)
        #expect(StoreStatus(ofStoreAt: url.path).settled >= Date(timeIntervalSince1970: Double(seconds)))
        #expect(try store.synchronized(with: []).captured.flatMap(\.changes).count == 1)
    }

    @Test("An edit is captured whose commit was written into the log, but didn't show yet, in the last synchronization")
    func commitInProgress() throws {
        let app = try app("wal")
        try app.execute("INSERT INTO note VALUES (1, 'milk')")
        let store = try store { .now.addingTimeInterval(60) }
        try store.begin()
        _ = try store.synchronized(with: [])
        // Another process of the app keeps the log in use.
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: url.path, configuration: configuration)
        _ = try other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") }
        try app.execute("UPDATE note SET title = 'rice'")
        #expect(try store.synchronized(with: []).captured.count == 1)
        let index = try #require(FileHandle(forUpdatingAtPath: url.path + "-shm"))
        func header() throws -> Data {
            try index.seek(toOffset: 0)
            return try #require(try index.read(upToCount: 96))
        }
        let former = try header()
        try app.execute("UPDATE note SET title = 'oat milk'")
        let committed = try header()
        try index.seek(toOffset: 0)
        try index.write(contentsOf: former)
        try other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        #expect(try store.synchronized(with: []).captured.isEmpty)
        try other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try index.seek(toOffset: 0)
        try index.write(contentsOf: committed)
        try index.close()
        #expect(try app.read { try String.fetchOne($0, sql: "SELECT title FROM note") } == "oat milk")
        #expect(try store.synchronized(with: []).captured.count == 1)
    }

    @Test(
        "A transaction that has written into the log is noticed, also if it's the first in an empty log",
        arguments: [false, true]
    )
    func transactionInProgress(isEmpty: Bool) throws {
        let app = try app("wal")
        try app.execute("INSERT INTO note VALUES (1, 'milk')")
        if isEmpty { try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") } }
        let other = try DatabaseQueue(path: url.path)
        func isNoticed() throws -> Bool {
            try other.writeWithoutTransaction { db in
                _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM note")
                return try #require(try WriteAheadLog(of: db)).mayHavePagesOfNextCommit(db)
            }
        }
        #expect(try !isNoticed())
        try app.write { db in
            try db.execute(sql: "PRAGMA cache_size = 5")
            try db.execute(
                sql: "INSERT INTO note SELECT value, hex(zeroblob(2000)) FROM json_each('[2,3,4,5,6,7,8,9]')"
            )
            try db.execute(sql: "UPDATE note SET title = title || id")
            #expect(try isNoticed())
        }
        #expect(try !isNoticed())
    }

    @Test("Its owner's setting the log's owner again doesn't change it")
    func ownerSetAgain() throws {
        let app = try app("wal")
        let status = StoreStatus(ofStoreAt: url.path)
        try #require(chown(url.path + "-wal", getuid(), getgid()) == 0)
        #expect(StoreStatus(ofStoreAt: url.path) == status)
        withExtendedLifetime(app) {}
    }

    @Test("It changes with every commit, and not with reads", arguments: ["wal", "delete", "truncate", "persist"])
    func commits(mode: String) throws {
        let app = try app(mode)
        for index in 0..<3 {
            let before = StoreStatus(ofStoreAt: url.path)
            _ = try app.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") }
            #expect(StoreStatus(ofStoreAt: url.path) == before)
            try app.execute("INSERT INTO note (title) VALUES ('\(index)')")
            // Within one tick of the file system's clock only the size may differ: such a status isn't trusted.
            let after = StoreStatus(ofStoreAt: url.path)
            #expect(after != before || before.settled > .now)
        }
    }

    @Test("It isn't trusted within the file system's step of a write")
    func distrust() throws {
        _ = try app("delete")
        let values = try FileManager.default.attributesOfItem(atPath: url.path)
        let written = try #require(values[.modificationDate] as? Date)
        let step = StoreStatus(ofStoreAt: url.path).settled.timeIntervalSince(written)
        #expect(try hasMicroseconds() ? (0.04...0.06).contains(step) : (1.9...2.1).contains(step))
    }

    @Test("An edit after an idle synchronization is captured", arguments: ["wal", "delete"])
    func edits(mode: String) throws {
        let app = try app(mode)
        let store = try store { Date.now.addingTimeInterval(60) }
        _ = try store.synchronized(with: [])
        for index in 0..<3 {
            let before = StoreStatus(ofStoreAt: url.path)
            // The time says that the status is trusted, so the edit has to show in it.
            repeat {
                try app.execute("INSERT INTO note (title) VALUES ('\(index)')")
            } while StoreStatus(ofStoreAt: url.path) == before
            #expect(try store.synchronized(with: []).captured.count == 1)
            for _ in 0..<2 { #expect(try store.synchronized(with: []).captured.isEmpty) }
            #expect(try store.recordSet() == nil)
        }
    }

    @Test(
        "An edit with a rollback journal is captured that changes neither the file's size nor its times",
        arguments: ["NORMAL", "EXCLUSIVE"]
    )
    func timesStandStill(lockingMode: String) throws {
        let app = try app("delete")
        try app.execute("INSERT INTO note VALUES (1, 'milk')")
        let store = try store { .now.addingTimeInterval(60) }
        try store.begin()
        for _ in 0..<2 { _ = try store.synchronized(with: []) }
        let former = StoreStatus(ofStoreAt: url.path)
        #expect(try isUnchanged(store))
        let other = try DatabaseQueue(path: url.path)
        try other.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA locking_mode = \(lockingMode)")
            for title in ["rice", "oats"] { try db.execute(sql: "UPDATE note SET title = ?", arguments: [title]) }
        }
        try other.close()
        let present = StoreStatus(ofStoreAt: url.path)
        #expect(present.byteCount == former.byteCount)
        try store.locked {
            try store.replicaDatabase.write { _ in try store.replica.remember(status(former, withTimesOf: present)) }
        }
        #expect(try store.synchronized(with: []).captured.flatMap(\.changes).count == 1)
    }

    @Test("An edit that keeps the log's size is captured although the log's former time is set again")
    func logTimeSetAgain() throws {
        let app = try app("wal")
        try app.execute("INSERT INTO note VALUES (1, 'milk')")
        let store = try store { .now.addingTimeInterval(60) }
        try store.begin()
        try app.execute("UPDATE note SET title = 'rice'")
        // The next commit overwrites the log from its beginning.
        try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(RESTART)") }
        for _ in 0..<3 { _ = try store.synchronized(with: []) }
        #expect(try isUnchanged(store))
        let log = url.path + "-wal"
        var (former, present) = (stat(), stat())
        try #require(stat(log, &former) == 0)
        try app.execute("UPDATE note SET title = 'oats'")
        try #require(stat(log, &present) == 0)
        #expect(present.st_size == former.st_size)
        #if canImport(Darwin)
        let time = former.st_mtimespec
        #else
        let time = former.st_mtim
        #endif
        try #require(utimensat(AT_FDCWD, log, [time, time], 0) == 0)
        #expect(try store.synchronized(with: []).captured.flatMap(\.changes).count == 1)
    }

    @Test("It has how far a log is, which is the same after SQLite has read the log again")
    func logReadAgain() throws {
        let app = try app("wal")
        for id in 1...2 {
            try app.write { try $0.execute(sql: "INSERT INTO note VALUES (?, 'milk')", arguments: [id]) }
        }
        let copy = folder.appending(path: "copy.sqlite")
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: url.path + suffix, toPath: copy.path + suffix)
        }
        func status(_ db: Database) throws -> StoreStatus {
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM note")
            return StoreStatus(ofStoreAt: url.path, log: try WriteAheadLog(of: db))
        }
        let reading = try DatabaseQueue(path: copy.path).read(status)
        #expect(try app.read(status) == reading)
        #expect(reading != StoreStatus(ofStoreAt: url.path))
    }

    @Test(
        "A synchronization that has nothing to do leaves the store's files as they are",
        arguments: ["wal", "delete"]
    )
    func untouched(mode: String) throws {
        let app = try app(mode)
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        let store = try store { .now }
        _ = try store.synchronized(with: [])
        let version = try app.read { try Int.fetchOne($0, sql: "PRAGMA data_version") }
        _ = try store.synchronized(with: [])
        #expect(try app.read { try Int.fetchOne($0, sql: "PRAGMA data_version") } == version)
    }

    @Test("A table that synchronizes from now on is captured although the store is as it was")
    func rules() throws {
        try app("delete").execute("CREATE TABLE cache (id INTEGER PRIMARY KEY, text)")
        try DatabaseQueue(path: url.path).execute("INSERT INTO cache VALUES (1, 'milk')")
        let laptop = ClientID(rawValue: "laptop")
        func store(_ rules: SyncRules) throws -> SynchronizedStore {
            try SynchronizedStore(
                storeAt: url,
                replicaAt: folder.appending(path: "replica"),
                SynchronizedStore.Identity(document: "notes", client: laptop, rules: rules),
                options: SynchronizedStore.Options(now: { .now.addingTimeInterval(60) })
            )
        }
        let former = try store(SyncRules(excludedTables: ["cache"]))
        _ = try former.synchronized(with: [])
        #expect(try former.recordSet() == nil)
        #expect(try isUnchanged(former))
        #expect(try store(.none).recordSet()?.changes.map(\.table) == ["cache"])
    }

    @Test(
        "A commit shows in a store that is reached by a symbolic link, and in its status",
        arguments: ["wal", "delete"]
    )
    func link(mode: String) throws {
        let app = try app(mode)
        let link = folder.appending(path: "link.sqlite")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: url)
        let status = StoreStatus(ofStoreAt: link.path)
        // Within one tick of the file system's clock a commit may not show.
        repeat {
            try app.execute("INSERT INTO note (title) VALUES ('milk')")
        } while StoreStatus(ofStoreAt: url.path) == status
        #expect(StoreStatus(ofStoreAt: link.path) != status)
        #expect(StoreStatus(ofStoreAt: link.path) == StoreStatus(ofStoreAt: url.path))
        #expect(try StoreSchema(storeAt: link).tables.map(\.name) == ["note"])
    }

    // MARK: After a write

    private func appWithNotes(_ mode: String) throws -> DatabaseQueue {
        let app = try app(mode)
        try app.execute("INSERT INTO note VALUES (1, 'milk'), (2, 'bread')")
        return app
    }

    /// A set in which another device changed the first note.
    private func otherSet(with app: DatabaseQueue) throws -> SyncChangeSet {
        let url = folder.appending(path: "other.sqlite")
        let copy = try DatabaseQueue(path: url.path)
        try app.backup(to: copy)
        let other = try SynchronizedStore(
            storeAt: url,
            replicaAt: folder.appending(path: "other"),
            SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "phone"))
        )
        try other.begin()
        try copy.execute("UPDATE note SET title = 'soy milk' WHERE id = 1")
        return try #require(try other.recordSet())
    }

    private func store(
        through app: DatabaseQueue?,
        at step: String = "",
        _ edit: @escaping @Sendable () throws -> Void = {}
    ) throws -> SynchronizedStore {
        try SynchronizedStore(
            storeAt: url,
            replicaAt: folder.appending(path: "replica"),
            SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop")),
            options: SynchronizedStore.Options(
                app: app,
                largestReread: 0,
                observer: StepObserver { reached in if reached == step { try edit() } }
            )
        )
    }

    /// A store that an app edits when a synchronization reaches a step for the first time.
    private func store(
        through connection: DatabaseQueue?,
        at step: String,
        editedOnceThrough app: DatabaseQueue,
        _ sql: String
    ) throws -> SynchronizedStore {
        let isEdited = Mutex(false)
        return try store(through: connection, at: step) {
            guard !isEdited.withLock({ exchange(&$0, for: true) }) else { return }
            try app.execute(sql)
        }
    }

    private func isUnchanged(_ store: SynchronizedStore) throws -> Bool {
        try store.locked { try store.replicaDatabase.read { _ in try store.unchangedVersion(taking: nil) != nil } }
    }

    @Test(
        "After it was written it's known to be unchanged, until it's edited",
        arguments: ["wal", "delete"],
        [false, true]
    )
    func written(mode: String, throughApp: Bool) throws {
        let app = try appWithNotes(mode)
        try #require(try hasMicroseconds())
        let set = try otherSet(with: app)
        try store(through: nil).begin()
        do {
            let store = try store(through: throughApp ? app : nil)
            _ = try store.synchronized(with: [])
            #expect(try isUnchanged(store))
            #expect(try store.synchronized(with: [set]).written["note"]?.updated == 1)
            #expect(try isUnchanged(store))
        }
        if !throughApp {
            // Closing the connection must not change the files.
            let store = try store(through: nil)
            #expect(try isUnchanged(store))
        }
        let store = try store(through: nil)
        try app.execute("UPDATE note SET title = 'oat milk' WHERE id = 1")
        #expect(try !isUnchanged(store))
        #expect(try store.synchronized(with: []).captured.first?.changes.count == 1)
    }

    private func hasMicroseconds() throws -> Bool {
        var status = stat()
        try #require(stat(url.path, &status) == 0)
        #if canImport(Darwin)
        return status.st_ctimespec.tv_nsec % 1_000_000 != 0
        #else
        return status.st_ctim.tv_nsec % 1_000_000 != 0
        #endif
    }

    @Test(
        "An edit at any step of a synchronization that needs no capture is captured, and nothing is overwritten",
        arguments: ["wal", "delete"],
        [("captured", false), ("captured", true), ("written", false), ("written", true)]
    )
    func concurrent(mode: String, moment: (step: String, throughApp: Bool)) throws {
        let app = try appWithNotes(mode)
        let set = try otherSet(with: app)
        try store(through: nil).begin()
        _ = try store(through: nil).synchronized(with: [])
        let edit = "UPDATE note SET title = 'oat milk' WHERE id = 1"
        let store = try store(through: moment.throughApp ? app : nil, at: moment.step, editedOnceThrough: app, edit)
        let captured = try store.synchronized(with: [set]).captured + store.synchronized(with: []).captured
        #expect(captured.flatMap(\.changes).count == 1)
        let conflicts = try store.conflicts().map(\.conflict.lost)
        #expect(conflicts == (moment.step == "captured" ? [["title": .value(.text("soy milk"))]] : []))
        #expect(try app.read { try String.fetchOne($0, sql: "SELECT title FROM note WHERE id = 1") } == "oat milk")
    }

    @Test(
        "An edit of another row just before a write isn't taken for captured: the next synchronization captures it",
        arguments: ["wal", "delete"],
        [false, true]
    )
    func concurrentOther(mode: String, throughApp: Bool) throws {
        let app = try appWithNotes(mode)
        let set = try otherSet(with: app)
        try store(through: nil).begin()
        _ = try store(through: nil).synchronized(with: [])
        let edit = "UPDATE note SET title = 'rye bread' WHERE id = 2"
        let store = try store(through: throughApp ? app : nil, at: "captured", editedOnceThrough: app, edit)
        let first = try store.synchronized(with: [set])
        #expect(first.captured.isEmpty && first.written["note"]?.updated == 1)
        #expect(try !isUnchanged(store))
        #expect(try store.synchronized(with: []).captured.flatMap(\.changes).count == 1)
        let titles = try app.query("SELECT title FROM note ORDER BY id")
        #expect(titles == ["soy milk", "rye bread"])
    }

    /// Replaces a value, and returns the former one.
    private func exchange(_ value: inout Bool, for other: Bool) -> Bool {
        defer { value = other }
        return value
    }
}
