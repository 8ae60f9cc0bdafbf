import Foundation
import GRDB
import StoreChanges
import Synchronization
import Testing

/// Schemas that SQLite accepts and few apps have: their rows arrive, and none is lost.
@Suite("Unusual schemas", .timeLimit(.minutes(60)))
struct UnusualSchemaTests {
    /// The rows of a query on a device, without the quotes of text.
    private static func rows(_ device: SimulatedDevice, _ sql: String) throws -> [String] {
        try device.rows(sql).map { $0.replacing("\"", with: "") }
    }

    @Test(
        "References to integer keys are followed in columns of text and of floating-point numbers",
        arguments: [("TEXT", "'7'"), ("VARCHAR(8)", "'7'"), ("REAL", "7.0"), ("INT", "7")]
    )
    func convertedReferences(type: String, value: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder \(type) REFERENCES folder (id) ON DELETE CASCADE);
            CREATE TABLE visit (folder \(type) REFERENCES folder (id));
            """
        )
        try devices.phone.edit("INSERT INTO folder VALUES (7, 'trips')")
        try devices.laptop.edit("INSERT INTO folder VALUES (7, 'food'), (8, 'books')")
        // SQLite's own check of foreign keys doesn't find integer keys by floating-point numbers; queries do.
        try devices.laptop.edit(
            "INSERT INTO note VALUES (1, 'milk', \(value)); INSERT INTO visit VALUES (\(value))",
            observingForeignKeys: type != "REAL"
        )
        try devices.exchange()
        let query = "SELECT title, name, typeof(folder) FROM note JOIN folder ON folder.id = note.folder"
        let stored = ["TEXT": "text", "VARCHAR(8)": "text", "REAL": "real", "INT": "integer"][type] ?? ""
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, query) == ["milk|food|\(stored)"])
            #expect(try Self.rows(device, "SELECT name FROM visit JOIN folder ON folder.id = visit.folder") == ["food"])
            if type != "REAL" { #expect(try device.violations().isEmpty) }
        }
        guard type != "REAL" else { return }
        try devices.phone.edit("DELETE FROM visit; DELETE FROM folder WHERE name = 'food'")
        try devices.exchange()
        for table in ["note", "visit"] { #expect(try Self.rows(devices.laptop, "SELECT * FROM \(table)").isEmpty) }
        #expect(try devices.laptop.conflicts().isEmpty)
    }

    @Test(
        "References by floating-point numbers find text as SQLite converts them",
        arguments: [("NUMERIC", "1.5", "1.5"), ("REAL", "7", "7.0"), ("NUMERIC", "1e20", "1.0e+20")]
    )
    func convertedNumbers(type: String, value: String, text: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE release (version TEXT PRIMARY KEY);
            CREATE TABLE note (id INTEGER PRIMARY KEY, version \(type) REFERENCES release ON DELETE CASCADE);
            """
        )
        #expect(
            try devices.laptop.edit("INSERT INTO release VALUES ('\(text)'); INSERT INTO note VALUES (1, \(value))")
        )
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT id, typeof(version) FROM note") == ["1|real"])
            #expect(try device.conflicts().isEmpty && device.violations().isEmpty)
        }
        try devices.phone.edit("INSERT INTO note VALUES (2, \(value))")
        try devices.laptop.edit("DELETE FROM release")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT id FROM note").isEmpty)
            #expect(try device.conflicts().map(\.rule) == [.deletedWithParent])
        }
    }

    @Test("A value that isn't stored as the number it refers to stays as it is")
    func unconvertedReferences() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder REFERENCES folder (id));
            CREATE TABLE tag (id INTEGER PRIMARY KEY, folder TEXT REFERENCES folder (id));
            """
        )
        try devices.laptop.edit("INSERT INTO folder VALUES (7, 'food')")
        try devices.laptop.edit(
            "INSERT INTO note VALUES (1, '7'); INSERT INTO tag VALUES (1, '07')",
            observingForeignKeys: false
        )
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(
                try Self.rows(device, "SELECT folder, typeof(folder) FROM note UNION ALL SELECT folder, '' FROM tag")
                    == [
                        "7|text", "07|",
                    ]
            )
        }
    }

    @Test(
        "A default may be a name in double quotes, a word, or a function of the app",
        arguments: [#""""#, #""open""#, "pending", "[x]", "(random())"]
    )
    func defaults(expression: String) throws {
        let devices = try DevicePair(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, state TEXT DEFAULT \(expression))"
        )
        try devices.laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk'), (2, 'bread')")
        try devices.exchange()
        try devices.laptop.edit("DELETE FROM note WHERE id = 2; INSERT INTO note (title) VALUES ('tea')")
        try devices.exchange()
        #expect(try Self.rows(devices.phone, "SELECT title FROM note ORDER BY id") == ["milk", "tea"])
    }

    @Test("Unique values and constraints of generated columns hold after a merge")
    func generatedColumns() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT, folded TEXT AS (lower(name)) UNIQUE);
            CREATE TABLE range (
                id INTEGER PRIMARY KEY, low INT, high INT, width INT AS (high - low) STORED, CHECK (width >= 0)
            );
            """
        )
        try devices.laptop.edit("INSERT INTO range VALUES (1, 10, 20)")
        try devices.exchange()
        try devices.laptop.edit("INSERT INTO tag (name) VALUES ('Work'); UPDATE range SET low = 15")
        try devices.phone.edit("INSERT INTO tag (name) VALUES ('work'); UPDATE range SET high = 12")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT count(*) FROM tag") == ["1"])
            #expect(try device.refusals().isEmpty)
            #expect(try ["10|12", "15|20"].contains(Self.rows(device, "SELECT low, high FROM range").joined()))
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("A generated column that is NOT NULL has a value after a merge, and other columns merge by themselves")
    func requiredGeneratedColumn() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE person (
                id INTEGER PRIMARY KEY, nick TEXT, name TEXT, city TEXT, shown TEXT NOT NULL AS (coalesce(nick, name))
            );
            """
        )
        try devices.laptop.edit("INSERT INTO person VALUES (1, 'ada', 'Ada', 'Bonn')")
        try devices.exchange()
        try devices.laptop.edit("UPDATE person SET nick = NULL")
        try devices.phone.edit("UPDATE person SET name = NULL, city = 'Kiel'")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT nick, name, city FROM person").joined()
            #expect(["NULL|Ada|Kiel", "ada|NULL|Kiel"].contains(rows))
            #expect(try device.refusals().isEmpty)
            #expect(try device.conflicts().map(\.rule) == [.overwritten])
        }
    }

    @Test("Columns that can't be NULL merge by themselves, although a required generated column needs them")
    func generatedFromRequiredColumns() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE person (
                id INTEGER PRIMARY KEY, first TEXT NOT NULL, last TEXT NOT NULL, shown TEXT NOT NULL AS (first || ' ' || last)
            );
            """
        )
        try devices.laptop.edit("INSERT INTO person VALUES (1, 'Ada', 'Byron')")
        try devices.exchange()
        try devices.laptop.edit("UPDATE person SET first = 'Augusta'")
        try devices.phone.edit("UPDATE person SET last = 'Lovelace'")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT shown FROM person") == ["Augusta Lovelace"])
            #expect(try device.conflicts().isEmpty)
        }
    }

    @Test("A deleted row comes back if a required generated column needs a reference to it")
    func requiredGeneratedReference() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY);
            CREATE TABLE note (
                id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE SET NULL, place TEXT AS (folder) NOT NULL
            );
            """
        )
        try devices.laptop.edit("INSERT INTO folder VALUES (1)")
        try devices.exchange()
        try devices.laptop.edit("INSERT INTO note VALUES (1, 1)")
        try devices.phone.edit("DELETE FROM folder")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT folder FROM note JOIN folder ON note.folder = folder.id") == ["1"])
            #expect(try device.refusals().isEmpty)
        }
    }

    @Test("A constraint of a generated column concerns only the columns from which SQLite computes it")
    func constraintOfGeneratedColumn() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE range (
                id INTEGER PRIMARY KEY, low INT, high INT, title TEXT, note TEXT, width INT AS (high - low),
                CHECK (width >= 0)
            );
            """
        )
        try devices.laptop.edit("INSERT INTO range VALUES (1, 10, 20, 'a', 'b')")
        try devices.exchange()
        try devices.laptop.edit("UPDATE range SET title = 'first'")
        try devices.phone.edit("UPDATE range SET note = 'second'")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT title, note FROM range") == ["first|second"])
            #expect(try device.conflicts().isEmpty)
        }
    }

    @Test("A row without a key that an update of the app changes on each device is there once")
    func migrationWithoutKey() throws {
        let devices = try DevicePair("CREATE TABLE visit (place TEXT)")
        try devices.laptop.edit("INSERT INTO visit VALUES ('market'), ('market'), ('school')")
        try devices.exchange()
        try devices.phone.edit("INSERT INTO visit VALUES ('lake')")
        for device in [devices.laptop, devices.phone] {
            try device.migrate("ALTER TABLE visit ADD COLUMN day TEXT; UPDATE visit SET day = 'Monday'")
        }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT place, day FROM visit ORDER BY place")
            #expect(rows == ["lake|Monday", "market|Monday", "market|Monday", "school|Monday"])
        }
        #expect(try devices.laptop.conflicts().isEmpty && devices.phone.conflicts().isEmpty)
    }

    @Test("A table that an update of the app renames on each device loses nothing, nor do the rows that refer to it")
    func renamedTable() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, user INT REFERENCES user);
            CREATE TABLE member (user INT REFERENCES user, team TEXT, PRIMARY KEY (user, team));
            """
        )
        try devices.laptop.edit("INSERT INTO user VALUES (1, 'Ada'); INSERT INTO note VALUES (1, 1)")
        try devices.laptop.edit("INSERT INTO member VALUES (1, 'red')")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] { try device.migrate("ALTER TABLE user RENAME TO person") }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let query = "SELECT name, note.id, team FROM person JOIN note ON note.user = person.id NATURAL JOIN member"
            #expect(try Self.rows(device, query) == ["Ada|1|red"])
            #expect(try device.conflicts().isEmpty && device.violations().isEmpty)
        }
    }

    @Test("Equal rows without a key that users inserted before an update of the app are all there")
    func insertedBeforeMigration() throws {
        let devices = try DevicePair(
            "CREATE TABLE visit (place TEXT); CREATE TABLE note (id INTEGER PRIMARY KEY)"
        )
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            try device.edit("INSERT INTO visit VALUES ('market')")
            try device.migrate("ALTER TABLE note ADD COLUMN title TEXT")
        }
        try devices.exchange()
        #expect(try Self.rows(devices.phone, "SELECT place FROM visit") == ["market", "market"])
    }

    @Test("Rows without a key that become equal when a column goes are counted together")
    func droppedColumnWithoutKey() throws {
        let devices = try DevicePair("CREATE TABLE visit (place TEXT, day TEXT)")
        try devices.laptop.edit("INSERT INTO visit VALUES ('market', 'Monday'), ('market', 'Friday')")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] { try device.migrate("ALTER TABLE visit DROP COLUMN day") }
        try devices.exchange()
        try devices.laptop.edit("DELETE FROM visit WHERE rowid = (SELECT min(rowid) FROM visit)")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT * FROM visit") == ["market"])
        }
    }

    @Test("Rows without a key that became equal are counted right after a set that sorts before the last ones arrives")
    func droppedColumnAndLateSet() throws {
        let devices = try DevicePair(
            "CREATE TABLE visit (place TEXT, day TEXT); CREATE TABLE note (title TEXT)"
        )
        try devices.laptop.edit("INSERT INTO visit VALUES ('market', 'Monday'), ('market', 'Friday')")
        try devices.exchange()
        try devices.phone.edit("INSERT INTO note VALUES ('late')")
        try devices.phone.capture(at: 1)
        let late = try #require(devices.phone.sets.last)
        try devices.laptop.edit("INSERT INTO visit VALUES ('market', 'Sunday'); DELETE FROM visit WHERE day = 'Friday'")
        try devices.laptop.capture(at: 1_000)
        try devices.laptop.edit("INSERT INTO visit VALUES ('lake', 'Sunday')")
        try devices.laptop.capture(at: 2_000)
        try devices.laptop.write()
        try devices.laptop.migrate("ALTER TABLE visit DROP COLUMN day")
        try devices.laptop.capture(at: 3_000)
        try devices.laptop.receive([late])
        #expect(
            try Self.rows(devices.laptop, "SELECT place FROM visit ORDER BY place") == ["lake", "market", "market"]
        )
        #expect(try Self.rows(devices.laptop, "SELECT title FROM note") == ["late"])
    }

    @Test("A row with NULL in a key of all columns is the same row after an update of the app adds a column")
    func nullInKeyOfAllColumns() throws {
        let devices = try DevicePair("CREATE TABLE link (a TEXT, b TEXT, PRIMARY KEY (a, b))")
        try devices.laptop.edit("INSERT INTO link VALUES ('x', 'y'), ('x', NULL), ('z', NULL)")
        try devices.exchange()
        let addition = "ALTER TABLE link ADD COLUMN c TEXT DEFAULT 'new'"
        try devices.laptop.migrate(addition)
        #expect(try devices.laptop.capture() == nil)
        try devices.phone.edit("INSERT INTO link VALUES ('v', NULL); DELETE FROM link WHERE a = 'z'")
        let set = try #require(try devices.phone.capture())
        try devices.laptop.integrate([set])
        for device in [devices.laptop, devices.phone] { try device.write() }
        try devices.phone.migrate(addition)
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT * FROM link ORDER BY a, b")
            #expect(rows == ["v|NULL|new", "x|NULL|new", "x|y|new"])
            #expect(try device.conflicts().isEmpty)
        }
    }

    @Test("A natural key of other columns is another key, and what older apps write under the former one is logged")
    func otherNaturalKey() throws {
        let devices = try DevicePair("CREATE TABLE tag (name TEXT PRIMARY KEY, color TEXT)")
        try devices.laptop.edit("INSERT INTO tag VALUES ('home', 'red')")
        try devices.exchange()
        try devices.phone.migrate(
            """
            CREATE TABLE new (uuid TEXT PRIMARY KEY, name TEXT NOT NULL, color TEXT);
            INSERT INTO new SELECT 'id of ' || name, name, color FROM tag; DROP TABLE tag; ALTER TABLE new RENAME TO tag;
            """
        )
        try devices.laptop.edit("INSERT INTO tag VALUES ('work', 'blue')")
        let set = try #require(try devices.laptop.capture())
        try devices.phone.receive([set])
        #expect(try Self.rows(devices.phone, "SELECT uuid FROM tag") == ["id of home"])
        #expect(try devices.phone.conflicts().map(\.rule) == [.schemaChanged])
        #expect(try devices.phone.capture()?.changes.count == 1, "the row under its new key")
        #expect(try devices.phone.refusals().isEmpty)
    }

    @Test("A NULL of an older app becomes the default where the newer one refuses it")
    func stricterSchema() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk')")
        try devices.exchange()
        let migration = """
            CREATE TABLE new (id INTEGER PRIMARY KEY, title TEXT NOT NULL DEFAULT 'untitled');
            INSERT INTO new SELECT id, ifnull(title, 'untitled') FROM note; DROP TABLE note; ALTER TABLE new RENAME TO note;
            """
        try devices.phone.migrate(migration)
        try devices.laptop.edit("INSERT INTO note VALUES (2, NULL); UPDATE note SET title = NULL WHERE id = 1")
        let set = try #require(try devices.laptop.capture())
        try devices.phone.receive([set])
        #expect(try Self.rows(devices.phone, "SELECT title FROM note") == ["untitled", "untitled"])
        try devices.laptop.migrate(migration)
        try devices.exchange()
        #expect(try devices.laptop.refusals().isEmpty && devices.phone.refusals().isEmpty)
    }

    @Test("A table whose name or columns have two Unicode forms of the same characters doesn't synchronize")
    func unicodeForms() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE café (id INTEGER PRIMARY KEY);
            CREATE TABLE cafe\u{301} (id INTEGER PRIMARY KEY);
            CREATE TABLE place (id INTEGER PRIMARY KEY, café TEXT, cafe\u{301} TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY);
            """
        )
        #expect(devices.laptop.schema.tables.map(\.name) == ["note"])
        try devices.laptop.edit("INSERT INTO note VALUES (1)")
        try devices.exchange()
        #expect(try Self.rows(devices.phone, "SELECT id FROM note") == ["1"])
    }

    @Test("The tables of a virtual table whose module isn't known here don't synchronize")
    func unknownModule() throws {
        let store = try DatabaseQueue()
        let schema = try store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE embedding_chunks (id INTEGER PRIMARY KEY, bytes BLOB);
                    CREATE TABLE embeddings (id INTEGER PRIMARY KEY);
                    PRAGMA writable_schema = ON;
                    INSERT INTO sqlite_schema VALUES
                        ('table', 'embedding', 'embedding', 0, 'CREATE VIRTUAL TABLE embedding USING vec0(bytes)');
                    PRAGMA writable_schema = RESET;
                    """
            )
            return try StoreSchema(db)
        }
        #expect(schema.tables.map(\.name) == ["embeddings"])
    }

    @Test("Of a long chain of rows that was deleted, all come back if one is needed")
    func longChain() throws {
        let outcome = Mutex<Result<Void, any Error>?>(nil)
        let end = DispatchSemaphore(value: 0)
        let thread = Thread {
            outcome.withLock { $0 = Result { try Self.bringBackLongChain() } }
            end.signal()
        }
        // As large as on Apple platforms.
        thread.stackSize = 512 << 10
        thread.start()
        end.wait()
        try outcome.withLock { try $0?.get() }
    }

    private static func bringBackLongChain() throws {
        let devices = try DevicePair(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, previous INTEGER REFERENCES item (id))"
        )
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers LIMIT 1499)"
        try devices.laptop.edit(
            "INSERT INTO item VALUES (1, NULL); \(numbers) INSERT INTO item SELECT n, n - 1 FROM numbers"
        )
        try devices.exchange()
        try devices.phone.edit("DELETE FROM item", observingForeignKeys: false)
        try devices.laptop.edit("INSERT INTO item VALUES (1501, 1500)")
        try devices.exchange()
        #expect(try Self.rows(devices.phone, "SELECT count(*) FROM item") == ["1501"])
        #expect(try devices.phone.violations().isEmpty)
    }
}
