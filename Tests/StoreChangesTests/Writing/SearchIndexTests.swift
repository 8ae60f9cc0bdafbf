import Testing

@testable import StoreChanges

@Suite("Search indexes of what merging wrote", .timeLimit(.minutes(60)))
struct SearchIndexTests {
    private static let note = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);"

    /// Lets the phone integrate and write what the laptop's user changed.
    private static func bring(_ devices: DevicePair) throws {
        let former = devices.laptop.sets.count
        try devices.laptop.capture()
        try devices.phone.receive(Array(devices.laptop.sets.dropFirst(former)))
    }

    private static func matches(_ word: String, on device: SimulatedDevice) throws -> [String] {
        try device.rows("SELECT rowid FROM search WHERE search MATCH '\(word)'")
    }

    @Test("A search index of a view finds what merging wrote into the view's table")
    func view() throws {
        let devices = try DevicePair(
            """
            \(Self.note)
            CREATE VIEW titles AS SELECT id, title FROM note;
            CREATE VIRTUAL TABLE search USING fts5 (title, content = Titles, content_rowid = id);
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk')")
        try Self.bring(devices)
        #expect(try Self.matches("milk", on: devices.phone) == ["1"])
        try devices.laptop.edit("UPDATE note SET title = 'bread'")
        try Self.bring(devices)
        #expect(try Self.matches("bread", on: devices.phone) == ["1"])
        #expect(try Self.matches("milk", on: devices.phone).isEmpty)
    }

    @Test(
        "A search index is rebuilt however its statement is written",
        arguments: ["USING\n    fts5 (", "USING  fts5(", "using/* full text */\"FTS5\"(", "USING 'fts5' ("]
    )
    func statement(using: String) throws {
        let devices = try DevicePair(
            "\(Self.note) CREATE  VIRTUAL TABLE search \(using)title, content = note, content_rowid = id);"
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk')")
        try Self.bring(devices)
        #expect(try Self.matches("milk", on: devices.phone) == ["1"])
        #expect(devices.phone.staleSearchIndexes.isEmpty)
    }

    @Test("Only a virtual table of a full-text module, whatever its name, is a search index of a table")
    func modules() {
        for (statement, content) in [
            ("CREATE VIRTUAL TABLE \"using fts5\" USING fts4(content = note)", "note"),
            ("CREATE VIRTUAL TABLE search USING FTS5(title, content = 'my note')", "my note"),
            ("CREATE VIRTUAL TABLE search USING fts5(title, content = '')", nil),
            ("CREATE VIRTUAL TABLE search USING fts5(title)", nil),
            ("CREATE VIRTUAL TABLE \"using fts5\" USING rtree(content = note)", nil),
        ] {
            #expect(SQLTokens(statement).contentOfSearchIndex == content, "\(statement)")
        }
    }

    @Test("A search index that was never filled is rebuilt when its triggers fail for that")
    func neverFilled() throws {
        let devices = try DevicePair(Self.note)
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk'), (2, 'bread')")
        try Self.bring(devices)
        try devices.phone.edit(
            """
            CREATE VIRTUAL TABLE search USING fts5 (title, content = note, content_rowid = id);
            CREATE TRIGGER note_deleted AFTER DELETE ON note BEGIN
                INSERT INTO search (search, rowid, title) VALUES ('delete', old.id, old.title);
            END;
            """
        )
        try devices.laptop.edit("DELETE FROM note WHERE id = 1")
        try Self.bring(devices)
        #expect(try devices.phone.rows("SELECT id FROM note") == ["2"])
        #expect(try Self.matches("bread", on: devices.phone) == ["2"])
        #expect(try devices.phone.violations().isEmpty)
    }

    @Test(
        "A search index whose tokenizer only the app has is left and named, and the rows are written",
        arguments: [false, true]
    )
    func unknownTokenizer(hasTrigger: Bool) throws {
        let devices = try DevicePair(Self.note)
        let trigger = """
            CREATE TRIGGER note_added AFTER INSERT ON note BEGIN
                INSERT INTO search (rowid, title) VALUES (new.id, new.title);
            END;
            """
        try devices.phone.edit(
            """
            CREATE VIRTUAL TABLE search USING fts5 (title, content = note, content_rowid = id);
            \(hasTrigger ? trigger : "")
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, ')', ', tokenize = app)') WHERE name = 'search';
            PRAGMA writable_schema = RESET;
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk')")
        try Self.bring(devices)
        #expect(devices.phone.staleSearchIndexes == ["search"])
        #expect(try devices.phone.rows("SELECT id FROM note") == ["1"])
        #expect(try devices.phone.capture() == nil)
    }

    @Test(
        "A search index that holds its own text is named as out of date if a trigger lacks the app's function",
        arguments: [("new.title", []), ("fold(new.title)", ["search"])]
    )
    func failingTrigger(title: String, stale: [String]) throws {
        let devices = try DevicePair(Self.note)
        try devices.phone.edit(
            """
            CREATE VIRTUAL TABLE search USING fts5 (title);
            CREATE VIRTUAL TABLE other USING fts5 (title);
            CREATE TRIGGER note_added AFTER INSERT ON note BEGIN
                INSERT INTO search (rowid, title) VALUES (new.id, \(title));
            END;
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 'milk')")
        try Self.bring(devices)
        #expect(devices.phone.staleSearchIndexes == stale)
        #expect(try Self.matches("milk", on: devices.phone) == (stale.isEmpty ? ["1"] : []))
        #expect(try devices.phone.rows("SELECT id FROM note") == ["1"])
        #expect(try devices.phone.capture() == nil)
    }
}
