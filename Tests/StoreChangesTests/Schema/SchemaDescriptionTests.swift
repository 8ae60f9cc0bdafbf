import GRDB
import Testing

@testable import StoreChanges

@Suite("The description of a schema")
struct SchemaDescriptionTests {
    private static func describe(_ sql: String) throws -> SchemaDescription {
        try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return SchemaDescription(try StoreSchema(db))
        }
    }

    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT);"

    @Test("A schema has the same digest however it came about")
    func digest() throws {
        let created = try Self.describe(
            """
            CREATE TABLE tag (name TEXT COLLATE NOCASE UNIQUE, id INTEGER PRIMARY KEY);
            CREATE TABLE note (body TEXT, title TEXT NOT NULL DEFAULT '', id INTEGER PRIMARY KEY, tag INT REFERENCES tag);
            """
        )
        let migrated = try Self.describe(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, UNIQUE (name));
            ALTER TABLE note ADD COLUMN title TEXT NOT NULL DEFAULT '';
            ALTER TABLE note ADD COLUMN tag INTEGER REFERENCES tag (id);
            CREATE INDEX titles ON note (title);
            """
        )
        #expect(created == migrated && created.digest == migrated.digest)
        #expect(try created.digest != Self.describe(Self.notes).digest)
    }

    @Test(
        "A constraint over the same columns is another one if its expression is, and not if it's only spelled otherwise"
    )
    func checks() throws {
        func describe(_ check: String) throws -> SchemaDescription {
            try Self.describe("CREATE TABLE task (id INTEGER PRIMARY KEY, state TEXT, CHECK (\(check)))")
        }
        let open = try describe("state IN ('open', 'done')")
        #expect(try open == describe(#""State"  in ( 'open','done' ) /* states */"#))
        let more = try describe("state IN ('open', 'done', 'late')")
        #expect(open != more && !open.isCompatible(with: more))
    }

    @Test("Expressions may be longer than names; a column whose default isn't constant isn't optional")
    func expressions() throws {
        let text = String(repeating: "x", count: 10_000)
        let long = try Self.describe(
            """
            CREATE TABLE page (id INTEGER PRIMARY KEY, css TEXT DEFAULT '\(text)', CHECK (css <> '\(text)'));
            CREATE UNIQUE INDEX styles ON page (css) WHERE css <> '\(text)'
            """
        )
        #expect(try SchemaDescription(decoding: long.encoded) == long)
        let former = try Self.describe(Self.notes)
        func isOptional(_ column: String) throws -> Bool {
            let notes = Self.notes.replacing(");", with: ", extra TEXT NOT NULL DEFAULT \(column));")
            return try Self.describe(notes).isCompatible(with: former)
        }
        #expect(try isOptional("''") && !isOptional("CURRENT_TIMESTAMP"))
    }

    @Test(
        "Of another device's unique indexes only those are evaluated that SQLite accepts in an index",
        arguments: [
            "lower(slug)": 1, "(SELECT 1 )": 0, "random()+id": 0, "slug),(id  ": 0, "lower(slop)": 0, "1) WHERE (1": 0,
        ]
    )
    func foreignExpressions(expression: String, count: Int) throws {
        let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, slug TEXT);"
        let bytes = try Self.describe("\(notes) CREATE UNIQUE INDEX slugs ON note (lower(slug))").encoded
        let text = Array("lower(slug)".utf8)
        let start = try #require(bytes.indices.first { bytes[$0...].starts(with: text) })
        var crafted = bytes
        crafted.replaceSubrange(start..<start + text.count, with: expression.utf8)
        crafted[start - 1] = UInt8(expression.utf8.count)
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: notes)
            return try StoreSchema(db)
        }
        let fold = FoldSchema(
            schema,
            earlier: [try SchemaDescription(decoding: crafted)],
            evaluator: ScratchEvaluator(schema)
        )
        #expect(fold.tables["note"]?.uniques.count == count)
    }

    @Test("A description is read as it was written, and in no other form")
    func coding() throws {
        let description = try Self.describe(FoldScenarios.tags + FoldScenarios.notes + FoldScenarios.labels)
        let bytes = description.encoded
        #expect(try SchemaDescription(decoding: bytes) == description)
        for count in 0..<bytes.count {
            #expect(throws: StoreChangesError.self) { try SchemaDescription(decoding: Array(bytes.prefix(count))) }
        }
        #expect(throws: StoreChangesError.self) { try SchemaDescription(decoding: bytes + [0]) }
    }

    @Test("A set with another schema than its digest says is refused")
    func otherDigest() throws {
        var set = SyncChangeSet.by("A", 1, at: 1)
        set.header.schemaDescription = try Self.describe(Self.notes)
        let error = #expect(throws: StoreChangesError.self) { try SyncChangeSet(decoding: set.encoded) }
        #expect(error?.code == .corrupt)
        set.header.schema.digest = try #require(set.header.schemaDescription).digest
        #expect(try SyncChangeSet(decoding: set.encoded) == set)
    }

    @Test(
        "Tables, and columns that rows can do without, are compatible additions",
        arguments: [
            "ALTER TABLE note ADD COLUMN color TEXT", "ALTER TABLE note ADD COLUMN rank INT NOT NULL DEFAULT 1",
            "CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL)", "CREATE INDEX titles ON note (title)",
            "ALTER TABLE note ADD COLUMN parent INT REFERENCES note", "CREATE VIEW titles AS SELECT title FROM note",
        ]
    )
    func additions(sql: String) throws {
        let (former, new) = (try Self.describe(Self.notes), try Self.describe(Self.notes + sql))
        #expect(former.isCompatible(with: new) && new.isCompatible(with: former))
    }

    @Test(
        "Everything else isn't compatible",
        arguments: [
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body BLOB)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE, body TEXT)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT DEFAULT 'x', body TEXT)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT, CHECK (title <> body))",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT REFERENCES note, body TEXT)",
            "CREATE TABLE note (id INTEGER, title TEXT, body TEXT)",
            "CREATE TABLE note (id INTEGER CHECK (id = 1) PRIMARY KEY, title TEXT, body TEXT)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT, rank INT NOT NULL)",
        ]
    )
    func otherChanges(sql: String) throws {
        let (former, new) = (try Self.describe(Self.notes), try Self.describe(sql))
        #expect(!former.isCompatible(with: new) && !new.isCompatible(with: former))
    }
}
