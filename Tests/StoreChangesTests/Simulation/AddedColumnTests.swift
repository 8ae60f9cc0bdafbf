import Testing

@testable import StoreChanges

@Suite("Columns that an update of the app adds", .timeLimit(.minutes(60)))
struct AddedColumnTests {
    /// Tables of all kinds of keys.
    static let tables = ["id INTEGER PRIMARY KEY, title TEXT", "title TEXT PRIMARY KEY NOT NULL", "title TEXT"]

    /// Two devices with a common note; the laptop's app is updated then.
    private static func devices(_ table: String, adding column: String) throws -> DevicePair {
        let devices = try DevicePair("CREATE TABLE note (\(table))")
        try devices.laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        try devices.exchange()
        try devices.laptop.migrate("ALTER TABLE note ADD COLUMN \(column)")
        return devices
    }

    /// Lets both devices have all edits of each other.
    private static func send(_ devices: DevicePair) throws {
        for device in [devices.laptop, devices.phone] { try device.capture() }
        try devices.phone.integrate(devices.laptop.sets)
        try devices.laptop.integrate(devices.phone.sets)
        for device in [devices.laptop, devices.phone] { try device.write() }
    }

    @Test(
        "An older device stores rows whose new column holds its default, and has equal ones once its app is updated",
        arguments: [
            "color TEXT", "color TEXT DEFAULT 'red'", "rank TEXT DEFAULT 1", "rank INT NOT NULL DEFAULT -1",
            "size REAL DEFAULT 2", "code DEFAULT x'01'", "zone TEXT DEFAULT NULL", "rank INT NOT NULL DEFAULT (-(5))",
            "rank INT NOT NULL DEFAULT (CAST('5' AS INT))",
        ],
        tables
    )
    func defaultValue(column: String, table: String) throws {
        let devices = try Self.devices(table, adding: column)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (title) VALUES ('bread')")
        try Self.send(devices)
        #expect(try !phone.needsNewerSchema())
        #expect(try phone.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"milk\""])
        #expect(try phone.digests().present == laptop.digests().present)

        try laptop.edit("DELETE FROM note WHERE title = 'milk'")
        try phone.edit("UPDATE note SET title = 'rye' WHERE title = 'bread'")
        try Self.send(devices)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT title FROM note") == ["\"rye\""])
            #expect(try device.conflicts().isEmpty)
        }

        try phone.migrate("ALTER TABLE note ADD COLUMN \(column)")
        #expect(try phone.capture() == nil)
        try devices.exchange()
        #expect(try phone.rows("SELECT * FROM note") == laptop.rows("SELECT * FROM note"))
        #expect(try phone.digests().present == laptop.digests().present)
    }

    @Test(
        "An older device waits for a row whose new column holds something else than its default",
        arguments: [("color TEXT", "''"), ("rank TEXT DEFAULT 1", "2"), ("rank DEFAULT 1", "'1'")],
        tables
    )
    func otherValue(column: (definition: String, value: String), table: String) throws {
        let devices = try Self.devices(table, adding: column.definition)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note VALUES (\(table.contains("id") ? "NULL, " : "")'bread', \(column.value))")
        try Self.send(devices)
        #expect(try phone.needsNewerSchema())
        #expect(try phone.rows("SELECT title FROM note") == ["\"milk\""])

        try phone.migrate("ALTER TABLE note ADD COLUMN \(column.definition)")
        #expect(try !phone.needsNewerSchema())
        try devices.exchange()
        let rows = "SELECT * FROM note ORDER BY title"
        #expect(try phone.rows(rows) == laptop.rows(rows))
        #expect(try phone.digests().present == laptop.digests().present)
    }

    @Test(
        "A default is what SQLite stores by it, whether it's a word or an expression",
        arguments: [
            ("pending", .text("pending")), ("\"open\"", .text("open")), ("-(5)", .integer(-5)), ("1 + 2", .integer(3)),
            ("5 NOT NULL", .integer(1)), ("cast('5' as int)", .integer(5)), ("abs(-5)", .null), ("CURRENT_DATE", .null),
        ] as [(String, StoredValue)]
    )
    func evaluatedDefault(expression: String, value: StoredValue) throws {
        let device = try SimulatedDevice("laptop", schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
        #expect(ScratchEvaluator(device.schema).cell(ofDefault: expression, in: .blob) == .value(value))
    }

    @Test("A row of an older app loses nothing by a column that is gone, and that holds its default")
    func removedColumn() throws {
        let devices = try DevicePair(
            "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT DEFAULT 'none')"
        )
        try devices.exchange()
        try devices.laptop.migrate("ALTER TABLE note DROP COLUMN body")
        try devices.phone.edit("INSERT INTO note (title) VALUES ('milk')")
        try Self.send(devices)
        try devices.phone.edit("INSERT INTO note VALUES (2, 'bread', 'rye')")
        try Self.send(devices)
        #expect(try devices.laptop.rows("SELECT title FROM note ORDER BY id") == ["\"milk\"", "\"bread\""])
        #expect(try devices.laptop.conflicts().map(\.lost) == [["body": .value(.text("rye"))]])
    }
}
