import GRDB
import StoreChanges
import Testing

@Suite("Unusual keys, indexes and constraints", .timeLimit(.minutes(60)))
struct UnusualIndexTests {
    /// The rows of a query on a device, without the quotes of text.
    private static func rows(_ device: SimulatedDevice, _ sql: String) throws -> [String] {
        try device.rows(sql).map { $0.replacing("\"", with: "") }
    }

    @Test("A row waits whose values an index can't evaluate after a merge, and comes once they are others")
    func unevaluatedIndex() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, path TEXT);
            CREATE UNIQUE INDEX note_key ON note (json_extract(body, path));
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, NULL, '$.a')")
        try devices.exchange()
        try devices.laptop.edit("UPDATE note SET body = '{}'")
        try devices.phone.edit("UPDATE note SET path = 'nowhere'")
        try devices.laptop.edit("INSERT INTO note VALUES (2, NULL, 'other')")
        try devices.exchange()
        let query = "SELECT id, body, path FROM note ORDER BY id"
        #expect(try Self.rows(devices.laptop, query) == ["1|{}|$.a", "2|NULL|other"])
        #expect(try Self.rows(devices.phone, query) == ["1|NULL|nowhere", "2|NULL|other"])
        for device in [devices.laptop, devices.phone] { #expect(try device.refusals().map(\.count) == [1]) }
        try devices.laptop.edit("UPDATE note SET path = '$.b' WHERE id = 1")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, query) == ["1|{}|$.b", "2|NULL|other"])
            #expect(try device.refusals().isEmpty)
        }
    }

    @Test("An edit is left out if a constraint can't be evaluated after its repair")
    func unevaluatedConstraint() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE note (
                id INTEGER PRIMARY KEY, body TEXT, path TEXT UNIQUE, CHECK (json_extract(body, path) IS NOT 0)
            );
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, NULL, 'nowhere'), (2, NULL, '$.a')")
        try devices.exchange()
        try devices.phone.edit("UPDATE note SET path = '$.b' WHERE id = 2")
        let former = try #require(try devices.phone.capture(at: 1_000))
        try devices.laptop.edit("UPDATE note SET path = '$.b', body = '{}' WHERE id = 1")
        try devices.laptop.capture(at: 2_000)
        try devices.laptop.receive([former])
        try devices.phone.receive(Array(devices.laptop.sets.suffix(1)))
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT id, body, path FROM note ORDER BY id")
            #expect(rows == ["1|NULL|nowhere", "2|NULL|$.b"])
            #expect(try device.conflicts().map(\.rule) == [.takenBack, .leftOut])
        }
        #expect(try devices.laptop.content() == devices.phone.content())
    }

    @Test(
        "Rows that want one position stay two where the index has a condition, a generated column or one column",
        arguments: [
            "CREATE UNIQUE INDEX places ON entry (list, place) WHERE hidden = 0",
            "CREATE UNIQUE INDEX places ON entry (list, open, place)",
            "CREATE UNIQUE INDEX places ON entry (place) WHERE hidden = 0 AND list = x'61ff'",
        ]
    )
    func listsOfUnusualIndexes(index: String) throws {
        let rules = SyncRules(uniques: [.init(table: "entry", columns: ["place"], kind: .position)])
        let devices = try DevicePair(
            """
            CREATE TABLE list (name BLOB NOT NULL PRIMARY KEY);
            CREATE TABLE entry (
                id INTEGER PRIMARY KEY, list BLOB REFERENCES list, place INT, hidden INT, open INT AS (nullif(1, hidden))
            );
            \(index)
            """,
            rules: index.contains("(place)") ? rules : .none
        )
        try devices.laptop.edit("INSERT INTO list VALUES (x'61'), (x'61fe'), (x'61ff'), (x'61ff00'), (x'62')")
        try devices.exchange()
        try devices.laptop.edit(
            "INSERT INTO entry (list, place, hidden) SELECT name, 9, 0 FROM list WHERE name <> x'61ff'"
        )
        let insert = "INSERT INTO entry (list, place, hidden) VALUES (x'61ff', 1, 0), (x'61ff', 5, 1)"
        for device in [devices.laptop, devices.phone] { try device.edit(insert) }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT place FROM entry WHERE list = x'61ff' ORDER BY hidden, place")
            #expect(rows == ["1", "2", "5", "5"])
            #expect(try device.conflicts().map(\.rule) == [.moved])
        }
    }

    @Test("A row is found by the bytes of its key where the column ignores case and the key's index doesn't")
    func caseOfKey() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (name TEXT NOT NULL COLLATE NOCASE, color TEXT);
            CREATE UNIQUE INDEX tag_name ON tag (name COLLATE BINARY);
            """
        )
        try devices.laptop.edit("INSERT INTO tag VALUES ('work', 'red'), ('Work', 'blue')")
        try devices.exchange()
        let query = "SELECT name, color FROM tag ORDER BY name COLLATE BINARY"
        try devices.laptop.edit("UPDATE tag SET color = 'green' WHERE name = 'work' COLLATE BINARY")
        try devices.exchange()
        #expect(try Self.rows(devices.phone, query) == ["Work|blue", "work|green"])
        try devices.laptop.edit("DELETE FROM tag WHERE name = 'work' COLLATE BINARY")
        try devices.exchange()
        #expect(try Self.rows(devices.phone, query) == ["Work|blue"])
    }

    @Test(
        "Text with a NUL is compared as SQLite does where case doesn't count: by what precedes the NUL, and by length",
        arguments: ["id INTEGER PRIMARY KEY, name TEXT UNIQUE", "name TEXT PRIMARY KEY NOT NULL"]
    )
    func textWithNUL(columns: String) throws {
        let devices = try DevicePair("CREATE TABLE tag (\(columns) COLLATE NOCASE)")
        try devices.laptop.edit("INSERT INTO tag (name) VALUES ('Work' || char(0) || 'a')")
        try devices.phone.edit(
            "INSERT INTO tag (name) VALUES ('work' || char(0) || 'b'), ('work' || char(0) || 'bc'), ('works' || char(0))"
        )
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try device.refusals().isEmpty)
            #expect(try Self.rows(device, "SELECT count(*) FROM tag") == ["3"])
            #expect(try device.conflicts().map(\.rule) == [.merged])
        }
    }

    @Test(
        "A new row gets the number of a deleted one, as its author's row has it, unless the table promises otherwise",
        arguments: [("", "1"), (" AUTOINCREMENT", "2")]
    )
    func numberOfDeletedRow(keyword: String, number: String) throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY\(keyword), title TEXT)")
        try devices.laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        try devices.laptop.capture()
        try devices.laptop.write()
        try devices.laptop.edit("DELETE FROM note")
        try devices.laptop.capture()
        try devices.laptop.write()
        try devices.phone.edit("INSERT INTO note (title) VALUES ('bread')")
        try devices.phone.capture()
        try devices.laptop.receive(devices.phone.sets)
        #expect(try Self.rows(devices.laptop, "SELECT id, title FROM note") == ["\(number)|bread"])
    }

    @Test("Rows stay what they are whose unique values are calculated from numbers of other rows")
    func calculatedNumbers() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE list (id INTEGER PRIMARY KEY);
            CREATE TABLE item (id INTEGER PRIMARY KEY, list INTEGER REFERENCES list, pos INT);
            CREATE UNIQUE INDEX u ON item (list * 1000 + pos);
            """
        )
        try devices.laptop.edit("INSERT INTO list VALUES (1); INSERT INTO item VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3)")
        try devices.exchange()
        #expect(try Self.rows(devices.laptop, "SELECT * FROM item ORDER BY id") == ["1|1|1", "2|1|2", "3|1|3"])
        #expect(try Self.rows(devices.phone, "SELECT * FROM list") == ["1"])
        for device in [devices.laptop, devices.phone] { #expect(try device.conflicts().isEmpty) }
    }

    @Test("An index with a condition has the rows of all numbers that a device may assign")
    func numbersInCondition() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT);
            CREATE UNIQUE INDEX names ON tag (name) WHERE id BETWEEN 1 AND \(1 << 62 as Int64);
            """
        )
        let values = (0..<16).map { "('\($0)')" }.joined(separator: ", ")
        for device in [devices.laptop, devices.phone] { try device.edit("INSERT INTO tag (name) VALUES \(values)") }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try Self.rows(device, "SELECT count(*), count(DISTINCT name) FROM tag") == ["16|16"])
            #expect(try device.refusals().isEmpty)
        }
    }

    @Test(
        "A CHECK that limits numbers of rows leaves out no row whose reference moves",
        arguments: [
            "id BETWEEN 1 AND 2147483647", "tag < 1000000", "id BETWEEN 1000 AND 9999", "id >= 1000", "tag IN (1, 2)",
            "id <> code", "tag < id", "id > tag", "id < 2000 AND tag < id",
        ]
    )
    func limitedNumbers(check: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE note (
                id INTEGER PRIMARY KEY, tag INT REFERENCES tag, title TEXT, code INT, CHECK (\(check)), CHECK (title <> '')
            );
            """
        )
        for device in [devices.laptop, devices.phone] { try device.edit("INSERT INTO tag VALUES (1, 'home')") }
        #expect(try devices.phone.edit("INSERT INTO note VALUES (1000, 1, 'milk', 1), (1001, 1, 'bread', 2)"))
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try Self.rows(device, "SELECT name, title FROM note JOIN tag ON tag.id = tag ORDER BY title")
            #expect(rows == ["home|bread", "home|milk"])
            #expect(try device.conflicts().map(\.rule) == [.merged])
            #expect(try device.refusals().isEmpty && device.violations().isEmpty)
        }
    }

    @Test("A CHECK that numbers of rows don't satisfy with any number is violated")
    func violatedNumbers() throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(
                sql:
                    "CREATE TABLE note (id INTEGER PRIMARY KEY, up INT REFERENCES note, CHECK (up <> id AND up < 1000))"
            )
            return try StoreSchema(db)
        }
        let table = try #require(schema.table("note"))
        func isViolated(_ id: Int64, _ up: Int64) throws -> Bool {
            func cell(_ number: Int64) -> Cell { .row(.numbered(client: .origin, number: number)) }
            return try ScratchEvaluator(schema).violatesCheck(table, ["id": cell(id), "up": cell(up)])
        }
        #expect(try isViolated(5000, 5000))
        #expect(try !isViolated(5000, 5001) && !isViolated(5001, 5000))
    }
}
