import Operations
import RemoteStorage
import StoreChanges
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Warnings about what a synchronization couldn't write into the store", .timeLimit(.minutes(60)))
struct StoreWarningTests {
    @Test("A row that the store refuses is named in a warning, and the device's own edits are published")
    func refusedRow() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = try await fixture.pair(
            sharing: """
                CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE pair (id INTEGER PRIMARY KEY, first INT REFERENCES person, second INT REFERENCES person,
                    CHECK (first < second))
                """
        )
        try b.execute("INSERT INTO person VALUES (1, 'Zoe'), (10, 'Yan')")
        try a.execute("INSERT INTO person VALUES (1, 'Ada'), (2, 'Bob'); INSERT INTO pair VALUES (1, 1, 2)")
        _ = try await a.synchronize().value
        for published in [2, 0] {
            let result = try await b.synchronize().value
            #expect(result.publishedChanges == published)
            #expect(result.warnings.contains { $0.contains("1 row of pair can't be written") }, "\(result.warnings)")
            #expect(result.isComplete, "no file of another device would change that")
        }
        #expect(try b.query("SELECT name FROM person ORDER BY name") == ["Ada", "Bob", "Yan", "Zoe"])
    }

    @Test("The first synchronization of each device names tables that can't synchronize as defined, and no others")
    func unsuitableTables() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE draft (title TEXT);
            CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
            CREATE TABLE slot (id INTEGER PRIMARY KEY);
            CREATE UNIQUE INDEX pair ON slot (id / 2);
            CREATE VIEW titles AS SELECT title FROM note;
            CREATE VIRTUAL TABLE search USING fts5 (title, content = note, content_rowid = id);
            CREATE TABLE artist (name TEXT PRIMARY KEY COLLATE swiftLocalizedCompare);
            CREATE TABLE tag (name TEXT PRIMARY KEY) WITHOUT ROWID;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'KEY', 'KEY COLLATE unicase') WHERE name = 'tag';
            PRAGMA writable_schema = RESET;
            """
        )
        let rules = SyncRules(excludedTables: ["draft"])
        let first = try await a.synchronize { $0.rules = rules }.value.warnings
        #expect(first.count == 1 && first[0].contains(": artist, slot, tag. Run storesync check"), "\(first)")
        #expect(try await b.synchronize().value.warnings == first)
        for device in [a, b] { #expect(try await device.synchronize().value.warnings.isEmpty) }
    }

    @Test("Tables that can't synchronize are named by the first synchronization that completes")
    func unsuitableTablesAfterFailure() async throws {
        let fixture = try Fixture()
        let device = Locked<Device?>(nil)
        let a = try fixture.device("a") { step in
            guard step.hasPrefix("before write of "), let name = step.split(separator: "/").last,
                let head = SyncHeadName(String(name)), let device = device.withLock(\.self)
            else { return }
            guard head.sequence == 0 else { throw RemoteError(.unavailable, "The test's network is gone.") }
            // An edit that is merged, and published by a second head.
            try device.execute("INSERT INTO note (title) VALUES ('edited')")
        }
        try a.execute(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE slot (id INTEGER PRIMARY KEY);
            CREATE UNIQUE INDEX pair ON slot (id / 2);
            """
        )
        device.withLock { $0 = a }
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize().value }
        #expect(error?.code == .remoteUnavailable, "\(error as Any)")
        #expect(try a.synchronizationMemory()?.lastStore != nil, "it has merged")
        device.withLock { $0 = nil }
        let warnings = try await a.synchronize().value.warnings
        #expect(warnings.count == 1 && warnings[0].contains(": slot. Run storesync check"), "\(warnings)")
        #expect(try await a.synchronize().value.warnings.isEmpty)
    }

    @Test("A table that an update of the app makes unfit stops every synchronization until it's mended, also a preview")
    func tableMadeUnsuitable() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try a.execute("INSERT INTO note VALUES (1, 'milk'), (2, 'rye'), (3, 'tea')")
        for device in [a, b] { _ = try await device.synchronize().value }
        try a.execute("CREATE UNIQUE INDEX places ON note (id * 2); UPDATE note SET title = 'oat milk' WHERE id = 1")
        try a.execute("DELETE FROM note WHERE id = 3")
        let plain = SynchronizationRequest(url: a.store)
        var (preview, rebuilding) = (plain, plain)
        (preview.isPreview, rebuilding.rebuildsReplica) = (true, true)
        for request in [plain, preview, rebuilding, plain] {
            let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize(request).value }
            #expect(error?.code == .unsuitableTable, "\(error as Any)")
            #expect(error?.message.contains("note: The unique value") == true, "\(error as Any)")
        }
        try a.execute("DROP INDEX places")
        #expect(try await a.synchronize().value.publishedChanges == 2)
        _ = try await b.synchronize().value
        for device in [a, b] { #expect(try device.query("SELECT title FROM note ORDER BY id") == ["oat milk", "rye"]) }
    }

    @Test("A warning names once what an update adds again after a former one removed it, also if publishing fails")
    func addedAgain() async throws {
        let fixture = try Fixture()
        let isOffline = Locked(false)
        let a = try fixture.device("a") { step in
            guard step.hasPrefix("before write of "), isOffline.withLock(\.self) else { return }
            throw RemoteError(.unavailable, "The test's network is gone.")
        }
        try a.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)")
        let draft = "CREATE TABLE draft (id INTEGER PRIMARY KEY, title TEXT)"
        try a.execute(draft)
        for update in [
            "", "ALTER TABLE note DROP COLUMN body; DROP TABLE draft", "ALTER TABLE note ADD COLUMN color TEXT",
        ] {
            try a.execute(update)
            #expect(try await a.synchronize().value.warnings.isEmpty)
        }
        try a.execute("ALTER TABLE note ADD COLUMN body TEXT; \(draft); INSERT INTO note (title) VALUES ('edited')")
        isOffline.withLock { $0 = true }
        let error = await #expect(throws: StoreSyncError.self) { try await a.synchronize().value }
        #expect(error?.code == .remoteUnavailable, "\(error as Any)")
        isOffline.withLock { $0 = false }
        let warnings = try await a.synchronize().value.warnings
        #expect(warnings.count == 1 && warnings[0].contains("removed: draft, note.body. "), "\(warnings)")
        #expect(warnings.allSatisfy { $0.contains("--rebuild") })
        #expect(try await a.synchronize().value.warnings.isEmpty)
    }

    @Test("A search index whose tokenizer only the app has is named in a warning, and the rows are written")
    func staleSearchIndex() async throws {
        let fixture = try Fixture()
        let (a, b) = try await fixture.pair(sharing: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try b.execute(
            """
            CREATE VIRTUAL TABLE search USING fts5 (title, content = note, content_rowid = id);
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, ')', ', tokenize = app)') WHERE name = 'search';
            PRAGMA writable_schema = RESET;
            """
        )
        try await a.synchronize(after: "INSERT INTO note VALUES (1, 'milk')")
        let warnings = try await b.synchronize().value.warnings
        #expect(warnings.contains { $0.contains("The index search is out of date") }, "\(warnings)")
        #expect(try b.query("SELECT title FROM note") == ["milk"])
        #expect(try await b.synchronize().value.warnings.isEmpty)
    }
}
