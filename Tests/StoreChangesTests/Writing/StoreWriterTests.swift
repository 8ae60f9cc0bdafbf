import GRDB
import Testing

@testable import StoreChanges

@Suite("Writing what merging changed", .timeLimit(.minutes(60)))
struct StoreWriterTests {
    /// The rows of a query on a device, without the quotes of text.
    private static func rows(_ device: SimulatedDevice, _ sql: String) throws -> [String] {
        try device.rows(sql).map { $0.replacing("\"", with: "") }
    }

    /// Lets one device integrate and write what the user of another one changed.
    private static func bring(_ devices: DevicePair) throws {
        let former = devices.laptop.sets.count
        try devices.laptop.capture()
        try devices.phone.receive(Array(devices.laptop.sets.dropFirst(former)))
    }

    @Test(
        "To triggers, rows that exchange unique values aren't deleted and inserted, and rows that make room are updated",
        arguments: [
            ("UPDATE song SET track = 3 - track WHERE id < 3", "1|2 2|1 3|3 4|4", ""),
            ("UPDATE song SET track = track % 3 + 1 WHERE id < 4", "1|2 2|3 3|1 4|4", ""),
            ("UPDATE song SET track = 5 - track", "1|4 2|3 3|2 4|1", ""),
            ("UPDATE song SET track = track + 1", "1|2 2|3 3|4 4|5", "updated 1 updated 2 updated 3 updated 4"),
            ("UPDATE song SET track = track - 1", "1|0 2|1 3|2 4|3", "updated 1 updated 2 updated 3 updated 4"),
            (
                "UPDATE song SET track = 3 - track, title = 'new' WHERE id < 3; UPDATE song SET track = 5 WHERE id = 3",
                "1|2 2|1 3|5 4|4", "updated 1 updated 2 updated 3"
            ),
            (
                "DELETE FROM song WHERE id = 4; UPDATE song SET track = track % 3 + 2; INSERT INTO song VALUES (9, 1, 'e')",
                "1|3 2|4 3|2 9|1", "deleted 4 inserted 9 updated 1 updated 2 updated 3"
            ),
        ]
    )
    func exchangedValues(edit: String, rows: String, history: String) throws {
        // What the user of the laptop does has no order in which a constraint would allow it row by row.
        let table = "CREATE TABLE song (id INTEGER PRIMARY KEY, track INT, title TEXT)"
        let index = "CREATE UNIQUE INDEX tracks ON song (track)"
        let devices = try DevicePair("\(table); \(index); CREATE TABLE grdb_history (entry TEXT)")
        try devices.laptop.edit("INSERT INTO song VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd')")
        try Self.bring(devices)
        for (event, row) in [("delete", "old"), ("insert", "new"), ("update", "new")] {
            let entry = "'\(event)\(event == "insert" ? "ed" : "d") ' || \(row).id"
            try devices.phone.edit(
                "CREATE TRIGGER \(event)s AFTER \(event) ON song BEGIN INSERT INTO grdb_history VALUES (\(entry)); END"
            )
        }
        try devices.laptop.edit("DROP INDEX tracks; \(edit); \(index)")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT id, track FROM song ORDER BY id").joined(separator: " ") == rows)
        let entries = try Self.rows(devices.phone, "SELECT entry FROM grdb_history ORDER BY entry")
        #expect(entries.joined(separator: " ") == history)
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.capture() == nil)
    }

    @Test("Many rows, and large ones among them, are all written into another device's store")
    func manyRows() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB)")
        devices.laptop.limits = CapturedChanges.Limits()
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 1200)"
        let edits = [
            "\(numbers) INSERT INTO note SELECT n, zeroblob(CASE n % 400 WHEN 7 THEN 300000 ELSE 8 END) FROM numbers",
            "UPDATE note SET body = zeroblob(length(body) + id)",
            "DELETE FROM note WHERE id % 2 = 1",
        ]
        for edit in edits {
            try devices.laptop.edit(edit)
            try Self.bring(devices)
            let rows = "SELECT id, length(body) FROM note ORDER BY id"
            #expect(try Self.rows(devices.phone, rows) == Self.rows(devices.laptop, rows))
            #expect(try devices.phone.capture() == nil)
        }
    }

    @Test("A full disk while writing is reported as such, whether triggers run or not", arguments: [false, true])
    func fullDisk(hasTrigger: Bool) throws {
        let fixture = try SynchronizedStoreTests.Fixture()
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        if hasTrigger {
            try phone.execute("CREATE TRIGGER note_added AFTER INSERT ON note BEGIN SELECT 1; END")
        }
        for client in ["laptop", "phone"] { _ = try fixture.open(client).synchronized(with: []) }
        try laptop.execute("INSERT INTO note (title, body) VALUES ('milk', hex(zeroblob(1000000)))")
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        // The file can't become larger than it is.
        try phone.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1") }
        let error = #expect(throws: StoreChangesError.self) {
            try fixture.open("phone", through: phone).synchronized(with: sets)
        }
        #expect(error?.code == .cannotWrite && error?.message.contains("free space") == true)
        try phone.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1000000") }
        _ = try fixture.open("phone", through: phone).synchronized(with: [])
        #expect(try phone.query("SELECT title FROM note") == ["milk"])
    }

    @Test("Rows without a key that pass on a unique value are written where a trigger refuses deletes")
    func passedOnWithoutKey() throws {
        let devices = try DevicePair("CREATE TABLE line (text TEXT, number INT UNIQUE)")
        try devices.phone.edit("CREATE TRIGGER kept BEFORE DELETE ON line BEGIN SELECT RAISE(ABORT, 'kept'); END")
        try devices.laptop.edit("INSERT INTO line VALUES ('milk', 1)")
        try Self.bring(devices)
        // By its name the new row comes first.
        try devices.laptop.edit("DELETE FROM line; INSERT INTO line VALUES ('beer', 1)")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT * FROM line") == ["beer|1"])
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.capture() == nil)
    }

    @Test("Rows without a key are put right where a trigger exchanges their unique values")
    func exchangedWithoutKey() throws {
        let devices = try DevicePair(
            "CREATE TABLE line (text TEXT, number INT UNIQUE); CREATE TABLE note (id INTEGER PRIMARY KEY)"
        )
        try devices.phone.edit(
            """
            CREATE TRIGGER exchange AFTER INSERT ON note BEGIN
                UPDATE line SET text = CASE text WHEN 'milk' THEN 'bread' ELSE 'milk' END;
            END
            """
        )
        try devices.laptop.edit("INSERT INTO line VALUES ('milk', 1), ('bread', 2)")
        try Self.bring(devices)
        try devices.laptop.edit("INSERT INTO note VALUES (1)")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT * FROM line ORDER BY number") == ["milk|1", "bread|2"])
        #expect(try Self.rows(devices.phone, "SELECT id FROM note") == ["1"])
        #expect(try devices.phone.capture() == nil)
    }

    @Test("A write that renews only the token leaves all rows as they are, whatever the triggers")
    func tokenAlone() throws {
        let device = try SimulatedDevice(
            "laptop",
            schemaSQL: """
                CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
                CREATE TRIGGER note_added AFTER INSERT ON note BEGIN UPDATE note SET title = trim(title); END;
                """
        )
        try device.edit("INSERT INTO note VALUES (1, 'milk')")
        try device.capture()
        try device.write()
        // A table that is read is also put right: it becomes as it was captured.
        try device.edit("UPDATE note SET title = 'bread'")
        #expect(try device.write().isEmpty)
        #expect(try Self.rows(device, "SELECT title FROM note") == ["bread"])
        #expect(try device.capture()?.changes.count == 1)
    }

    @Test("A write doesn't read the tables that only the triggers of other tables name")
    func triggersOfOtherTables() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, changed INT);
            CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT);
            CREATE TRIGGER stamp AFTER UPDATE OF title ON note BEGIN
                UPDATE note SET changed = 1 WHERE id = new.id;
            END;
            """
        )
        var isRead = false
        devices.phone.store.inDatabase { db in
            db.trace { event in
                if "\(event)".contains("FROM \"note\"") { isRead = true }
            }
        }
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk', 0)")
        try devices.laptop.capture()
        try devices.phone.receive(devices.laptop.sets)
        #expect(isRead)
        try devices.laptop.edit("INSERT INTO tag VALUES ('food', 'red')")
        try devices.laptop.capture()
        try devices.phone.integrate(Array(devices.laptop.sets.dropFirst()))
        isRead = false
        try devices.phone.write()
        #expect(!isRead)
        #expect(try devices.phone.rows("SELECT color FROM tag") == ["\"red\""])
    }

    @Test("What a temporary trigger changes is put right, and the trigger runs on the app's next edit")
    func temporaryTrigger() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, edits INT DEFAULT 0)")
        try devices.phone.edit(
            """
            CREATE TEMPORARY TRIGGER IF NOT EXISTS "an ""edit" AFTER UPDATE ON main.note WHEN new.title <> ''
            BEGIN UPDATE note SET edits = edits + 1 WHERE id = new.id; END
            """
        )
        try devices.laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try Self.bring(devices)
        for title in ["oat milk", "soy milk"] {
            try devices.laptop.edit("UPDATE note SET title = '\(title)'")
            try Self.bring(devices)
            #expect(try Self.rows(devices.phone, "SELECT title, edits FROM note") == ["\(title)|0"])
            #expect(try devices.phone.capture() == nil)
        }
        try devices.phone.edit("UPDATE note SET title = 'milk'")
        #expect(try Self.rows(devices.phone, "SELECT title, edits FROM note") == ["milk|1"])
    }

    @Test(
        "What a temporary trigger refuses is written without it, and the trigger refuses the app's next edit",
        arguments: ["ABORT, 'no'", "ROLLBACK, 'no'", "IGNORE"]
    )
    func refusingTemporaryTrigger(action: String) throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try devices.phone.edit(
            "CREATE TEMP TRIGGER refused BEFORE DELETE ON note BEGIN SELECT RAISE(\(action)); END"
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk'), (2, 'bread')")
        try Self.bring(devices)
        try devices.laptop.edit("DELETE FROM note WHERE id = 1")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT title FROM note") == ["bread"])
        #expect(try devices.phone.capture() == nil)
        #expect(try devices.phone.edit("DELETE FROM note") == (action == "IGNORE"))
        #expect(try Self.rows(devices.phone, "SELECT title FROM note") == ["bread"])
    }

    @Test("A row without a key is deleted though its table has many columns")
    func manyColumns() throws {
        let names = (0..<600).map { "c\($0)" }.joined(separator: ", ")
        let devices = try DevicePair("CREATE TABLE line (\(names))")
        try devices.laptop.edit("INSERT INTO line (c0, c599) VALUES ('milk', 1), ('milk', 1.0), ('milk', 2)")
        try Self.bring(devices)
        try devices.laptop.edit("DELETE FROM line WHERE typeof(c599) = 'real'")
        try Self.bring(devices)
        let rows = try Self.rows(devices.phone, "SELECT c0, c599, typeof(c599) FROM line ORDER BY c599")
        #expect(rows == ["milk|1|integer", "milk|2|integer"])
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.capture() == nil)
    }

    @Test("Of a row with many columns, those are captured and written that differ")
    func manyUpdatedColumns() throws {
        let names = (0..<600).map { "c\($0)" }
        let devices = try DevicePair("CREATE TABLE line (id INTEGER PRIMARY KEY, \(names.joined(separator: ", ")))")
        let values = names.indices.map { ["NULL", "1", "1.5", "'milk'", "x'00ff'"][$0 % 5] }
        try devices.laptop.edit("INSERT INTO line VALUES (1, \(values.joined(separator: ", ")))")
        try Self.bring(devices)
        try devices.laptop.edit("UPDATE line SET c0 = 7, c1 = 1.0, c303 = 'bread', c599 = NULL")
        try Self.bring(devices)
        guard case .update(let cells) = devices.laptop.sets.last?.changes.first?.edit else {
            Issue.record("an update is captured")
            return
        }
        #expect(Set(cells.keys) == ["c0", "c1", "c303", "c599"])
        let row = "SELECT typeof(c0), typeof(c1), c2, c303, c598, c599 IS NULL FROM line"
        #expect(try Self.rows(devices.phone, row) == ["integer|real|1.5|bread|milk|1"])
        #expect(try devices.phone.capture() == nil)
    }

    @Test(
        "Of rows without a key that differ only in the sign of a zero, the deleted one goes",
        arguments: ["0.0), (0.0 * -1", "0.0 * -1), (0.0"],
        [1, 20]
    )
    func signedZeros(values: String, count: Int) throws {
        let devices = try DevicePair("CREATE TABLE line (size)")
        let rows = repeatElement("(\(values))", count: count).joined(separator: ", ")
        try devices.laptop.edit("INSERT INTO line VALUES \(rows)")
        try Self.bring(devices)
        try devices.laptop.edit("DELETE FROM line WHERE rowid % 2 = 0")
        try Self.bring(devices)
        for device in [devices.laptop, devices.phone] {
            let first = values.hasPrefix("0.0)") ? "0.0" : "-0.0"
            #expect(try Self.rows(device, "SELECT size FROM line") == Array(repeating: first, count: count))
            #expect(try device.capture() == nil)
        }
    }

    @Test("Many deleted rows without a key are found by reading their table once")
    func manyDeletedWithoutKey() throws {
        let devices = try DevicePair("CREATE TABLE line (text, number INT)")
        let values = (0..<100).map { "('milk', \($0)), (\($0), 7)" }.joined(separator: ", ")
        try devices.laptop.edit("INSERT INTO line VALUES \(values), ('bread', 1), ('bread', 1), ('bread', 1)")
        try Self.bring(devices)
        try devices.laptop.edit("DELETE FROM line WHERE text = 'milk' OR rowid = (SELECT max(rowid) FROM line)")
        var searches = 0
        devices.phone.store.inDatabase { db in
            db.trace { event in
                // The statement that searches for a single row.
                if "\(event)".contains(" (SELECT rowid FROM \"line\"") { searches += 1 }
            }
        }
        try Self.bring(devices)
        #expect(searches == 0)
        #expect(try Self.rows(devices.phone, "SELECT count(*), sum(number) FROM line") == ["102|702"])
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.capture() == nil)
    }

    @Test(
        "Many rows without a key are deleted although a trigger changes the rowids of the others, and the rows at these"
    )
    func movedRowsWithoutKey() throws {
        let devices = try DevicePair("CREATE TABLE line (text)")
        try devices.phone.edit(
            """
            CREATE TRIGGER moved AFTER DELETE ON line BEGIN
                UPDATE line SET rowid = -rowid;
                UPDATE line SET rowid = 1 - rowid;
            END
            """
        )
        let values = (0..<40).map { "(\($0))" }.joined(separator: ", ")
        try devices.laptop.edit("INSERT INTO line VALUES \(values), (39)")
        try Self.bring(devices)
        try devices.laptop.edit("DELETE FROM line WHERE text < 30 OR rowid = 41")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT text FROM line ORDER BY text") == (30..<40).map(String.init))
        #expect(try devices.phone.refusals().isEmpty)
        #expect(try devices.phone.capture() == nil)
    }

    @Test(
        "Rows that don't synchronize refer to the row into which theirs was merged, whatever a delete would do to them",
        arguments: ["", "ON DELETE CASCADE", "ON DELETE SET NULL"]
    )
    func mergedParent(action: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE tagged (tag INTEGER REFERENCES tag, text TEXT, PRIMARY KEY (tag, text));
            CREATE TABLE grdb_draft (tag INTEGER REFERENCES tag \(action));
            CREATE TABLE grdb_mark (
                tag INTEGER, text TEXT, FOREIGN KEY (tag, text) REFERENCES tagged (tag, text) \(action)
            )
            """
        )
        try devices.laptop.edit("INSERT INTO tag VALUES (1, 'home'), (2, 'new')")
        for statement in [
            "INSERT INTO tag VALUES (1, 'new')", "INSERT INTO tagged VALUES (1, 'milk')",
            "INSERT INTO grdb_draft VALUES (1)", "INSERT INTO grdb_mark VALUES (1, 'milk')",
        ] {
            #expect(try devices.phone.edit(statement))
        }
        try devices.exchange()
        let join = "JOIN tag ON tag.id = local.tag"
        #expect(try Self.rows(devices.phone, "SELECT name FROM grdb_draft AS local \(join)") == ["new"])
        #expect(try Self.rows(devices.phone, "SELECT name, text FROM grdb_mark AS local \(join)") == ["new|milk"])
        #expect(try devices.phone.violations().isEmpty)
    }

    @Test("A row that doesn't synchronize and can't get what its foreign key declares holds up no other one")
    func refusedChild() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE grdb_cover (tag INTEGER PRIMARY KEY REFERENCES tag ON DELETE SET NULL)
            """
        )
        try devices.laptop.edit("INSERT INTO tag VALUES (5, 'old'), (6, 'older')")
        try Self.bring(devices)
        #expect(try devices.phone.edit("INSERT INTO tag VALUES (1, 'new')"))
        #expect(try devices.phone.edit("INSERT INTO grdb_cover VALUES (1), (5), (6)"))
        try devices.laptop.edit("INSERT INTO tag VALUES (1, 'home'), (2, 'new'); DELETE FROM tag WHERE id > 4")
        try devices.exchange()
        let covers = "SELECT name FROM grdb_cover LEFT JOIN tag ON id = tag ORDER BY name"
        #expect(try Self.rows(devices.phone, covers) == ["NULL", "NULL", "new"])
    }

    @Test("Rows that don't synchronize get what their foreign keys declare when merging deletes a row without a key")
    func parentWithoutKey() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE product (code TEXT UNIQUE, price INT);
            CREATE TABLE grdb_scan (product TEXT REFERENCES product (code) ON DELETE CASCADE)
            """
        )
        try devices.laptop.edit("INSERT INTO product VALUES ('milk', 1), ('bread', 2)")
        try Self.bring(devices)
        try devices.phone.edit("INSERT INTO grdb_scan VALUES ('milk'), ('bread')")
        try devices.laptop.edit("DELETE FROM product WHERE code = 'milk'; UPDATE product SET price = 3")
        try Self.bring(devices)
        #expect(try Self.rows(devices.phone, "SELECT product FROM grdb_scan") == ["bread"])
    }
}
