import GRDB
import StoreChanges
import Testing

@Suite("The questions that a schema raises")
struct SchemaQuestionsTests {
    private func questions(on table: String, _ sql: String, _ rules: SyncRules = .none) throws -> [String] {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try StoreSchema(db, rules: rules)
        }
        let report = try #require(schema.reports.first { $0.table == table })
        #expect(report.synchronizes)
        return report.questions
    }

    @Test(
        "A foreign key of a generated column, or to one, is reported, because merging doesn't follow it",
        arguments: [
            ("INT AS (data ->> 'folder') REFERENCES folder", "(Link) → folder(id): SQLite computes Link"),
            ("INT AS (data ->> 'folder') STORED REFERENCES folder", "(Link) → folder(id): SQLite computes Link"),
            ("TEXT REFERENCES folder (CODE)", "(Link) → folder(CODE): SQLite computes CODE"),
            ("INT REFERENCES folder", nil), ("TEXT REFERENCES folder (name)", nil),
        ]
    )
    func generatedReferences(definition: String, beginning: String?) throws {
        let questions = try questions(
            on: "note",
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE, code TEXT AS (lower(name)) UNIQUE);
            CREATE TABLE note (id INTEGER PRIMARY KEY, data TEXT, Link \(definition));
            """
        )
        #expect(questions.count == (beginning == nil ? 0 : 1))
        if let beginning { #expect(questions.first?.hasPrefix(beginning) == true, "\(questions)") }
    }

    @Test(
        "An undeclared column is asked about if its name is a table's, or says that it holds numbers of rows",
        arguments: [
            ("book INTEGER", "Does book hold numbers of books?"),
            ("Category_ID INT", "Does Category_ID hold numbers of categories?"),
            ("series INT", "Does series hold numbers of series?"),
            ("parent INT", "Does parent hold numbers of item?"),
            ("parent_id INT", "Does parent_id hold numbers of item?"),
            ("item_id INT", "Does item_id hold numbers of item?"),
            ("owner_id INT, owner_type TEXT", "Does owner_id hold numbers of rows?"),
            ("threadId INT", "Does threadId hold numbers of rows?"),
            ("libraryID INT", "Does libraryID hold numbers of rows?"),
            ("PAID INT, valid INT, \"ID\" INT", nil), ("item INT, book INT REFERENCES books", nil),
            ("owner_id TEXT, book TEXT", nil),
        ]
    )
    func undeclaredReferences(columns: String, question: String?) throws {
        let questions = try questions(
            on: "item",
            """
            CREATE TABLE books (id INTEGER PRIMARY KEY);
            CREATE TABLE categories (id INTEGER PRIMARY KEY);
            CREATE TABLE series (id INTEGER PRIMARY KEY, series INT);
            CREATE TABLE item (number INTEGER PRIMARY KEY, \(columns));
            """
        )
        #expect(questions.count == (question == nil ? 0 : 1), "\(questions)")
        if let question { #expect(questions.first?.hasPrefix(question) == true, "\(questions)") }
    }

    @Test("An integer key is asked about if it has the name of another table's rows, but not for its own name")
    func keysThatReferToRows() throws {
        let schema = """
            CREATE TABLE items (itemID INTEGER PRIMARY KEY, parent_item_id INT);
            CREATE TABLE itemNotes (itemID INTEGER PRIMARY KEY, note TEXT);
            """
        let questions = (try questions(on: "items", schema), try questions(on: "itemNotes", schema))
        #expect(questions.0.count == 1 && questions.0[0].hasPrefix("Does parent_item_id hold numbers of rows?"))
        #expect(questions.1.count == 1 && questions.1[0].hasPrefix("Does itemID hold numbers of items?"))
    }

    @Test("A column named parent refers to a table of parents, if there is one")
    func parents() throws {
        let questions = try questions(
            on: "student",
            "CREATE TABLE parents (id INTEGER PRIMARY KEY); CREATE TABLE student (id INTEGER PRIMARY KEY, parent_id INT)"
        )
        let isOfParents = questions.first?.hasPrefix("Does parent_id hold numbers of parents?") == true
        #expect(questions.count == 1 && isOfParents, "\(questions)")
    }

    @Test("Columns aren't taken for numbers of rows if no table has numbers that differ between devices")
    func noNumbers() throws {
        let schema = "CREATE TABLE item (uuid TEXT PRIMARY KEY NOT NULL, owner_id INT, parent INT)"
        #expect(try questions(on: "item", schema).isEmpty)
    }

    @Test(
        "Triggers that need a function of the app are reported, whatever statement runs them",
        arguments: [
            ("INSERT", "fold", true), ("UPDATE OF body", "fold", true), ("DELETE", "fold", true),
            ("INSERT", "lower", false),
        ]
    )
    func triggers(event: String, function: String, isReported: Bool) throws {
        let questions = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT, half INT AS (id / 2));
                    CREATE TABLE log (text TEXT NOT NULL PRIMARY KEY);
                    CREATE TRIGGER logged AFTER \(event) ON note BEGIN INSERT INTO log VALUES (\(function)('x')); END;
                    """
            )
            var schema = try StoreSchema(db)
            try schema.askAboutRows(in: db)
            return schema.reports.flatMap(\.questions)
        }
        #expect(questions.count == (isReported ? 1 : 0), "\(questions)")
        #expect(questions.contains { $0.contains("only the app has (no such function: fold)") } == isReported)
    }

    @Test("Triggers with text in double quotes aren't reported, nor those of tables whose foreign keys lead nowhere")
    func workingTriggers() throws {
        let questions = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE shelf (id INTEGER PRIMARY KEY, label TEXT);
                    CREATE TABLE note (id INTEGER PRIMARY KEY, kind INT REFERENCES nowhere, shelf TEXT REFERENCES shelf (label));
                    CREATE TABLE log (text TEXT NOT NULL PRIMARY KEY);
                    CREATE TRIGGER logged AFTER INSERT ON note BEGIN INSERT INTO log VALUES ("a note"); END;
                    CREATE TRIGGER removed AFTER DELETE ON shelf BEGIN INSERT INTO log VALUES ("a shelf"); END;
                    """
            )
            var schema = try StoreSchema(db)
            try schema.askAboutRows(in: db)
            return schema.reports.flatMap(\.questions)
        }
        #expect(!questions.contains { $0.contains("only the app has") }, "\(questions)")
    }

    @Test(
        "An index that is taken for a position is asked about, but not the key's, whose values name the rows",
        arguments: [
            ("id INTEGER PRIMARY KEY, album INT REFERENCES album, track INT, UNIQUE (album, track)", true),
            ("album INT NOT NULL REFERENCES album, track INT NOT NULL, PRIMARY KEY (album, track)", false),
            ("album INT NOT NULL REFERENCES album, track INT NOT NULL, UNIQUE (Album, Track)", false),
        ]
    )
    func positions(columns: String, isAsked: Bool) throws {
        let questions = try questions(
            on: "song",
            "CREATE TABLE album (id INTEGER PRIMARY KEY); CREATE TABLE song (\(columns))"
        )
        #expect(questions.count == (isAsked ? 1 : 0), "\(questions)")
        #expect(questions.contains { $0.contains("is taken for a position in a list") } == isAsked)
    }

    @Test("The rules answer the question about a position, whatever they say of its index")
    func ruledPositions() throws {
        for kind in [UniqueIndex.Kind.position, .identity] {
            let rule = SyncRules.Unique(table: "Song", columns: ["TRACK", "album"], kind: kind)
            let questions = try questions(
                on: "song",
                """
                CREATE TABLE album (id INTEGER PRIMARY KEY);
                CREATE TABLE song (id INTEGER PRIMARY KEY, album INT REFERENCES album, track INT, UNIQUE (album, track));
                """,
                SyncRules(uniques: [rule])
            )
            #expect(questions == [], "\(kind)")
        }
    }

    @Test(
        "A CHECK on numbers that devices assign is asked about, unless it lists them, or allows all positive ones",
        arguments: [
            ("id INTEGER PRIMARY KEY, v, CHECK (id = 1 AND typeof(id) = 'integer')", true),
            ("id INTEGER PRIMARY KEY CHECK (\"ID\" > 0), v", false),
            ("id INTEGER PRIMARY KEY CHECK (0 <= id), v", false),
            ("id INTEGER PRIMARY KEY, v, CHECK (rowid >= 1)", false),
            ("id INTEGER PRIMARY KEY CHECK (id > 1), v", true),
            ("id INTEGER PRIMARY KEY CHECK (id > 0 AND id < 9), v", true),
            ("id INTEGER PRIMARY KEY, v, CHECK (oid < 3)", true),
            ("v, CHECK (rowid < 3)", true), ("v TEXT PRIMARY KEY NOT NULL, CHECK (\"_ROWID_\" < 3)", true),
            ("id INTEGER PRIMARY KEY, v, CHECK (rowid = 1)", false), ("id INTEGER PRIMARY KEY, v CHECK (v > 0)", false),
            ("id INTEGER PRIMARY KEY, oid INT, CHECK (oid < 3)", false),
            ("v, rowid AS (v + 1), CHECK (rowid < 3)", false),
            ("v, CHECK (v <> 'rowid')", false),
        ]
    )
    func limitedNumbers(columns: String, isAsked: Bool) throws {
        let questions = try questions(on: "item", "CREATE TABLE item (\(columns))")
        #expect(questions.contains { $0.hasPrefix("Does a CHECK allow only some") } == isAsked, "\(questions)")
    }

    @Test(
        "A unique index is reported if its condition depends on assigned numbers, unless it tests for NULL alone",
        arguments: [
            ("list > 0", true), ("title <> '' AND \"LIST\" IN (1, 2)", true), ("[list] % 2", true), ("id < 9", true),
            ("100 < half", true), ("list IS 7", true), ("list IS NULL OR list = 3", true), ("list IS NOT NULL", false),
            ("List IS NULL", false), ("list NOTNULL AND title > 'list'", false), ("list NOT NULL", false),
            ("list ISNULL OR pos > 0", false), ("year > 2000", false), ("pos * 2 > 1", false),
        ]
    )
    func numbersInConditions(condition: String, isReported: Bool) throws {
        let questions = try questions(
            on: "item",
            """
            CREATE TABLE list (id INTEGER PRIMARY KEY);
            CREATE TABLE year (id INTEGER PRIMARY KEY CHECK (id IN (2025, 2026)));
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, list INTEGER REFERENCES list, year INT REFERENCES year, pos INT, title TEXT,
                half INT AS (list / 2)
            );
            CREATE UNIQUE INDEX u ON item (title) WHERE \(condition);
            CREATE INDEX i ON item (title) WHERE list > 0;
            """
        )
        let question = "(title) WHERE \(condition): the condition depends on numbers"
        #expect(questions.count == (isReported ? 1 : 0), "\(questions)")
        #expect(questions.contains { $0.hasPrefix(question) } == isReported, "\(questions)")
    }
}
