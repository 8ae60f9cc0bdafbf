import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import Synchronization
import Testing

@testable import StoreChanges

@Suite("A synchronized store", .timeLimit(.minutes(60)))
struct SynchronizedStoreTests {
    /// Two devices with a store each, in a folder that goes with the test.
    final class Fixture: Sendable {
        let folder = FileManager.default.temporaryDirectory.appending(path: "\(UUID())", directoryHint: .isDirectory)

        init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }
        deinit { try? FileManager.default.removeItem(at: folder) }

        func storeURL(_ client: String) -> URL { folder.appending(path: "\(client).sqlite") }

        /// An app's connection, as other programs have it.
        func app(_ client: String) throws -> DatabaseQueue {
            let queue = try DatabaseQueue(path: storeURL(client).path)
            try queue.execute("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)")
            return queue
        }

        func open(
            _ device: String,
            as client: String? = nil,
            through app: (any DatabaseWriter)? = nil,
            observer: StepObserver = .none,
            largestReread: Int64 = 32 << 20
        ) throws -> SynchronizedStore {
            try SynchronizedStore(
                storeAt: storeURL(device),
                replicaAt: folder.appending(path: "\(device).replica"),
                SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: client ?? device)),
                options: SynchronizedStore.Options(app: app, largestReread: largestReread, observer: observer)
            )
        }
    }

    private func titles(_ app: DatabaseQueue) throws -> [String] {
        try app.titles()
    }

    @Test("Two devices that edit at once have both edits after an exchange, and replicas continue where they stopped")
    func exchange() throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        try phone.execute("INSERT INTO note (title) VALUES ('bread')")
        let first = try fixture.open("laptop").synchronized(with: [])
        #expect(first.captured.count == 1 && first.written.isEmpty)
        let second = try fixture.open("phone").synchronized(with: first.captured)
        #expect(second.written["note"] == ChangeCounts(inserted: 1, updated: 0, deleted: 0))
        _ = try fixture.open("laptop").synchronized(with: second.captured)
        #expect(try titles(laptop) == ["bread", "milk"])
        #expect(try titles(phone) == ["bread", "milk"])
        #expect(try fixture.open("laptop").content() == fixture.open("phone").content())
        #expect(try fixture.open("laptop").recordSet() == nil)
        #expect(try fixture.open("phone").recordSet() == nil)
    }

    @Test("A cancelled task captures, integrates and writes nothing; the next one does, and the app's settings stay")
    func cancelled() async throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        for client in ["laptop", "phone"] { _ = try fixture.open(client).synchronized(with: []) }
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        try phone.execute("INSERT INTO note (title) VALUES ('bread')")
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        for received in [[], sets] {
            let cancelled = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                _ = try fixture.open("phone", through: phone).synchronized(with: received)
            }
            await #expect(throws: CancellationError.self) { try await cancelled.value }
            #expect(try titles(phone) == ["bread"])
            #expect(try await phone.read { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } == true)
        }
        let outcome = try fixture.open("phone", through: phone).synchronized(with: sets)
        #expect(outcome.captured.flatMap(\.changes).count == 1)
        #expect(try titles(phone) == ["bread", "milk"])
    }

    @Test("Rows without a key are written, though nothing else is")
    func rowsWithoutKey() throws {
        let fixture = try Fixture()
        let apps = [try fixture.app("laptop"), try fixture.app("phone")]
        for app in apps { try app.execute("CREATE TABLE visit (place TEXT)") }
        for client in ["laptop", "phone"] { _ = try fixture.open(client).synchronized(with: []) }
        try apps[0].execute("INSERT INTO visit VALUES ('market')")
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        _ = try fixture.open("phone").synchronized(with: sets)
        #expect(try apps[1].query("SELECT place FROM visit") == ["market"])
    }

    @Test("A process that has opened a replica which was built again since records nothing in the former one")
    func replacedReplica() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        let former = try fixture.open("laptop")
        _ = try former.synchronized(with: [])
        let (replica, other) = (former.replicaDatabase.path, fixture.folder.appending(path: "other").path)
        try FileManager.default.copyItem(atPath: replica, toPath: other)
        try #require(rename(other, replica) == 0)
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        let error = #expect(throws: StoreChangesError.self) { try former.recordSet() }
        #expect(error?.code == .busy)
        #expect(try fixture.open("laptop").recordSet()?.changes.count == 1)
    }

    /// Two stores whose numbers of people differ, so that a pair is in ascending order only in the first one.
    private func storesWithPair(_ fixture: Fixture) throws -> (laptop: DatabaseQueue, phone: DatabaseQueue) {
        let apps = (laptop: try fixture.app("laptop"), phone: try fixture.app("phone"))
        for app in [apps.laptop, apps.phone] {
            try app.execute(
                """
                CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE pair (
                    id INTEGER PRIMARY KEY, first INT REFERENCES person (id), second INT REFERENCES person (id),
                    CHECK (first < second)
                );
                CREATE TABLE remark (id INTEGER PRIMARY KEY, pair INT REFERENCES pair (id), text TEXT);
                """
            )
        }
        try apps.phone.execute("INSERT INTO person VALUES (1, 'Zoe'), (10, 'Yan')")
        try apps.laptop.execute(
            """
            INSERT INTO person VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cem');
            INSERT INTO pair VALUES (1, 1, 2), (2, 2, 3);
            INSERT INTO remark VALUES (1, 1, 'friends'), (2, 2, 'neighbours');
            INSERT INTO note (title) VALUES ('milk')
            """
        )
        return apps
    }

    @Test(
        "Rows that the store refuses wait, with the rows that refer to them; all others are written, and edits captured"
    )
    func refusals() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try storesWithPair(fixture)
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        let first = try fixture.open("phone").synchronized(with: sets)
        #expect(first.captured.count == 1)
        #expect(first.refusals.map(\.table) == ["pair", "remark"] && first.refusals.map(\.count) == [1, 1])
        #expect(first.refusals.first?.reason.contains("first < second") == true)
        func rows(_ app: DatabaseQueue, _ sql: String) throws -> [String] {
            try app.query(sql)
        }
        let texts = "SELECT text FROM remark JOIN pair ON pair.id = remark.pair ORDER BY text"
        #expect(try rows(phone, texts) == ["neighbours"])
        #expect(try titles(phone) == ["milk"])
        // No absence is taken for an edit, and nothing is written while nothing changes.
        let idle = try fixture.open("phone").synchronized(with: [])
        #expect(idle.captured.isEmpty && idle.written.isEmpty && idle.refusals == first.refusals)
        try phone.execute("UPDATE note SET body = 'two'; UPDATE person SET name = 'Bo' WHERE name = 'Bob'")
        let second = try fixture.open("phone").synchronized(with: [])
        #expect(second.captured.flatMap(\.changes).count == 2 && second.refusals == first.refusals)
        _ = try fixture.open("laptop").synchronized(with: first.captured + second.captured)
        #expect(try rows(laptop, texts) == ["friends", "neighbours"])
        #expect(try fixture.open("laptop").content() == fixture.open("phone").content())
        // A row that fits is written later, and with it the others.
        try laptop.execute("UPDATE pair SET first = NULL WHERE id = 1")
        let third = try fixture.open("laptop").synchronized(with: []).captured
        let last = try fixture.open("phone").synchronized(with: third)
        #expect(last.refusals.isEmpty)
        #expect(try rows(phone, texts) == ["friends", "neighbours"])
        #expect(try fixture.open("phone").synchronized(with: []).captured.isEmpty)
        #expect(try fixture.open("laptop").content() == fixture.open("phone").content())
    }

    @Test("An edit that refers to a row whose deletion waits brings the row back")
    func waitingDeletion() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try storesWithPair(fixture)
        try laptop.execute("DELETE FROM remark; DELETE FROM pair; INSERT INTO pair VALUES (1, NULL, 3)")
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        let first = try fixture.open("phone").synchronized(with: sets)
        #expect(first.refusals.isEmpty)
        _ = try fixture.open("laptop").synchronized(with: first.captured)
        try laptop.execute("UPDATE pair SET first = 1, second = 2; DELETE FROM person WHERE name = 'Cem'")
        let second = try fixture.open("laptop").synchronized(with: []).captured
        let waiting = try fixture.open("phone").synchronized(with: second)
        #expect(waiting.refusals.map(\.table) == ["pair", "person"])
        try phone.execute("INSERT INTO pair (second) SELECT id FROM person WHERE name = 'Cem'")
        let third = try fixture.open("phone").synchronized(with: []).captured
        _ = try fixture.open("laptop").synchronized(with: third)
        let pairs = "SELECT name FROM pair JOIN person ON person.id = pair.second ORDER BY name"
        #expect(try laptop.query(pairs) == ["Bob", "Cem"])
        #expect(try fixture.open("laptop").content() == fixture.open("phone").content())
    }

    @Test("A row that was refused isn't taken for deleted if the process dies after the others were written")
    func deathAfterRefusal() throws {
        struct Died: Error {}
        let fixture = try Fixture()
        let (_, phone) = try storesWithPair(fixture)
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        let dying = StepObserver { if $0 == "written" { throw Died() } }
        #expect(throws: Died.self) { try fixture.open("phone", observer: dying).synchronized(with: sets) }
        #expect(try titles(phone) == ["milk"])
        // Nor if the app changes its schema before it's known what was written.
        try phone.execute("ALTER TABLE note ADD COLUMN color TEXT")
        let next = try fixture.open("phone").synchronized(with: [])
        #expect(next.captured.isEmpty && next.refusals.map(\.count) == [1, 1])
    }

    @Test("A trigger with text in double quotes runs when rows are merged")
    func doubleQuotes() throws {
        let fixture = try Fixture()
        var configuration = Configuration()
        configuration.acceptsDoubleQuotedStringLiterals = true
        for client in ["laptop", "phone"] {
            _ = try fixture.app(client)
            try DatabaseQueue(path: fixture.storeURL(client).path, configuration: configuration).execute(
                #"""
                CREATE TABLE task (id INTEGER PRIMARY KEY, state TEXT CHECK (state IN ("open", "done")));
                CREATE TABLE seen_migrations (what TEXT);
                CREATE TRIGGER seen AFTER INSERT ON task BEGIN INSERT INTO seen_migrations VALUES ("a task"); END;
                """#
            )
        }
        try DatabaseQueue(path: fixture.storeURL("laptop").path, configuration: configuration).execute(
            "INSERT INTO task VALUES (1, 'open')"
        )
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        _ = try fixture.open("phone").synchronized(with: sets)
        let phone = try DatabaseQueue(path: fixture.storeURL("phone").path)
        #expect(try phone.query("SELECT what FROM seen_migrations") == ["a task"])
    }

    @Test("A store that is opened again with the same statements has the same schema, and another one with others")
    func schemaMemory() throws {
        let app = try DatabaseQueue()
        let memory = SchemaMemory()
        for sql in ["CREATE TABLE note (id INTEGER PRIMARY KEY)", "ALTER TABLE note ADD COLUMN title TEXT", "VACUUM"] {
            try app.writeWithoutTransaction { db in
                try db.execute(sql: sql)
                for _ in 0..<2 { #expect(try memory.schema(of: db, .none) == StoreSchema(db)) }
            }
        }
        let rules = SyncRules(excludedTables: ["note"])
        #expect(try app.read { try memory.schema(of: $0, rules) }.tables.isEmpty)
    }

    @Test("A process that has opened the replica as a former client records nothing, and the present client does")
    func formerClient() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        let former = try fixture.open("laptop")
        _ = try former.synchronized(with: [])
        let present = try fixture.open("laptop", as: "notebook")
        try present.adopt()
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        let error = #expect(throws: StoreChangesError.self) { try former.recordSet() }
        #expect(error?.code == .busy)
        let set = try present.recordSet()
        #expect(set?.changes.count == 1 && set?.header.id.client == ClientID(rawValue: "notebook"))
    }

    @Test("Edits of different columns of a row on two devices are both kept")
    func differentColumns() throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (id, title, body) VALUES (1, 'milk', '')")
        let set = try #require(try fixture.open("laptop").recordSet())
        let store = try fixture.open("phone")
        _ = try store.synchronized(with: [set])
        try laptop.execute("UPDATE note SET body = 'two litres'")
        let update = try #require(try fixture.open("laptop").recordSet())
        try phone.execute("UPDATE note SET title = 'oat milk'")
        let outcome = try store.synchronized(with: [update])
        #expect(outcome.captured.count == 1)
        _ = try fixture.open("laptop").synchronized(with: outcome.captured)
        for app in [laptop, phone] {
            let row = try app.read { try Row.fetchOne($0, sql: "SELECT title, body FROM note") }
            #expect(row == ["title": "oat milk", "body": "two litres"])
        }
    }

    @Test("An edit that an app makes between capture and write is captured too", arguments: [1, 2])
    func editMeanwhile(count: Int) throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        let set = try #require(try fixture.open("laptop").recordSet())
        let edits = Mutex(0)
        let store = try fixture.open(
            "phone",
            observer: StepObserver { step in
                guard step == "captured",
                    edits.withLock({
                        $0 += 1; return $0
                    }) <= count
                else { return }
                try phone.execute("INSERT INTO note (title) VALUES ('bread')")
            }
        )
        let outcome = try store.synchronized(with: [set])
        #expect(outcome.captured.count == count)
        #expect(outcome.written["note"] == ChangeCounts(inserted: 1))
        #expect(try titles(phone) == Array(repeating: "bread", count: count) + ["milk"])
        #expect(try store.recordSet() == nil)
    }

    @Test(
        "A migration during a synchronization makes it try again",
        arguments: ["DROP COLUMN body", "RENAME title TO name"]
    )
    func migrationMeanwhile(change: String) throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.execute("INSERT INTO note (title, body) VALUES ('milk', 'oat')")
        let store = try fixture.open("laptop")
        _ = try store.synchronize(with: [])
        try app.execute("ALTER TABLE note \(change)")
        try app.execute("DELETE FROM note")
        let error = #expect(throws: StoreChangesError.self) { try store.synchronize(with: []) }
        #expect(error?.code == .busy && error?.message.contains("schema") == true)
        #expect(try fixture.open("laptop").synchronize(with: []).captured.count == 1)
    }

    @Test("A few edits of many rows are found, in both journal modes", arguments: ["WAL", "DELETE"])
    func fewOfMany(mode: String) throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
        try app.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 2000)
                    INSERT INTO note SELECT n, 'note ' || n, hex(zeroblob(100)) FROM numbers
                    """
            )
        }
        #expect(try fixture.open("laptop").recordSet()?.changes.count == 2000)
        for number in [1, 1000, 2000] {
            try app.write {
                try $0.execute(sql: "UPDATE note SET title = 'milk' WHERE id = ?", arguments: [number])
                try $0.execute(sql: "DELETE FROM note WHERE id = ?", arguments: [number / 2 + 100])
                try $0.execute(sql: "INSERT INTO note (title) VALUES ('bread')")
            }
            #expect(try fixture.open("laptop").recordSet()?.changes.count == 3)
            #expect(try fixture.open("laptop").recordSet() == nil)
        }
    }

    @Test("Edits are found, and with them their time, while another connection reads an older state")
    func logInUse() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        try app.write { db in
            for number in 0..<500 {
                try db.execute(
                    sql: "INSERT INTO note (title, body) VALUES (?, hex(zeroblob(100)))",
                    arguments: [number]
                )
            }
        }
        func setModificationDate(_ seconds: Int) throws -> UInt64 {
            let date = Date(timeIntervalSince1970: Double(seconds))
            for file in [app.path, app.path + "-wal"] {
                try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: file)
            }
            return UInt64(seconds) * 1000
        }
        _ = try setModificationDate(1_700_000_000)
        #expect(try fixture.open("laptop", largestReread: 0).recordSet()?.changes.count == 500)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: app.path, configuration: configuration)
        for (number, isRead) in [true, false, true].enumerated() {
            try app.write {
                try $0.execute(sql: "UPDATE note SET title = 'milk' WHERE id = ?", arguments: [number + 1])
            }
            if isRead { try reader.inDatabase { try $0.execute(sql: "BEGIN; SELECT count(*) FROM note") } }
            try app.write { try $0.execute(sql: "DELETE FROM note WHERE id = ?", arguments: [number + 100]) }
            let time = try setModificationDate(1_700_000_001 + number)
            let set = try fixture.open("laptop", largestReread: 0).recordSet()
            #expect(set?.changes.count == 2 && set?.header.stamp.rawValue == time)
            let log = try FileManager.default.attributesOfItem(atPath: app.path + "-wal")[.size] as? Int
            #expect((log ?? 0 > 0) == isRead)
            #expect(try fixture.open("laptop", largestReread: 0).recordSet() == nil)
            if isRead { try reader.inDatabase { try $0.execute(sql: "COMMIT") } }
        }
    }

    @Test(
        "A log is moved into the file before it's read, unless the log is large",
        arguments: [(1, true), (70, false)]
    )
    func movedLog(megabytes: Int, isMoved: Bool) throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
            for _ in 0..<megabytes { try db.execute(sql: "INSERT INTO note (body) VALUES (zeroblob(1000000))") }
        }
        let former = StoreStatus(ofStoreAt: app.path).modified
        let store = try StoreConnection(storeAt: fixture.storeURL("laptop"), through: nil)
        try store.read(movingLog: true) { db, files in
            let logSize = try DatabasePages.logSize(of: db)
            #expect((logSize == 0) == isMoved)
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM note") == megabytes)
            let status = StoreStatus(ofStoreAt: app.path, log: try WriteAheadLog(of: db))
            #expect(files.modified == former && files.status == status)
            #expect(throws: DatabaseError.self) { try db.execute(sql: "DELETE FROM note") }
        }
    }

    @Test("The connection that reads an app's store observes that the app is suspended, even if the app's doesn't")
    func suspension() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        #expect(!app.configuration.observesSuspensionNotifications)
        let store = try StoreConnection(storeAt: fixture.storeURL("laptop"), through: app)
        #expect(try store.read { $0.configuration.observesSuspensionNotifications })
    }

    @Test("An app that doesn't wait for locks never finds its store locked while its log is moved into the file")
    func logOfApp() async throws {
        let fixture = try Fixture()
        _ = try fixture.app("laptop")
        let app = try DatabasePool(path: fixture.storeURL("laptop").path)
        let isWriting = Atomic(true)
        async let writing: Void = {
            defer { isWriting.store(false, ordering: .releasing) }
            for number in 0..<200 {
                try await app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES (?)", arguments: [number]) }
            }
        }()
        let store = try fixture.open("laptop", through: app, largestReread: 0)
        var count = 0
        func capture() throws { count += try store.recordChanges().reduce(0) { $0 + $1.changeCount } }
        while isWriting.load(ordering: .acquiring) { try capture() }
        try await writing
        try capture()
        #expect(count == 200)
    }

    @Test("An edit of another row between capture and write doesn't make a synchronization start over")
    func otherEditMeanwhile() throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note VALUES (1, 'milk', ''), (2, 'bread', '')")
        let first = try #require(try fixture.open("laptop").recordSet())
        _ = try fixture.open("phone").synchronized(with: [first])
        try laptop.execute("UPDATE note SET title = 'oat milk' WHERE id = 1")
        let second = try #require(try fixture.open("laptop").recordSet())
        let store = try fixture.open(
            "phone",
            observer: StepObserver { step in
                guard step == "captured" else { return }
                try phone.execute("UPDATE note SET title = 'rye bread' WHERE id = 2")
            }
        )
        let outcome = try store.synchronized(with: [second])
        #expect(outcome.captured.isEmpty)
        #expect(outcome.written["note"] == ChangeCounts(updated: 1))
        #expect(try titles(phone) == ["oat milk", "rye bread"])
        #expect(try store.recordSet()?.changes.count == 1)
    }

    private struct Death: Error {}

    @Test(
        "A synchronization that dies before or after the store changes is completed",
        arguments: ["captured", "written"]
    )
    func death(at step: String) throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        try phone.execute("INSERT INTO note (title) VALUES ('bread')")
        let set = try #require(try fixture.open("laptop").recordSet())
        let dying = try fixture.open("phone", observer: StepObserver { if $0 == step { throw Death() } })
        #expect(throws: Death.self) { try dying.synchronized(with: [set]) }
        #expect(try titles(phone) == (step == "captured" ? ["bread"] : ["bread", "milk"]))
        let outcome = try fixture.open("phone").synchronized(with: [])
        #expect(outcome.captured.isEmpty, "nothing is captured that the user didn't do")
        #expect(try titles(phone) == ["bread", "milk"])
        #expect(try fixture.open("phone").recordSet() == nil)
    }

    @Test(
        "A store from before an edit that was captured is refused, also if the synchronization died after the capture"
    )
    func oldTokenAfterDeath() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.execute("INSERT INTO note (title) VALUES ('milk')")
        _ = try fixture.open("laptop").synchronized(with: [])
        let backup = try DatabaseQueue()
        try app.backup(to: backup)
        try app.execute("INSERT INTO note (title) VALUES ('bread')")
        let dying = try fixture.open("laptop", observer: StepObserver { if $0 == "captured" { throw Death() } })
        #expect(throws: Death.self) { try dying.synchronized(with: []) }
        _ = try fixture.open("laptop").synchronized(with: [])
        try backup.backup(to: app)
        #expect {
            try fixture.open("laptop").synchronized(with: [])
        } throws: {
            ($0 as? StoreChangesError)?.code == .storeReplaced
        }
    }

    @Test("A captured store gets its new token although an app writes meanwhile and a trigger names a table")
    func tokenBesideEdit() throws {
        let fixture = try Fixture()
        let app = try fixture.app("laptop")
        try app.write { db in
            try db.execute(sql: "INSERT INTO note (title) VALUES ('milk')")
            try db.execute(
                sql: """
                    CREATE TRIGGER note_inserted AFTER INSERT ON note BEGIN
                        UPDATE note SET body = '' WHERE id = new.id;
                    END
                    """
            )
        }
        _ = try fixture.open("laptop").synchronized(with: [])
        let backup = try DatabaseQueue()
        try app.backup(to: backup)
        try app.execute("INSERT INTO note (title) VALUES ('bread')")
        let captures = Mutex(0)
        let store = try fixture.open(
            "laptop",
            observer: StepObserver { step in
                guard step == "captured" else { return }
                guard
                    captures.withLock({
                        $0 += 1; return $0
                    }) == 1
                else { throw Death() }
                try app.execute("INSERT INTO note (title) VALUES ('eggs')")
            }
        )
        let outcome = try store.synchronized(with: [])
        #expect(outcome.captured.flatMap(\.changes).count == 1 && outcome.written.isEmpty)
        try backup.backup(to: app)
        let error = #expect(throws: StoreChangesError.self) { try fixture.open("laptop").synchronized(with: []) }
        #expect(error?.code == .storeReplaced)
    }

    @Test("What the store and the replica commit is on the disk, as is the directory of a deleted journal")
    func durability() throws {
        let fixture = try Fixture()
        _ = try fixture.app("laptop")
        let store = try fixture.open("laptop")
        var settings: [Int?] = []
        func note(_ db: Database) throws { settings.append(try Int.fetchOne(db, sql: "PRAGMA synchronous")) }
        try store.replicaDatabase.read(note)
        try store.store.read(note)
        try store.store.write { db in
            try note(db)
            return .commit
        }
        // 3 is EXTRA.
        #expect(settings == [3, 3, 3])
    }

    @Test("A set waits for the sets before it, and for all sets that its author had seen", arguments: [false, true])
    func readiness(isFromThird: Bool) throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        let first = try #require(try fixture.open("laptop").recordSet())
        var author = "laptop"
        if isFromThird {
            author = "tablet"
            _ = try fixture.app(author)
            _ = try fixture.open(author).synchronized(with: [first])
        }
        try fixture.app(author).execute("UPDATE note SET title = 'oat milk'")
        let second = try #require(try fixture.open(author).recordSet())
        #expect(try fixture.open("phone").synchronized(with: [second]).written.isEmpty)
        #expect(try titles(phone).isEmpty)
        #expect(try fixture.open("phone").content() == StateContent())
        #expect(try fixture.open("phone").conflicts().isEmpty)
        _ = try fixture.open("phone").synchronized(with: [first])
        #expect(try titles(phone) == ["oat milk"])
    }

    @Test("A copy of a store, or a store restored from a backup, isn't taken for the user's edits")
    func replaced() throws {
        let fixture = try Fixture()
        let laptop = try fixture.app("laptop")
        try laptop.execute("INSERT INTO note (title) VALUES ('milk')")
        _ = try fixture.open("laptop").synchronized(with: [])
        try laptop.close()
        let backup = fixture.folder.appending(path: "backup")
        try FileManager.default.copyItem(at: fixture.storeURL("laptop"), to: backup)
        let later = try fixture.app("laptop")
        try later.execute("INSERT INTO note (title) VALUES ('bread')")
        _ = try fixture.open("laptop").synchronized(with: [])
        try later.close()
        try FileManager.default.removeItem(at: fixture.storeURL("laptop"))
        try FileManager.default.moveItem(at: backup, to: fixture.storeURL("laptop"))
        let error = #expect(throws: StoreChangesError.self) { try fixture.open("laptop").synchronized(with: []) }
        #expect(error?.code == .storeReplaced)
        #expect(error?.message.contains("--take local") == true)
    }

    @Test("D16: A capture that deletes more than half of a large table asks first, and changes nothing")
    func massDeletion() throws {
        let fixture = try Fixture()
        let laptop = try fixture.app("laptop")
        try laptop.write { db in
            for index in 0..<200 { try db.execute(sql: "INSERT INTO note (title) VALUES (?)", arguments: ["\(index)"]) }
        }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [])
        try laptop.execute("DELETE FROM note WHERE id > 50")
        let error = #expect(throws: StoreChangesError.self) { try store.synchronized(with: []) }
        #expect(error?.code == .massDeletion)
        #expect(error?.message.contains("150 of 200 rows of note") == true)
        #expect(try store.recordSet(allowsDeletions: true)?.changes.count == 150)
    }

    @Test(
        "A capture that deletes more than half of a large table without a key asks first; an update of all rows doesn't"
    )
    func massDeletionWithoutKey() throws {
        let fixture = try Fixture()
        let laptop = try fixture.app("laptop")
        try laptop.write { db in
            try db.execute(sql: "CREATE TABLE word (text TEXT)")
            for index in 0..<200 {
                try db.execute(sql: "INSERT INTO word (text) VALUES (?)", arguments: ["\(index / 2)"])
            }
        }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [])
        try laptop.execute("UPDATE word SET text = text || '!'")
        #expect(try store.synchronized(with: []).captured.count == 1)
        try laptop.execute("DELETE FROM word WHERE rowid > 50")
        let error = #expect(throws: StoreChangesError.self) { try store.synchronized(with: []) }
        #expect(error?.code == .massDeletion)
        #expect(error?.message.contains("150 of 200 rows of word") == true)
        #expect(try store.recordSet(allowsDeletions: true) != nil)
    }

    @Test("What merging overwrote is in the conflict log, with both values and the author")
    func conflicts() throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.write { try $0.execute(sql: "INSERT INTO note (id, title) VALUES (1, 'milk')") }
        let set = try #require(try fixture.open("laptop").recordSet())
        _ = try fixture.open("phone").synchronized(with: [set])
        _ = try fixture.open("laptop").synchronized(with: [])
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk'") }
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk'") }
        let first = try #require(try fixture.open("laptop").recordSet())
        let second = try #require(try fixture.open("phone").recordSet())
        _ = try fixture.open("laptop").synchronized(with: [second])
        _ = try fixture.open("phone").synchronized(with: [first])
        #expect(try titles(laptop) == titles(phone))
        let conflicts = try fixture.open("laptop").conflicts().map(\.conflict)
        #expect(conflicts == (try fixture.open("phone").conflicts().map(\.conflict)))
        let values = Set(conflicts.flatMap { Array($0.lost.values) + Array($0.kept.values) })
        #expect(conflicts.map(\.rule) == [.overwritten])
        #expect(values == [Cell.value(.text("oat milk")), .value(.text("soy milk"))])
    }

    /// The apps of two devices that have synchronized the same notes.
    private func apps(_ fixture: Fixture, with notes: String) throws -> (laptop: DatabaseQueue, phone: DatabaseQueue) {
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.write { try $0.execute(sql: "INSERT INTO note VALUES \(notes)") }
        let set = try #require(try fixture.open("laptop").recordSet())
        _ = try fixture.open("phone").synchronized(with: [set])
        _ = try fixture.open("laptop").synchronized(with: [])
        return (laptop, phone)
    }

    @Test("What a conflict lost is restored as an edit, which the other device gets")
    func restore() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, 'milk', 'a'), (2, 'bread', 'b')")
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk' WHERE id = 1") }
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'rye bread' WHERE id = 2") }
        let edit = try #require(try fixture.open("phone").recordSet())
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk' WHERE id = 1") }
        try laptop.write { try $0.execute(sql: "DELETE FROM note WHERE id = 2") }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [edit])
        let conflicts = try store.conflicts()
        #expect(Set(conflicts.map(\.conflict.rule)) == [.overwritten, .deletedEdited])
        let restored = try conflicts.flatMap { try store.restore($0.number) }
        #expect(try titles(laptop) == ["oat milk", "rye bread"])
        #expect(restored.map(\.changeCount) == [1, 1])
        #expect(try store.recordSet() == nil)
        let error = #expect(throws: StoreChangesError.self) { try store.restore(1_000) }
        #expect(error?.code == .conflictNotFound)
    }

    @Test("A value that the row has got since the conflict is in the log after the conflict was restored")
    func restoreOverNewerEdit() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, 'milk', 'a')")
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk'") }
        let edit = try #require(try fixture.open("laptop").recordSet())
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk'") }
        let store = try fixture.open("phone")
        _ = try store.synchronized(with: [edit])
        let entry = try #require(try store.conflicts().first)
        let (lost, kept) = (try #require(entry.conflict.lost["title"]), try #require(entry.conflict.kept["title"]))
        // What the conflict kept is replaced, and the log has it already.
        try store.restore(entry.number)
        #expect(try store.conflicts().count == 1)
        #expect(try [Cell.value(.text(titles(phone)[0]))] == [lost])
        _ = try store.synchronized(with: [])
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'rice milk'") }
        try store.restore(entry.number)
        #expect(try [Cell.value(.text(titles(phone)[0]))] == [lost])
        let last = try #require(try store.conflicts().last?.conflict)
        #expect(last.rule == .replacedByRestoring)
        #expect(last.lost == ["title": .value(.text("rice milk"))] && last.kept == ["title": lost] && lost != kept)
    }

    @Test("What a conflict lost can't be restored while an index can't be evaluated for it, and that is explained")
    func restoreUnevaluatedIndex() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, '$.a', NULL)")
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'nowhere'") }
        let edit = try #require(try fixture.open("laptop").recordSet())
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'elsewhere'") }
        _ = try fixture.open("phone").synchronized(with: [edit])
        try phone.write { db in
            try db.execute(sql: "UPDATE note SET title = '$.b', body = '{}'")
            try db.execute(sql: "CREATE INDEX note_value ON note (json_extract(body, title))")
        }
        let store = try fixture.open("phone")
        let entry = try #require(try store.conflicts().first)
        let error = #expect(throws: StoreChangesError.self) { try store.restore(entry.number) }
        #expect(error?.code == .cannotRestore)
        #expect(try titles(phone) == ["$.b"])
        #expect(try store.conflicts().count == 1)
    }

    @Test("A damaged record of what was restored keeps no conflict from being read")
    func damagedRecordOfRestored() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, 'milk', 'a')")
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk'") }
        let edit = try #require(try fixture.open("laptop").recordSet())
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk'") }
        let store = try fixture.open("phone")
        _ = try store.synchronized(with: [edit])
        try DatabaseQueue(path: fixture.folder.appending(path: "phone.replica").path).write {
            try $0.execute(sql: "INSERT INTO facts (name, value) VALUES ('restored', zeroblob(33))")
        }
        #expect(try store.conflicts().map(\.isRestored) == [false])
    }

    @Test("A restored row doesn't overwrite a newer row that has got its number")
    func restoreBesideNewRow() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, 'milk', 'a'), (2, 'bread', 'b')")
        try phone.write { try $0.execute(sql: "DELETE FROM note WHERE id = 2") }
        let edit = try #require(try fixture.open("phone").recordSet())
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'rye bread' WHERE id = 2") }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [edit])
        let entry = try #require(try store.conflicts().first { !$0.conflict.lost.isEmpty })
        try laptop.write { try $0.execute(sql: "DELETE FROM note WHERE id = 2") }
        _ = try store.synchronized(with: [])
        try laptop.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('tea')") }
        #expect(try laptop.read { try Int.fetchOne($0, sql: "SELECT id FROM note WHERE title = 'tea'") } == 2)
        try store.restore(entry.number)
        #expect(try titles(laptop).contains("tea"))
        #expect(try titles(laptop).count == 3)
    }

    @Test("A restored value isn't written into a newer row that got its row's number since the last capture")
    func restoreInsteadOfNewRow() throws {
        let fixture = try Fixture()
        let (laptop, phone) = try apps(fixture, with: "(1, 'milk', 'a'), (2, 'bread', 'b')")
        try phone.write { try $0.execute(sql: "UPDATE note SET title = 'rye bread' WHERE id = 2") }
        let edit = try #require(try fixture.open("phone").recordSet())
        try laptop.write { try $0.execute(sql: "UPDATE note SET title = 'white bread' WHERE id = 2") }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [edit])
        let entry = try #require(try store.conflicts().first)
        #expect(entry.conflict.rule == .overwritten)
        try laptop.write { try $0.execute(sql: "DELETE FROM note WHERE id = 2") }
        try laptop.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('tea')") }
        #expect(try laptop.read { try Int.fetchOne($0, sql: "SELECT id FROM note WHERE title = 'tea'") } == 2)
        try store.restore(entry.number)
        #expect(try titles(laptop).contains("tea"))
        #expect(try titles(laptop).count == 3)
    }

    @Test("A row has its author's number where that is free, and another number elsewhere")
    func numbers() throws {
        let fixture = try Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (id, title) VALUES (7, 'milk'), (9, 'bread')")
        try phone.execute("INSERT INTO note (id, title) VALUES (9, 'eggs')")
        let set = try #require(try fixture.open("laptop").recordSet())
        _ = try fixture.open("phone").synchronized(with: [set])
        let numbers = try phone.read { try Int.fetchAll($0, sql: "SELECT id FROM note ORDER BY title") }
        #expect(numbers == [10, 9, 7])
    }

    @Test("A number that SQLite gives to a second row is another row; an edit of the newest row is an edit")
    func reusedNumbers() throws {
        let fixture = try Fixture()
        let laptop = try fixture.app("laptop")
        try laptop.write { db in
            try db.execute(sql: "INSERT INTO note (title, body) VALUES ('milk', 'two'), ('bread', 'one')")
        }
        let store = try fixture.open("laptop")
        _ = try store.synchronized(with: [])
        try laptop.write { db in
            try db.execute(sql: "UPDATE note SET title = 'rye bread' WHERE title = 'bread'")
            try db.execute(sql: "UPDATE note SET title = 'oat milk', body = '2' WHERE title = 'milk'")
        }
        let edits = try #require(try store.recordSet())
        #expect(edits.changes.map(\.edit.isUpdate) == [true, true])
        try laptop.write { db in
            try db.execute(sql: "DELETE FROM note WHERE id = 2")
            try db.execute(sql: "INSERT INTO note (title, body) VALUES ('eggs', 'six')")
        }
        let reuse = try #require(try store.recordSet())
        #expect(reuse.changes.map(\.edit.isUpdate) == [false, false])
        #expect(Set(reuse.changes.map(\.row)).count == 2)
    }
}

extension Edit {
    fileprivate var isUpdate: Bool { if case .update = self { true } else { false } }
}
