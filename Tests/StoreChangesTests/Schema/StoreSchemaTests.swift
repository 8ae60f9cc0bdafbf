import Foundation
import GRDB
import StoreChanges
import Testing

@Suite("The schema of a store")
struct StoreSchemaTests {
    private func schema(_ sql: String, rules: SyncRules = .none) throws -> StoreSchema {
        try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try StoreSchema(db, rules: rules)
        }
    }

    @Test(
        "The key is the primary key, else a unique index over columns that aren't NULL, else none",
        arguments: [
            ("CREATE TABLE t (id INTEGER PRIMARY KEY, a)", TableKey.integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY DESC, a)", .natural(columns: ["id"])),
            ("CREATE TABLE t (id INT PRIMARY KEY, a)", .natural(columns: ["id"])),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY, a) WITHOUT ROWID", .natural(columns: ["id"])),
            ("CREATE TABLE t (b TEXT, a TEXT, c, PRIMARY KEY (b, a))", .natural(columns: ["a", "b"])),
            ("CREATE TABLE t (a TEXT NOT NULL UNIQUE, b)", .natural(columns: ["a"])),
            ("CREATE TABLE t (a TEXT UNIQUE, b)", .none),
            (
                "CREATE TABLE t (a NOT NULL, b NOT NULL, c NOT NULL, UNIQUE (a, b), UNIQUE (c))",
                .natural(columns: ["c"])
            ),
            ("CREATE TABLE t (a NOT NULL, b NOT NULL, UNIQUE (b), UNIQUE (a))", .natural(columns: ["a"])),
            ("CREATE TABLE t (a NOT NULL); CREATE UNIQUE INDEX i ON t (a) WHERE a > 1", .none),
            ("CREATE TABLE t (a NOT NULL); CREATE UNIQUE INDEX i ON t (lower(a))", .none),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id = 1), a)", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK ((id IN (1, 2)) OR id = -3), a)", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (\"ID\" BETWEEN 1 AND 3), a)", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id BETWEEN -49 AND 50), a)", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id BETWEEN -50 AND 50), a)", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 2147483647), a)", .integer(column: "id")),
            (
                "CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id = 1 OR id BETWEEN -9223372036854775807 AND 9), a)",
                .integer(column: "id")
            ),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (1 BETWEEN id AND 1), a)", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY, a, CHECK (rowid = 1))", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (\"OID\" IN (1, 2)), a)", .meaningful(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY, rowid INT CHECK (rowid = 1))", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY, a, CHECK (id <> a))", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (id > 0), a)", .integer(column: "id")),
            ("CREATE TABLE t (id INTEGER PRIMARY KEY CHECK (typeof(id) = 'integer'), a)", .integer(column: "id")),
        ]
    )
    func keys(sql: String, key: TableKey) throws {
        let schema = try schema(sql)
        #expect(schema.table("T")?.key == key)
        #expect(schema.reports.map(\.synchronizes) == [true])
    }

    @Test("Rules say that numbers have a meaning, and exclude tables")
    func rules() throws {
        let schema = try schema(
            "CREATE TABLE year (year INTEGER PRIMARY KEY); CREATE TABLE cache (id INTEGER PRIMARY KEY)",
            rules: SyncRules(excludedTables: ["Cache"], meaningfulKeys: ["Year"])
        )
        #expect(schema.tables.map(\.key) == [.meaningful(column: "year")])
        #expect(schema.reports.first?.reason == "The document's rules exclude it.")
    }

    @Test(
        "Rules may name what the store has, in any case of letters; any other name is refused, and the error has it",
        arguments: [
            (#"{"excludedTables": ["SONG", "names"], "meaningfulKeys": ["album"]}"#, nil),
            (#"{"references": [{"table": "song", "columns": ["album"], "parent": "album"}]}"#, nil),
            (#"{"uniques": [{"table": "song", "columns": ["Track", "album"], "kind": "identity"}]}"#, nil),
            (#"{"excludedTables": ["songs"]}"#, "a table “songs”"),
            (#"{"meaningfulKeys": ["year"]}"#, "a table “year”"),
            (#"{"references": [{"table": "play", "columns": ["song"], "parent": "song"}]}"#, "a table “play”"),
            (#"{"references": [{"table": "song", "columns": ["alb"], "parent": "album"}]}"#, "a column “alb” of song"),
            (#"{"references": [{"table": "song", "columns": ["album"], "parent": "disk"}]}"#, "a table “disk”"),
            (
                #"{"references": [{"table": "song", "columns": ["album"], "parent": "album", "parentColumns": ["no"]}]}"#,
                "a column “no” of album"
            ),
            (#"{"uniques": [{"table": "song", "columns": ["alb"], "kind": "identity"}]}"#, "a column “alb” of song"),
            (
                #"{"uniques": [{"table": "song", "columns": ["track"], "kind": "identity"}]}"#,
                "a unique index of track of song"
            ),
            (
                #"{"uniques": [{"table": "song", "columns": ["title"], "kind": "identity"}]}"#,
                "a unique index of title of song"
            ),
        ]
    )
    func unknownNames(json: String, problem: String?) throws {
        let rules = try SyncRules(decoding: json.utf8)
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE album (id INTEGER PRIMARY KEY);
                    CREATE TABLE song (id INTEGER PRIMARY KEY, album INT, track INT, title TEXT, UNIQUE (album, track));
                    CREATE INDEX titles ON song (title);
                    CREATE VIEW names AS SELECT title FROM song;
                    """
            )
            guard let problem else { return try rules.validate(db) }
            let error = #expect(throws: StoreChangesError.self) { try rules.validate(db) }
            #expect(error?.code == .invalidRules)
            #expect(error?.message.contains(problem) == true, "\(error?.message ?? "")")
        }
    }

    @Test(
        "A rule for a reference to fewer or more columns than it has is refused, and the error names them",
        arguments: [
            (["disk"], nil, "(disk) of song for a reference to (artist, disk) of album, its primary key. Name as many"),
            (["artist", "disk"], ["disk"], "(artist, disk) of song for a reference to (disk) of album. Name as many"),
            (["disk"], [], "(disk) of song for a reference to () of album. Name as many"),
            ([], nil, "() of song"), (["disk", "artist"], nil, nil), (["disk"], ["disk"], nil),
        ] as [([String], [String]?, String?)]
    )
    func unequalColumns(columns: [String], parentColumns: [String]?, problem: String?) throws {
        let reference = SyncRules.Reference(
            table: "song",
            columns: columns,
            parent: "album",
            parentColumns: parentColumns
        )
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE album (disk INT UNIQUE, artist TEXT, PRIMARY KEY (artist, disk));
                    CREATE TABLE song (id INTEGER PRIMARY KEY, artist TEXT, disk INT);
                    """
            )
            let rules = SyncRules(references: [reference])
            guard let problem else { return try rules.validate(db) }
            let error = #expect(throws: StoreChangesError.self) { try rules.validate(db) }
            #expect(error?.code == .invalidRules)
            #expect(error?.message.contains(problem) == true, "\(error?.message ?? "")")
        }
    }

    @Test("A store's bookkeeping, views, virtual and shadow tables don't synchronize, and the reason is said")
    func excluded() throws {
        let schema = try schema(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT);
            INSERT INTO note (body) VALUES ('x');
            CREATE VIEW recent AS SELECT * FROM note;
            CREATE VIRTUAL TABLE search USING fts5(body);
            CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
            CREATE TABLE schema_migrations (version TEXT NOT NULL PRIMARY KEY);
            CREATE TABLE alembic_version (version_num TEXT NOT NULL PRIMARY KEY);
            CREATE TABLE migrations (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, name TEXT NOT NULL);
            CREATE TABLE SequelizeMeta (name TEXT NOT NULL PRIMARY KEY);
            """
        )
        #expect(schema.tables.map(\.name) == ["note"])
        for report in schema.reports where !report.synchronizes { #expect(report.reason?.isEmpty == false) }
        let excluded = Set(schema.reports.filter { !$0.synchronizes }.map(\.table))
        #expect(
            excluded.isSuperset(of: [
                "recent", "search", "search_data", "grdb_migrations", "schema_migrations", "alembic_version",
                "migrations", "SequelizeMeta",
            ])
        )
    }

    @Test("A table of birds' migrations isn't taken for the bookkeeping of the app's updates")
    func otherMigrations() throws {
        let schema = try schema("CREATE TABLE migrations (id INTEGER PRIMARY KEY, bird TEXT, distance REAL)")
        #expect(schema.tables.map(\.name) == ["migrations"])
    }

    @Test("A search index whose tokenizer only the app has is reported")
    func unknownTokenizer() throws {
        let schema = try schema(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
            CREATE VIRTUAL TABLE search USING fts5 (title, content = note, content_rowid = id);
            CREATE VIRTUAL TABLE other USING fts5 (title, content = note, content_rowid = id);
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, ')', ', tokenize = app)') WHERE name = 'search';
            PRAGMA writable_schema = RESET;
            """
        )
        func reason(_ table: String) -> String? { schema.reports.first { $0.table == table }?.reason }
        #expect(reason("search")?.contains("only the app has (no such tokenizer: app)") == true)
        #expect(reason("other")?.contains("with content= is rebuilt") == true)
        #expect(schema.tables.map(\.name) == ["note"])
    }

    @Test("A trigger with the name of a table or an index isn't taken for either")
    func namesOfTriggers() throws {
        let rest = """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> ''));
            CREATE UNIQUE INDEX tag_name ON tag (lower(name)) WHERE name IS NOT NULL;
            """
        let note = "CREATE TABLE note (id INTEGER PRIMARY KEY);"
        let triggers = ["tag", "tag_name"].map { "CREATE TRIGGER \($0) AFTER INSERT ON note BEGIN SELECT 1; END;" }
        let expected = try #require(try schema(note + rest).table("tag"))
        #expect(try schema(note + triggers.joined() + rest).table("tag") == expected)
    }

    @Test("No table of Core Data's stores synchronizes")
    func coreData() throws {
        let schema = try schema(
            """
            CREATE TABLE ZNOTE (Z_PK INTEGER PRIMARY KEY, ZTITLE VARCHAR);
            CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_MAX INTEGER);
            CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_PLIST BLOB);
            """
        )
        #expect(schema.tables.isEmpty && !schema.reports.isEmpty)
        #expect(schema.reports.allSatisfy { $0.reason?.contains("Core Data") == true })
    }

    @Test("Columns that look like references are asked about, also in the key of a table that joins two others")
    func undeclaredReferences() throws {
        let schema = try schema(
            """
            CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE tagged (book_id INTEGER, tag_id INTEGER, PRIMARY KEY (book_id, tag_id));
            CREATE TABLE loan (id INTEGER PRIMARY KEY, book_id INTEGER);
            CREATE TABLE page (book_id INTEGER REFERENCES book, number INTEGER, PRIMARY KEY (book_id, number));
            """
        )
        let questions = Dictionary(uniqueKeysWithValues: schema.reports.map { ($0.table, $0.questions) })
        #expect(questions["tagged"]?.count == 2 && questions["loan"]?.count == 1)
        #expect(questions["tagged"]?[0].contains("Does book_id hold numbers of book?") == true)
        #expect(questions["book"] == [])
        #expect(questions["page"]?.contains { $0.contains("hold numbers") } == false)
    }

    @Test("A table doesn't synchronize that needs a function or collation of the app, or has unique values by GRDB's")
    func foreignElements() throws {
        let queue = try DatabaseQueue()
        let schema = try queue.write { db in
            db.add(function: DatabaseFunction("fold", argumentCount: 1, pure: true) { $0[0] })
            db.add(collation: DatabaseCollation("swedish") { _, _ in .orderedSame })
            try db.execute(
                sql: """
                    CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE UNIQUE INDEX i ON a (fold(name));
                    CREATE TABLE b (id INTEGER PRIMARY KEY, name TEXT COLLATE swedish);
                    CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE);
                    CREATE TABLE d (id INTEGER PRIMARY KEY, name TEXT COLLATE swiftCaseInsensitiveCompare);
                    CREATE TABLE e (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE swiftCaseInsensitiveCompare);
                    CREATE TABLE f (name TEXT PRIMARY KEY NOT NULL COLLATE swiftLocalizedCompare) WITHOUT ROWID;
                    """
            )
            return try StoreSchema(db)
        }
        #expect(schema.tables.map(\.name) == ["c", "d"])
        #expect(schema.tables[0].column("NAME")?.collation == .noCase)
        #expect(schema.reports[0].reason?.contains("fold") == true)
        #expect(schema.reports[1].reason?.contains("swedish") == true)
        #expect(schema.reports[4].reason?.contains("swiftCaseInsensitiveCompare") == true)
        #expect(schema.reports[5].reason?.contains("swiftLocalizedCompare") == true)
    }

    @Test("A table doesn't synchronize whose columns have all names by which SQLite knows a row")
    func rowIdentifiers() throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE a (rowid, OID, _rowid_); CREATE TABLE b (rowid, _rowid_)")
            return try StoreSchema(db)
        }
        #expect(schema.tables.map(\.name) == ["b"])
        #expect(schema.reports[0].reason?.contains("Rename one") == true)
    }

    @Test("Foreign keys name the columns to which they refer")
    func references() throws {
        let schema = try schema(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE);
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, folder REFERENCES folder ON DELETE CASCADE,
                code TEXT REFERENCES folder (code) ON DELETE SET NULL, a, b,
                FOREIGN KEY (a, b) REFERENCES pair
            );
            CREATE TABLE pair (a, b, PRIMARY KEY (b, a));
            """
        )
        let references = try #require(schema.table("item")?.references)
        #expect(
            references.map(\.description) == ["(folder) → folder(id)", "(code) → folder(code)", "(a, b) → pair(b, a)"]
        )
        #expect(references.map(\.onDelete) == [.cascade, .setNull, .noAction])
    }

    @Test("Partial and expression indexes keep their expressions")
    func expressions() throws {
        let schema = try schema(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, "a, b" TEXT, c TEXT COLLATE NOCASE);
            CREATE UNIQUE INDEX i ON t (lower("a, b") COLLATE RTRIM DESC, c, (c || ',')) WHERE c <> 'where (' AND "a, b" > 1;
            """
        )
        let unique = try #require(schema.table("t")?.uniques.first)
        #expect(unique.terms.map(\.expression) == ["lower(\"a, b\")", "\"c\"", "(c || ',')"])
        #expect(unique.terms.map(\.collation) == [.trailingSpaces, .noCase, .binary])
        #expect(unique.condition == "c <> 'where (' AND \"a, b\" > 1")
        #expect(unique.columns == nil)
    }

    @Test("CHECK constraints name their columns, wherever they are written")
    func checks() throws {
        let schema = try schema(
            """
            CREATE TABLE t (
                a INT CHECK (a > 0), b /* CHECK (c) */ TEXT DEFAULT 'CHECK (c)', c,
                CONSTRAINT x CHECK (length("b") < 9 AND [c] <> 'a'), -- CHECK (a)
                CHECK (B < C)
            );
            ALTER TABLE t ADD COLUMN d CHECK (d IN (1, (2)));
            """
        )
        #expect(schema.table("t")?.checks.map(\.columns) == [["a"], ["d"], ["b", "c"], ["b", "c"]])
    }

    @Test("A constraint of generated columns names the columns from which SQLite computes them, NOT NULL included")
    func checksOfGeneratedColumns() throws {
        let schema = try schema(
            """
            CREATE TABLE t (
                a, b, c, d, "e f" VARCHAR(3) GENERATED ALWAYS AS (a + 1) STORED CHECK ("e f" > 0), g AS (b || h), h AS (C),
                i AS (d) NOT NULL, j AS (1) NOT NULL, k NOT NULL, l AS (k || 'x') NOT NULL, CHECK (G <> '')
            );
            """
        )
        #expect(schema.table("t")?.checks.map(\.columns) == [["a"], ["b", "c"], ["d"]])
    }

    @Test("Generated columns aren't among the columns; conflict clauses are known")
    func columns() throws {
        let schema = try schema(
            """
            CREATE TABLE t (
                id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE,
                upper TEXT AS (upper(name)), length INT AS (length(name)) STORED, n NUMERIC(3), r DOUBLE, x
            );
            CREATE TABLE s (a ANY PRIMARY KEY, b TEXT) STRICT, WITHOUT ROWID;
            """
        )
        let table = try #require(schema.table("t"))
        #expect(table.columns.map(\.name) == ["id", "name", "n", "r", "x"])
        #expect(table.columns.map(\.affinity) == [.integer, .text, .numeric, .real, .blob])
        #expect(table.replacesOnConflict)
        let strict = try #require(schema.table("s"))
        #expect(strict.columns.map(\.affinity) == [.blob, .text])
        #expect(strict.isWithoutRowID && !strict.replacesOnConflict)
        #expect(strict.columns[0].isNotNull)
    }

    @Test("An index that ends with an integer, in a list that a reference names, is a position")
    func positions() throws {
        let sql = """
            CREATE TABLE album (id INTEGER PRIMARY KEY);
            CREATE TABLE song (id INTEGER PRIMARY KEY, album REFERENCES album, track INT, title TEXT,
                UNIQUE (album, track), UNIQUE (album, title));
            """
        #expect(try schema(sql).table("song")?.uniques.map(\.kind) == [.position, .identity])
        let rules = SyncRules(uniques: [.init(table: "song", columns: ["track", "album"], kind: .identity)])
        #expect(try schema(sql, rules: rules).table("song")?.uniques.map(\.kind) == [.identity, .identity])
    }

    @Test("By the rules, an index of one column is a position too, or one without a reference")
    func ruledPositions() throws {
        let schema = try schema(
            "CREATE TABLE task (id INTEGER PRIMARY KEY, place INT UNIQUE, day TEXT, turn INT, UNIQUE (day, turn))",
            rules: SyncRules(uniques: [
                .init(table: "Task", columns: ["PLACE"], kind: .position),
                .init(table: "task", columns: ["turn", "day"], kind: .position),
            ])
        )
        #expect(schema.table("task")?.uniques.map(\.kind) == [.position, .position])
    }

    @Test(
        "A rule for a position that can't change or holds no integers is refused, and the error says why",
        arguments: [
            (["album", "track"], "These columns name the table's rows"),
            (["title", "next"], "next refers to other rows."),
            (["album", "double"], "SQLite computes double."), (["album", "title"], "title holds text."),
            (["album", "length"], "length holds floating-point numbers."),
            (["track"], nil), (["track", "next"], nil),
        ]
    )
    func unsuitablePositions(columns: [String], problem: String?) throws {
        let rules = SyncRules(uniques: [.init(table: "song", columns: columns, kind: .position)])
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE album (id INTEGER PRIMARY KEY);
                    CREATE TABLE song (
                        album INT NOT NULL REFERENCES album, track INT UNIQUE, title TEXT, next INT REFERENCES album,
                        double INT AS (track * 2), length REAL,
                        PRIMARY KEY (album, track), UNIQUE (title, next), UNIQUE (next, track),
                        UNIQUE (track, next), UNIQUE (album, double), UNIQUE (album, title), UNIQUE (album, length)
                    );
                    """
            )
            guard let problem else { return try rules.validate(db) }
            let error = #expect(throws: StoreChangesError.self) { try rules.validate(db) }
            #expect(error?.code == .invalidRules)
            #expect(error?.message.contains(problem) == true, "\(error?.message ?? "")")
        }
    }

    @Test(
        "A CHECK that compares numbers of two rows by their order is reported; any other comparison isn't",
        arguments: [
            ("first < second", true), ("\"SECOND\" >= [first]", true), ("id > first", true),
            ("first <> second", false), ("first = second", false), ("first > 0", false), ("low < high", false),
            ("first IS NULL OR low < second", false),
        ]
    )
    func orderedNumbers(check: String, isReported: Bool) throws {
        let schema = try schema(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY);
            CREATE TABLE pair (id INTEGER PRIMARY KEY, first REFERENCES person, second REFERENCES person, low INT, high INT,
                CHECK (\(check)));
            """
        )
        let questions = schema.reports.first { $0.table == "pair" }?.questions ?? []
        #expect(questions.contains { $0.contains("by their order") } == isReported, "\(questions)")
    }

    @Test("What a schema leaves open is asked, with what to do")
    func questions() throws {
        let database = try DatabaseQueue()
        try database.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE log (line TEXT);
                    CREATE TABLE users (id INTEGER PRIMARY KEY);
                    CREATE TABLE post (id INTEGER PRIMARY KEY, user_id INTEGER, year INT);
                    CREATE TABLE settings (id INTEGER PRIMARY KEY, theme TEXT);
                    INSERT INTO settings VALUES (1, 'dark');
                    INSERT INTO users VALUES (1);
                    CREATE TABLE folder (id INTEGER PRIMARY KEY);
                    INSERT INTO folder VALUES (0), (1);
                    CREATE TABLE pair (a TEXT, b TEXT, PRIMARY KEY (a, b));
                    INSERT INTO pair VALUES (NULL, 'x');
                    """
            )
        }
        var schema = try database.read { try StoreSchema($0) }
        func questions(_ table: String) -> [String] { schema.reports.first { $0.table == table }?.questions ?? [] }
        #expect(questions("log").first?.contains("Add a primary key") == true)
        #expect(questions("post").count == 1)
        #expect(questions("post").first?.contains("declare it as a foreign key") == true)
        #expect(questions("settings").isEmpty && questions("pair").isEmpty, "no row has been read")
        try database.read { try schema.askAboutRows(in: $0) }
        #expect(questions("settings").first?.contains("meaningfulKeys") == true)
        #expect(questions("folder").first?.contains("meaningfulKeys") == true, "SQLite hardly assigns 0")
        #expect(questions("pair").first?.contains("NOT NULL") == true)
        #expect(questions("users").isEmpty)
    }

    @Test("The example of the landing page lists what doesn't synchronize")
    func example() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).sqlite")
        defer { try? FileManager.default.removeItem(at: url) }
        try DatabaseQueue(path: url.path).write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
            try db.execute(sql: "CREATE VIEW all_notes AS SELECT * FROM note")
        }
        // DOC: check
        let schema = try StoreSchema(storeAt: url)
        for report in schema.reports where !report.synchronizes {
            print(report.table, report.reason ?? "")
        }
        // DOC: end
        #expect(schema.reports.filter { !$0.synchronizes }.map(\.table) == ["all_notes"])
    }
}
