import GRDB
import OperationsTesting
import TestSupport
import Testing

@testable import StoreChanges

@Suite("A capture", .timeLimit(.minutes(60)))
struct CaptureTests {
    private static let folders = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT, color TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE CASCADE, title TEXT);
        """

    @Test("A new row's name has its counter, and the digest that the article on the format describes")
    func numberInName() throws {
        let device = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try device.edit("INSERT INTO note VALUES (7, 'milk')")
        // The time, the table, and the two values.
        let bytes = [0xAC, 2, 4] + Array("note".utf8) + [1, 14, 3, 4] + Array("milk".utf8)
        let digest = SetDigest(of: bytes).rawValue.prefix(4).map { Int64($0) }
        let first = digest[0] << 20 | digest[1] << 12 | digest[2] << 4 | digest[3] >> 4
        let name = RowName.numbered(client: device.client, number: 1 << 28 | first)
        #expect(try device.capture(at: 300)?.changes.map(\.row) == [name])
    }

    @Test(
        "A new row doesn't get the name of a row of this device's copy that had its integer, in the store or not yet",
        arguments: [true, false]
    )
    func namesOfCopy(isWritten: Bool) throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"
        let device = try SimulatedDevice("laptop", schemaSQL: schema)
        // The copy goes on as another client, and captures its void set again.
        let copy = try SimulatedDevice("another", schemaSQL: schema)
        try copy.edit("INSERT INTO note VALUES (1, 'of the copy')")
        var set = try #require(try copy.capture(at: 10))
        set.changes[0].row = .numbered(client: device.client, number: 5 << 28)
        try device.integrate([set])
        if isWritten {
            try device.write()
            try device.edit("DELETE FROM note")
            try #require(try device.capture(at: 20) != nil)
        } else {
            try device.write(upTo: .prepare)
        }
        try device.edit("INSERT INTO note VALUES (1, 'mine')")
        let changes = try #require(try device.capture(at: 30)).changes
        #expect(changes.count == 1 && changes.first?.row != set.changes[0].row, "\(changes)")
        try device.write()
        let all = isWritten ? [#""mine""#] : [#""mine""#, #""of the copy""#]
        #expect(try device.rows("SELECT title FROM note ORDER BY title") == all)
    }

    @Test("A set has seen only what is in the store, not what waits to be written")
    func seen() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.folders)
        let phone = try SimulatedDevice("phone", schemaSQL: Self.folders)
        try laptop.edit("INSERT INTO folder VALUES (1, 'home', 'red')")
        let first = try #require(try laptop.capture())
        try phone.integrate([first])
        try phone.edit("INSERT INTO folder VALUES (2, 'work', 'blue')")
        let unaware = try #require(try phone.capture())
        #expect(unaware.header.seen.isEmpty)
        try phone.write()
        try phone.edit("UPDATE folder SET color = 'green' WHERE id = 2")
        let aware = try #require(try phone.capture())
        #expect(aware.header.seen[laptop.client]?.sequence == 1)
        #expect(aware.header.predecessor == SetDigest(of: unaware.encoded))
    }

    @Test("Many changes become sets of bounded size, and what constraints concern is in one of them")
    func division() throws {
        let schema = """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, color TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, tag INT REFERENCES tag, title TEXT);
            """
        // Both divide what they capture into sets of three changes.
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 8)"
        try laptop.edit("\(numbers) INSERT INTO tag SELECT n, 'tag ' || n, 'red' FROM numbers")
        try laptop.edit("\(numbers) INSERT INTO note SELECT n, n, 'note' FROM numbers")
        try laptop.capture()
        // References lead to tags, so tags come first.
        #expect(laptop.sets.map(\.changes.count) == [3, 3, 3, 3, 3, 1])
        #expect(laptop.sets.prefix(2).flatMap(\.changes).allSatisfy { $0.table == "tag" })
        try phone.integrate(laptop.sets)
        try phone.write()
        // Four tags exchange their names.
        try laptop.edit("UPDATE tag SET name = 'other ' || id WHERE id <= 4")
        try laptop.edit("UPDATE tag SET name = 'tag ' || (id % 4 + 1) WHERE id <= 4")
        try laptop.edit("UPDATE tag SET color = 'blue' WHERE id > 4")
        try laptop.edit("UPDATE note SET title = 'edited'")
        try laptop.edit("UPDATE note SET tag = 2 WHERE id = 1")
        try laptop.capture()
        let sets = Array(laptop.sets.dropFirst(6))
        #expect(sets.map(\.changes.count) == [5, 3, 3, 3, 2])
        #expect(Set(sets.flatMap(\.changes).map { RowReference($0.table, $0.row) }).count == 16)
        try phone.integrate(sets.reversed())
        try phone.write()
        for rows in ["SELECT * FROM tag", "SELECT * FROM note"] { #expect(try phone.rows(rows) == laptop.rows(rows)) }
        for device in [laptop, phone] { #expect(try device.capture() == nil) }
        #expect(try phone.content() == laptop.content() && phone.conflicts().isEmpty)
        // The tags can go only together with the references to them, and the notes then at any time.
        try laptop.edit("UPDATE note SET tag = NULL")
        try laptop.edit("DELETE FROM tag")
        try laptop.capture()
        try laptop.edit("DELETE FROM note")
        try laptop.capture()
        let last = Array(laptop.sets.dropFirst(11))
        #expect(last.map(\.changes.count) == [16, 3, 3, 2])
        for set in last { try phone.integrate([set]) }
        try phone.write()
        #expect(try phone.content() == laptop.content() && phone.conflicts().isEmpty)
    }

    @Test("Many rows that two devices inserted at once get other numbers, and references follow them")
    func manyRows() throws {
        let devices = [
            try SimulatedDevice("desk", schemaSQL: Self.folders),
            try SimulatedDevice("phone", schemaSQL: Self.folders),
        ]
        // More than are read at once to get numbers.
        for (device, count) in zip(devices, [1100, 40]) {
            let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT \(count))"
            try device.edit("\(numbers) INSERT INTO folder SELECT n, '\(device.client) ' || n, 'red' FROM numbers")
            // A reference is met before the row of the next folder.
            try device.edit("\(numbers) INSERT INTO note SELECT n, \(count + 1) - n, '\(device.client)' FROM numbers")
            try device.capture()
        }
        try devices[0].integrate(devices[1].sets)
        try devices[1].integrate(devices[0].sets)
        // What waits to be written isn't captured, and isn't taken for deleted rows.
        for device in devices { #expect(try device.capture() == nil) }
        for device in devices { try device.write() }
        for device in devices {
            #expect(try device.capture() == nil)
            let count = "SELECT count(*), count(DISTINCT folder.name), sum(folder.name LIKE note.title || '%')"
            #expect(try device.rows("\(count) FROM note JOIN folder ON folder.id = folder") == ["1140|1140|1140"])
        }
        #expect(try devices[0].content() == devices[1].content())
        // Rows of which the store has none yet are edited and deleted elsewhere, while this device captures.
        try devices[0].edit("UPDATE folder SET color = 'blue' WHERE id % 20 = 0")
        try devices[0].edit("DELETE FROM note WHERE id % 30 = 0")
        let first = devices[0].sets.count
        try devices[0].capture()
        try devices[1].integrate(Array(devices[0].sets.dropFirst(first)))
        #expect(try devices[1].capture() == nil)
        try devices[1].edit("DELETE FROM note WHERE id = (SELECT min(id) FROM note)")
        let deleted = try #require(try devices[1].capture())
        #expect(deleted.changes.count == 1)
        try devices[1].write()
        #expect(try devices[1].capture() == nil)
    }

    @Test(
        "A store is valid after each of the sets that were captured together",
        arguments: TestDepth.seeds(quick: 20, deep: 10_000)
    )
    func validity(seed: UInt64) throws {
        let schema = """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
            CREATE TABLE note (
                id INTEGER PRIMARY KEY, tag INT REFERENCES tag ON DELETE CASCADE, other INT REFERENCES tag, title TEXT UNIQUE
            );
            """
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        var random = SplitMix64(seed: seed)
        for round in 0..<3 {
            // All names and titles move from row to row.
            for _ in 0..<30 {
                let (first, second) = (Int.random(in: 0..<6, using: &random), Int.random(in: 0..<6, using: &random))
                // The store refuses what would violate a constraint.
                _ = try? laptop.edit(
                    [
                        "INSERT OR REPLACE INTO tag VALUES (\(first), 'name \(second)')",
                        "INSERT INTO note (tag, other, title) VALUES (\(first), \(second), 'title \(second) \(round)')",
                        "UPDATE note SET tag = \(first) WHERE id % 6 = \(second)",
                        "UPDATE note SET title = title || \(first) WHERE id % 6 = \(second)",
                        "DELETE FROM note WHERE id % 6 = \(first)",
                        "DELETE FROM tag WHERE id = \(first)",
                    ].randomElement(using: &random) ?? ""
                )
            }
            let former = laptop.sets.count
            try laptop.capture()
            for set in laptop.sets.dropFirst(former) {
                try phone.integrate([set])
                try phone.write()
                #expect(try phone.rows("SELECT 1 FROM pragma_foreign_key_check") == [])
            }
            for rows in ["SELECT * FROM tag", "SELECT * FROM note"] {
                #expect(try phone.rows(rows) == laptop.rows(rows))
            }
            #expect(try phone.content() == laptop.content() && phone.conflicts().isEmpty)
        }
    }

    private static let families = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, parent INT REFERENCES folder, name TEXT UNIQUE);
        CREATE TABLE author (name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, teacher TEXT REFERENCES author, mail TEXT UNIQUE);
        CREATE TABLE book (
            id INTEGER PRIMARY KEY, folder INT REFERENCES folder, author TEXT REFERENCES author, mail TEXT REFERENCES author (mail)
        );
        CREATE TABLE left (id INTEGER PRIMARY KEY, other INT REFERENCES right);
        CREATE TABLE right (id INTEGER PRIMARY KEY, other INT REFERENCES left);
        CREATE TABLE page (book INT REFERENCES book, number INT, PRIMARY KEY (book, number)) WITHOUT ROWID;
        CREATE TABLE word (text TEXT UNIQUE, root TEXT REFERENCES word (text));
        CREATE TABLE step (
            plan INT NOT NULL, number INT NOT NULL, next INT, PRIMARY KEY (plan, number),
            FOREIGN KEY (plan, next) REFERENCES step (plan, number)
        );
        """

    @Test("Inserted rows to which others refer are divided too, and come before them")
    func parents() throws {
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: Self.families),
            try SimulatedDevice("phone", schemaSQL: Self.families)
        )
        try laptop.edit("INSERT INTO folder VALUES (1, NULL, 'root')")
        try laptop.edit("INSERT INTO book (id, folder) VALUES (1, 1)")
        try laptop.capture()
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers LIMIT 10)"
        try laptop.edit("\(numbers) INSERT INTO folder SELECT n, n / 2, 'folder ' || n FROM numbers")
        try laptop.edit("\(numbers) INSERT INTO book SELECT n, n, NULL, NULL FROM numbers")
        try laptop.edit("\(numbers) INSERT INTO page SELECT n, 1 FROM numbers")
        try laptop.capture()
        #expect(laptop.sets.dropFirst().map(\.changes.count) == Array(repeating: 3, count: 10))
        try laptop.edit("\(numbers) INSERT INTO folder SELECT n + 10, n + 9, 'folder ' || (n + 10) FROM numbers")
        // This needs the folders 12 to 15, each of which is in the former one.
        try laptop.edit("UPDATE book SET folder = 15 WHERE id = 1")
        try laptop.capture()
        #expect(laptop.sets.dropFirst(11).map(\.changes.count) == [5, 3, 3])
        for set in laptop.sets {
            try phone.integrate([set])
            try phone.write()
            #expect(try phone.rows("SELECT * FROM pragma_foreign_key_check") == [])
        }
        #expect(try phone.content() == laptop.content() && phone.conflicts().isEmpty)
    }

    @Test("Inserted rows whose key contains a reference are divided though they refer to each other")
    func keysWithReferences() throws {
        let laptop = try SimulatedDevice(
            "laptop",
            schemaSQL: """
                CREATE TABLE album (id INTEGER PRIMARY KEY);
                CREATE TABLE track (
                    album INT NOT NULL REFERENCES album, number INT NOT NULL, next INT, PRIMARY KEY (album, number),
                    FOREIGN KEY (album, next) REFERENCES track
                );
                """
        )
        try laptop.edit("INSERT INTO album VALUES (1); INSERT INTO track VALUES (1, 1, NULL)")
        try laptop.capture()
        for number in 2...8 { try laptop.edit("INSERT INTO track VALUES (1, \(number), \(number - 1))") }
        try laptop.capture()
        #expect(laptop.sets.dropFirst().map(\.changes.count) == [3, 3, 1])
    }

    @Test(
        "A store is valid after each set of rows that refer to one another in all ways",
        arguments: TestDepth.seeds(quick: 6, deep: 4_000)
    )
    func families(seed: UInt64) throws {
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: Self.families),
            try SimulatedDevice("phone", schemaSQL: Self.families)
        )
        var random = SplitMix64(seed: seed)
        for round in 0..<3 {
            for _ in 0..<80 {
                let (first, second) = (Int.random(in: 1..<12, using: &random), Int.random(in: 1..<12, using: &random))
                // The store refuses what would violate a constraint.
                _ = try? laptop.edit(
                    [
                        "INSERT INTO folder VALUES (\(first), nullif(\(second), \(first)), 'folder \(first) \(round)')",
                        "INSERT INTO folder VALUES (\(first), NULL, 'folder \(first) \(round)')",
                        "INSERT INTO folder VALUES (\(first), \(second), 'folder \(first) \(round)')",
                        "INSERT INTO author VALUES ('Author \(first)', 'author \(second)', 'mail \(first)')",
                        "INSERT INTO author VALUES ('Author \(first)', NULL, 'mail \(first)')",
                        "INSERT INTO book VALUES (\(first), \(second), 'AUTHOR \(first)', 'mail \(second)')",
                        "INSERT INTO book VALUES (\(first), NULL, NULL, NULL)",
                        "PRAGMA defer_foreign_keys = 1; INSERT INTO left VALUES (\(first), \(second)); "
                            + "INSERT OR IGNORE INTO right VALUES (\(second), \(first))",
                        "INSERT INTO page VALUES (\(first), \(second))",
                        "INSERT INTO word VALUES ('\(first)', NULL)",
                        "INSERT INTO word VALUES ('\(first)', '\(second)')",
                        "INSERT INTO step VALUES (1, \(first), NULL)",
                        "INSERT INTO step VALUES (1, \(first), \(second))",
                        "UPDATE word SET root = '\(first)' WHERE text = '\(second)'",
                        "UPDATE folder SET parent = \(first) WHERE id = \(second)",
                        "UPDATE author SET mail = 'other \(first)' WHERE name = 'author \(second)'",
                        "UPDATE book SET mail = 'mail \(first)', folder = \(second) WHERE id = \(first)",
                        "UPDATE book SET author = 'author \(first)' WHERE id = \(second)",
                        "DELETE FROM page WHERE book = \(first)",
                        "DELETE FROM book WHERE id = \(first)",
                        "DELETE FROM folder WHERE id = \(first)",
                        "DELETE FROM author WHERE name = 'author \(first)'",
                    ].randomElement(using: &random) ?? ""
                )
            }
            let former = laptop.sets.count
            try laptop.capture()
            for set in laptop.sets.dropFirst(former) {
                try phone.integrate([set])
                try phone.write()
                #expect(try phone.rows("SELECT * FROM pragma_foreign_key_check") == [], "after \(set.header.id)")
            }
            #expect(try phone.content() == laptop.content() && phone.conflicts().isEmpty)
        }
    }

    @Test(
        "Rows that refer to a value keep their parent, if the row with the value is another one from then on",
        arguments: [
            "REPLACE INTO team VALUES (9, 'a', 'new')",
            "DELETE FROM team WHERE id = 1; INSERT INTO team VALUES (8, 'a', 'new')",
            "UPDATE team SET code = 'c' WHERE id = 1; INSERT INTO team VALUES (9, 'a', 'new')",
            "UPDATE tag SET name = 'WORK' WHERE name = 'work'",
            "UPDATE label SET color = 'blue' WHERE name = 'x'",
        ],
        ["CASCADE", "SET NULL", "NO ACTION"]
    )
    func replacedParents(edit: String, action: String) throws {
        let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, code TEXT UNIQUE, title TEXT);
            CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, color TEXT);
            CREATE TABLE label (name TEXT UNIQUE, color TEXT);
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, team TEXT REFERENCES team (code) ON DELETE \(action),
                tag TEXT REFERENCES tag ON DELETE \(action), label TEXT REFERENCES label (name) ON DELETE \(action)
            );
            CREATE TABLE other (id INTEGER PRIMARY KEY, title TEXT);
            """
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        try laptop.edit("INSERT INTO team VALUES (1, 'a', 'old'); INSERT INTO tag VALUES ('work', 'red')")
        try laptop.edit("INSERT INTO label VALUES ('x', 'red')")
        try laptop.edit("INSERT INTO item VALUES (1, 'a', 'work', 'x'), (2, 'a', 'work', 'x')")
        try laptop.capture()
        // As a program does that leaves references to SQLite's next check.
        try laptop.edit(edit, observingForeignKeys: false)
        try laptop.edit("INSERT INTO other (title) VALUES (1), (2), (3), (4), (5), (6), (7)")
        try laptop.capture()
        let items = try laptop.rows("SELECT * FROM item")
        for set in laptop.sets {
            try phone.integrate([set])
            try phone.write()
        }
        #expect(try phone.rows("SELECT * FROM item") == items)
        #expect(try phone.rows("SELECT * FROM pragma_foreign_key_check") == [] && phone.conflicts().isEmpty)
        try laptop.write()
        #expect(try laptop.rows("SELECT * FROM item") == items)
    }

    @Test("A row without a key comes before the rows that begin to refer to it")
    func parentWithoutKey() throws {
        let schema = """
            CREATE TABLE label (name TEXT UNIQUE, color TEXT);
            CREATE TABLE item (id INTEGER PRIMARY KEY, label TEXT REFERENCES label (name));
            """
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        try laptop.edit("INSERT INTO item (id) VALUES (1), (2)")
        try laptop.capture()
        try laptop.edit("INSERT INTO label VALUES ('a', 'red'), ('b', 'red'), ('c', 'red'), ('d', 'red'), ('e', 'red')")
        try laptop.edit("UPDATE item SET label = 'e' WHERE id = 1")
        try laptop.capture()
        for set in laptop.sets { try phone.integrate([set]) }
        try phone.write()
        #expect(try phone.rows("SELECT * FROM item") == laptop.rows("SELECT * FROM item") && phone.conflicts().isEmpty)
    }

    @Test(
        "Large rows make small sets, also if little of them changed",
        arguments: ["UPDATE note SET rank = 1", "DELETE FROM note"]
    )
    func largeRows(edit: String) throws {
        let laptop = try SimulatedDevice(
            "laptop",
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, rank INT, body BLOB)"
        )
        laptop.limits = CapturedChanges.Limits(changes: 100, size: 1 << 20)
        try laptop.edit("INSERT INTO note SELECT value, 0, zeroblob(150000) FROM json_each('[1,2,3,4,5,6,7,8,9,10]')")
        try laptop.capture()
        #expect(laptop.sets.map(\.changes.count) == [6, 4])
        try laptop.edit(edit)
        try laptop.capture()
        #expect(laptop.sets.dropFirst(2).map(\.changes.count) == [6, 4])
    }

    @Test("A capture that finds nothing creates no temporary table, and a capture of edits leaves none")
    func temporaryTables() throws {
        let device = try SimulatedDevice(
            "laptop",
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"
        )
        #expect(try device.capture() == nil)
        #expect(try device.temporaryNames().isEmpty)
        try device.edit("INSERT INTO note VALUES (1, 'milk')")
        #expect(try device.capture()?.changes.count == 1)
        #expect(try device.temporaryNames().isEmpty)
    }

    @Test("Updates stay in one set if a constraint names a generated column, and rows that a migration inserted do")
    func undivided() throws {
        let generated = try SimulatedDevice(
            "laptop",
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, key TEXT AS (lower(title)) UNIQUE)"
        )
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 8)"
        try generated.edit("\(numbers) INSERT INTO note (id, title) SELECT n, 'note ' || n FROM numbers")
        try generated.capture()
        try generated.edit("UPDATE note SET title = 'other ' || id")
        try generated.edit("UPDATE note SET title = 'note ' || (id % 8 + 1)")
        try generated.capture()
        #expect(generated.sets.map(\.changes.count) == [3, 3, 2, 8])

        let migrated = try SimulatedDevice(
            "laptop",
            schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"
        )
        try migrated.edit("\(numbers) INSERT INTO note SELECT n, 'note' FROM numbers")
        try migrated.capture()
        #expect(migrated.sets.map(\.changes.count) == [3, 3, 2])
        // Rows of migrations are merged with equal rows of other devices, but not with each other.
        try migrated.migrate(
            "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT); \(numbers) INSERT INTO tag SELECT n, 'tag' FROM numbers"
        )
        try migrated.capture()
        #expect(migrated.sets.dropFirst(3).map(\.changes.count) == [8])
    }

    @Test("A delete by CASCADE is the consequence of its parent's")
    func consequences() throws {
        let device = try SimulatedDevice("laptop", schemaSQL: Self.folders)
        try device.edit("INSERT INTO folder VALUES (1, 'home', 'red')")
        try device.edit("INSERT INTO note VALUES (1, 1, 'milk'), (2, NULL, 'bread')")
        let inserted = try #require(try device.capture())
        let folder = try #require(inserted.changes.first { $0.table == "folder" }?.row)
        try device.edit("DELETE FROM folder")
        try device.edit("DELETE FROM note WHERE id = 2")
        let deletes = try #require(try device.capture()).changes
        #expect(deletes.count == 3)
        let parents = deletes.compactMap { change -> Set<RowReference>? in
            if case .delete(let deleted) = change.edit, !deleted.parents.isEmpty { deleted.parents } else { nil }
        }
        #expect(parents == [[RowReference("folder", folder)]])
    }

    @Test("What triggers change in synchronized rows is put right, and search indexes follow")
    func triggers() throws {
        let schema = try #require(SimulatedSchemas.all.first { $0.contains("note_edited") })
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        try laptop.edit("INSERT INTO note (title, body) VALUES ('milk', 'two')")
        let first = try #require(try laptop.capture())
        try phone.integrate([first])
        try phone.write()
        try laptop.edit("UPDATE note SET body = 'three'")
        try laptop.edit("UPDATE note SET body = 'four'")
        let second = try #require(try laptop.capture())
        try phone.integrate([second])
        try phone.write()
        #expect(try phone.rows("SELECT body, edits FROM note") == laptop.rows("SELECT body, edits FROM note"))
        #expect(try phone.rows("SELECT * FROM total") == laptop.rows("SELECT * FROM total"))
        #expect(try phone.rows("SELECT rowid FROM search WHERE search MATCH 'four'").count == 1)
        #expect(try phone.violations().isEmpty)
        #expect(try phone.capture() == nil)
    }

    @Test("Rows that pass their values on stay where the schema replaces rows that are in the way")
    func replacing() throws {
        let schema = "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE, color TEXT)"
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        try laptop.edit("INSERT INTO tag VALUES (1, 'a', 'red'), (2, 'b', 'blue')")
        let first = try #require(try laptop.capture())
        try phone.integrate([first])
        try phone.write()
        try laptop.edit("UPDATE tag SET name = 'c' WHERE id = 2")
        try laptop.edit("UPDATE tag SET name = 'b' WHERE id = 1")
        let second = try #require(try laptop.capture())
        try phone.integrate([second])
        try phone.write()
        #expect(try phone.rows("SELECT * FROM tag") == laptop.rows("SELECT * FROM tag"))
        #expect(try phone.capture() == nil)
    }

    @Test("What a trigger refuses is written without triggers, and the search index is rebuilt")
    func refusal() throws {
        let schema = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            CREATE VIRTUAL TABLE search USING fts5(title, content='note', content_rowid='id');
            CREATE TRIGGER one BEFORE INSERT ON note WHEN (SELECT count(*) FROM note) > 0
            BEGIN SELECT RAISE(ABORT, 'one note is enough'); END;
            CREATE TRIGGER note_insert AFTER INSERT ON note BEGIN
                INSERT INTO search (rowid, title) VALUES (new.id, new.title);
            END;
            """
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        try phone.edit("INSERT INTO note (title) VALUES ('bread')")
        let set = try #require(try laptop.capture())
        try phone.integrate([set])
        try phone.capture()
        try phone.write()
        #expect(try phone.rows("SELECT title FROM note ORDER BY title").count == 2)
        #expect(try phone.rows("SELECT rowid FROM search WHERE search MATCH 'milk'").count == 1)
        #expect(try phone.violations().isEmpty)
    }

    @Test("A row without a key that a trigger refuses is written without triggers")
    func refusedCount() throws {
        let schema = """
            CREATE TABLE line (text TEXT, number INT);
            CREATE TRIGGER no_line BEFORE INSERT ON line WHEN new.number > 1
            BEGIN SELECT RAISE(ABORT, 'one is enough'); END;
            """
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        try laptop.edit("INSERT INTO line VALUES ('milk', 1), ('milk', 1), ('bread', 0)")
        try laptop.edit("UPDATE line SET number = 2 WHERE text = 'bread'")
        let set = try #require(try laptop.capture())
        try phone.integrate([set])
        #expect(try phone.write() == ["line": ChangeCounts(inserted: 3)])
        #expect(try phone.rows("SELECT * FROM line ORDER BY 1") == laptop.rows("SELECT * FROM line ORDER BY 1"))
        #expect(try phone.capture() == nil)
    }

    @Test(
        "What a trigger or a constraint ignores or rolls back is written without triggers, and isn't captured again",
        arguments: [
            ("", "CREATE TRIGGER ignored BEFORE INSERT ON note BEGIN SELECT RAISE(IGNORE); END"),
            ("", "CREATE TRIGGER ignored BEFORE UPDATE ON note BEGIN SELECT RAISE(IGNORE); END"),
            ("", "CREATE TRIGGER ignored BEFORE DELETE ON note BEGIN SELECT RAISE(IGNORE); END"),
            ("ON CONFLICT IGNORE", ""),
            ("", "CREATE TRIGGER refused BEFORE INSERT ON note BEGIN SELECT RAISE(ROLLBACK, 'no'); END"),
            ("", "CREATE TRIGGER refused BEFORE DELETE ON note BEGIN SELECT RAISE(ROLLBACK, 'no'); END"),
            ("ON CONFLICT ROLLBACK", ""),
        ]
    )
    func ignored(conflict: String, trigger: String) throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE \(conflict), body TEXT);"
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema + trigger)
        try laptop.edit("INSERT INTO note VALUES (1, 'milk', ''), (2, 'bread', ''), (3, 'tea', '')")
        try laptop.capture()
        // A value goes from one row to another, so that the order of the statements matters.
        try laptop.edit("UPDATE note SET title = 'rye bread' WHERE id = 2")
        try laptop.edit("UPDATE note SET title = 'bread', body = 'white' WHERE id = 1")
        try laptop.edit("DELETE FROM note WHERE id = 3")
        try laptop.edit("INSERT INTO note VALUES (4, 'milk', '')")
        try laptop.capture()
        for set in laptop.sets {
            try phone.integrate([set])
            try phone.write()
            #expect(try phone.capture() == nil)
        }
        let notes = "SELECT title, body FROM note ORDER BY title"
        #expect(try phone.rows(notes) == laptop.rows(notes))
    }

    @Test("A row without a key that a trigger ignores is written without triggers")
    func ignoredCount() throws {
        let schema = "CREATE TABLE line (text TEXT);"
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice(
            "phone",
            schemaSQL: """
                \(schema)
                CREATE TRIGGER no_insert BEFORE INSERT ON line BEGIN SELECT RAISE(IGNORE); END;
                CREATE TRIGGER no_delete BEFORE DELETE ON line BEGIN SELECT RAISE(IGNORE); END;
                """
        )
        try laptop.edit("INSERT INTO line VALUES ('milk'), ('milk'), ('bread')")
        try laptop.capture()
        try laptop.edit("DELETE FROM line WHERE text = 'bread'")
        try laptop.capture()
        for set in laptop.sets {
            try phone.integrate([set])
            try phone.write()
            #expect(try phone.capture() == nil)
        }
        #expect(try phone.rows("SELECT * FROM line ORDER BY 1") == laptop.rows("SELECT * FROM line ORDER BY 1"))
    }

    @Test(
        "One of several equal rows is deleted where a column has a name by which SQLite knows a row",
        arguments: ["rowid", "oid, rowid", "ROWID, _rowid_"]
    )
    func rowIdentifiers(columns: String) throws {
        let schema = "CREATE TABLE line (\(columns), text TEXT)"
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema)
        let values = columns.split(separator: ",").map { _ in "1" }.joined(separator: ", ")
        try laptop.edit("INSERT INTO line VALUES (\(values), 'milk'), (\(values), 'milk'), (\(values), 'bread')")
        try laptop.capture()
        try laptop.edit("DELETE FROM line WHERE text = 'milk'")
        try laptop.edit("INSERT INTO line VALUES (\(values), 'milk')")
        try laptop.capture()
        for set in laptop.sets {
            try phone.integrate([set])
            try phone.write()
        }
        #expect(try phone.rows("SELECT text FROM line ORDER BY 1").count == 2)
        #expect(try phone.rows("SELECT * FROM line ORDER BY text") == laptop.rows("SELECT * FROM line ORDER BY text"))
        #expect(try phone.capture() == nil)
    }

    @Test("Rows that don't synchronize follow their foreign keys when merging deletes the row that they refer to")
    func unsynchronizedChildren() throws {
        let schema = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE);
            CREATE TABLE grdb_visit (id INTEGER PRIMARY KEY, note INTEGER REFERENCES note ON DELETE CASCADE);
            CREATE TABLE grdb_detail (visit INTEGER REFERENCES grdb_visit ON DELETE CASCADE, text);
            CREATE TABLE grdb_pin (
                note INTEGER REFERENCES note ON DELETE SET NULL,
                title TEXT DEFAULT 'bread' REFERENCES note (title) ON DELETE SET DEFAULT
            );
            CREATE TABLE grdb_mark (
                note INTEGER NOT NULL ON CONFLICT ROLLBACK REFERENCES note ON DELETE SET NULL
            );
            CREATE TABLE grdb_link (note INTEGER REFERENCES note);
            """
        // SQLite accepts foreign keys that lead to no column.
        let wrong = """
            CREATE TABLE grdb_wrong (
                note INTEGER REFERENCES note (absent) ON DELETE CASCADE, visit INTEGER REFERENCES absent ON DELETE CASCADE
            );
            """
        let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
        let phone = try SimulatedDevice("phone", schemaSQL: schema + wrong)
        try laptop.edit("INSERT INTO note VALUES (1, 'milk'), (2, 'bread'), (3, 'tea')")
        try laptop.capture()
        try phone.integrate(laptop.sets)
        try phone.write()
        try phone.edit("INSERT INTO grdb_visit VALUES (10, 1), (20, 2)")
        try phone.edit("INSERT INTO grdb_detail VALUES (10, 'of milk'), (20, 'of bread')")
        try phone.edit("INSERT INTO grdb_pin VALUES (1, 'milk'), (2, 'bread'), (3, 'tea')")
        try phone.edit("INSERT INTO grdb_mark VALUES (1), (2)")
        try phone.edit("INSERT INTO grdb_link VALUES (1), (2)")
        #expect(try phone.edit("INSERT INTO grdb_wrong VALUES (1, 10)", observingForeignKeys: false))
        // Another row gets the title of the third.
        try laptop.edit("DELETE FROM note WHERE id IN (1, 3)")
        try laptop.capture()
        try laptop.edit("INSERT INTO note VALUES (4, 'tea')")
        try laptop.capture()
        try phone.integrate(laptop.sets)
        try phone.write()
        #expect(try phone.rows("SELECT id FROM grdb_visit") == ["20"])
        #expect(try phone.rows("SELECT text FROM grdb_detail") == ["\"of bread\""])
        #expect(try phone.rows("SELECT * FROM grdb_pin") == ["NULL|\"bread\"", "2|\"bread\"", "NULL|\"tea\""])
        #expect(try phone.rows("SELECT * FROM grdb_mark") == ["1", "2"], "NULL is refused")
        #expect(try phone.rows("SELECT count(*) FROM grdb_wrong") == ["1"])
        #expect(try phone.rows("SELECT * FROM grdb_link") == ["1", "2"], "the foreign key would refuse the delete")
        #expect(try phone.capture() == nil)
    }

    @Test(
        "Writing foreign keys of unsynchronized rows takes steps in proportion to the rows, even without an index",
        arguments: ["CASCADE", "SET NULL", "SET DEFAULT"]
    )
    func manyUnsynchronizedChildren(action: String) throws {
        func steps(_ count: Int) throws -> Int {
            let schema = """
                CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
                CREATE TABLE grdb_visit (note INTEGER REFERENCES note ON DELETE \(action));
                """
            let laptop = try SimulatedDevice("laptop", schemaSQL: schema)
            let phone = try SimulatedDevice("phone", schemaSQL: schema)
            let notes = (1...count).map { "(\($0), 'milk')" }.joined(separator: ", ")
            try laptop.edit("INSERT INTO note VALUES \(notes)")
            try laptop.capture()
            try phone.integrate(laptop.sets)
            try phone.write()
            try phone.edit("INSERT INTO grdb_visit SELECT id FROM note")
            try laptop.edit("DELETE FROM note")
            try laptop.capture()
            try phone.integrate(laptop.sets)
            let steps = try phone.storeSteps { try phone.write() }
            #expect(try phone.rows("SELECT count(note) FROM grdb_visit") == ["0"])
            return steps
        }
        #expect(try steps(400) < 8 * steps(100))
    }

    @Test("Rows find free numbers beside the greatest integer key")
    func greatestNumber() throws {
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);"
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        try laptop.edit(
            "INSERT INTO note VALUES (9223372036854775807, 'greatest'), (5, 'milk'), (4611686018427387904, 'great')"
        )
        try phone.edit(
            "INSERT INTO note VALUES (9223372036854775807, 'last'), (5, 'bread'), (4611686018427387904, 'grand')"
        )
        for device in [laptop, phone] { try device.capture() }
        for (device, other) in [(laptop, phone), (phone, laptop)] {
            try device.integrate(other.sets)
            try device.write()
            #expect(try device.capture() == nil)
        }
        let titles = "SELECT title FROM note ORDER BY title"
        #expect(try laptop.rows(titles).count == 6)
        #expect(try laptop.rows(titles) == phone.rows(titles))
    }

    @Test(
        "Rows of another store that refer to each other in a chain are found by asking for each reference a few times",
        arguments: ["n + 1", "n - 1"]
    )
    func chain(next: String) throws {
        let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, next INTEGER REFERENCES item, title TEXT);"
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        let count = 100
        try laptop.edit(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT \(count))
            INSERT INTO item SELECT n, iif(\(next) BETWEEN 1 AND \(count), \(next), NULL), 'title ' || n FROM numbers
            """
        )
        try laptop.capture()
        try phone.integrate(laptop.sets)
        try phone.write()
        try phone.edit("UPDATE item SET id = id + 1000, next = next + 1000")
        var searches = 0
        phone.store.inDatabase { db in
            db.trace { event in
                // The statement that asks whether a row exists.
                if "\(event)".contains("SELECT 1 FROM \"item\"") { searches += 1 }
            }
        }
        #expect(try phone.capture(taking: .both).isEmpty, "no row is taken for a new one")
        #expect(searches < 10 * count)
        #expect(try phone.content() == laptop.content())
    }

    @Test("A tree whose root refers to itself is found in another store")
    func tree() throws {
        let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES item, title TEXT);"
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        try laptop.edit(
            "INSERT INTO item VALUES (1, 1, 'root'), (2, 1, 'leaf'), (3, 3, 'root'), (4, 2, 'leaf of leaf')"
        )
        try laptop.capture()
        try phone.integrate(laptop.sets)
        try phone.write()
        try phone.edit("UPDATE item SET id = id + 1000, parent = parent + 1000")
        #expect(try phone.capture(taking: .both).isEmpty, "no row is taken for a new one")
        #expect(try phone.content() == laptop.content())
    }

    @Test("A search index without triggers finds what merging wrote", arguments: ["note", "no\"te"])
    func searchIndexWithoutTriggers(table: String) throws {
        let name = table.replacing("\"", with: "\"\"")
        let schema = """
            CREATE TABLE "\(name)" (id INTEGER PRIMARY KEY, title TEXT);
            CREATE VIRTUAL TABLE search USING fts5(title, content='\(table)', content_rowid='id');
            """
        let (laptop, phone) = (
            try SimulatedDevice("laptop", schemaSQL: schema), try SimulatedDevice("phone", schemaSQL: schema)
        )
        try laptop.edit("INSERT INTO \"\(name)\" VALUES (1, 'milk'), (2, 'bread')")
        try laptop.edit("INSERT INTO search (search) VALUES ('rebuild')")
        try laptop.capture()
        try phone.integrate(laptop.sets)
        try phone.write()
        #expect(try phone.rows("SELECT rowid FROM search WHERE search MATCH 'bread'") == ["2"])
        #expect(try phone.edit("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)"))
    }
}
