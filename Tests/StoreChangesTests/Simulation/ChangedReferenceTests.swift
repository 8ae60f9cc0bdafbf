import StoreChanges
import Testing

@Suite("Updates of an app that drop or add the foreign key of a column", .timeLimit(.minutes(60)))
struct ChangedReferenceTests {
    private static let folders = "CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);"

    /// Builds a table again with other columns of the same names.
    private static func rebuild(_ table: String, _ columns: String) -> String {
        """
        CREATE TABLE new (\(columns));
        INSERT INTO new SELECT * FROM \(table);
        DROP TABLE \(table);
        ALTER TABLE new RENAME TO \(table);
        """
    }

    /// Two devices with the folders 1 and 2 and what else one of them inserts; the phone's app is updated then.
    private static func devices(
        _ schema: String,
        _ insert: String,
        update: String
    ) throws -> (laptop: SimulatedDevice, phone: SimulatedDevice) {
        let pair = try DevicePair(folders + schema)
        try pair.laptop.edit("INSERT INTO folder VALUES (1, 'home'), (2, 'work'); \(insert)")
        try pair.exchange()
        try pair.phone.migrate(update)
        return (pair.laptop, pair.phone)
    }

    /// Updates the laptop's app, and lets both devices have all sets of each other.
    private static func finish(_ laptop: SimulatedDevice, _ phone: SimulatedDevice, update: String) throws {
        try laptop.integrate(phone.sets)
        #expect(try laptop.needsNewerSchema())
        try laptop.migrate(update)
        try laptop.integrate([])
        try laptop.capture(at: 50)
        try laptop.write()
        try phone.receive(laptop.sets)
        #expect(try phone.content() == laptop.content())
        for device in [laptop, phone] { #expect(try device.capture() == nil) }
    }

    @Test(
        "An older app's edit of a column that was or became a reference is logged, and the row keeps its value",
        arguments: [(true, 10), (true, 30), (false, 10), (false, 30)] as [(Bool, UInt64)]
    )
    func plainColumn(isDropped: Bool, time: UInt64) throws {
        func columns(_ hasReference: Bool) -> String {
            "id INTEGER PRIMARY KEY, title TEXT, folder INT\(hasReference ? " REFERENCES folder" : "")"
        }
        let update = Self.rebuild("note", columns(!isDropped))
        let (laptop, phone) = try Self.devices(
            "CREATE TABLE note (\(columns(isDropped)))",
            "INSERT INTO note VALUES (1, 'milk', 1)",
            update: update
        )
        try laptop.edit("UPDATE note SET folder = 2; INSERT INTO note VALUES (2, 'bread', 2)")
        try laptop.capture(at: time)
        try phone.capture(at: 20)
        try phone.receive(laptop.sets)
        let query = "SELECT title, folder FROM note ORDER BY id"
        #expect(try phone.rows(query) == ["\"milk\"|1", "\"bread\"|NULL"])
        let entries = try phone.conflicts()
        #expect(entries.map(\.rule) == [.schemaChanged, .schemaChanged])
        #expect(entries.allSatisfy { $0.lost["folder"] != nil })
        #expect(try phone.capture(at: 40) == nil, "no NULL is published")

        try Self.finish(laptop, phone, update: update)
        for device in [laptop, phone] {
            #expect(try device.rows(query) == ["\"milk\"|1", "\"bread\"|2"])
            #expect(try device.conflicts().contains { $0.rule == .migratedValue })
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("Rows whose keys lose a reference are captured as new ones, and those of older apps are logged")
    func key() throws {
        let update = Self.rebuild("label", "title TEXT, folder INT, PRIMARY KEY (title, folder)")
        let (laptop, phone) = try Self.devices(
            "CREATE TABLE label (title TEXT, folder INT REFERENCES folder, PRIMARY KEY (title, folder))",
            "INSERT INTO label VALUES ('red', 1)",
            update: update
        )
        try laptop.edit("INSERT INTO label VALUES ('red', 2)")
        try laptop.capture(at: 30)
        try phone.capture(at: 20)
        try phone.receive(laptop.sets)
        #expect(try phone.rows("SELECT * FROM label") == ["\"red\"|1"])
        #expect(try phone.conflicts().map(\.rule) == [.schemaChanged])
        #expect(try phone.capture(at: 40) == nil)

        try Self.finish(laptop, phone, update: update)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT * FROM label ORDER BY folder") == ["\"red\"|1", "\"red\"|2"])
        }
    }

    @Test("Rows without a key keep their other values where the app drops a reference")
    func withoutKey() throws {
        let update = Self.rebuild("visit", "place TEXT, folder INT")
        let (laptop, phone) = try Self.devices(
            "CREATE TABLE visit (place TEXT, folder INT REFERENCES folder)",
            "INSERT INTO visit VALUES ('lake', 1)",
            update: update
        )
        try laptop.edit("INSERT INTO visit VALUES ('market', 2)")
        try laptop.capture(at: 30)
        try phone.capture(at: 20)
        try phone.receive(laptop.sets)
        #expect(try phone.rows("SELECT * FROM visit ORDER BY place") == ["\"lake\"|1", "\"market\"|NULL"])
        #expect(try phone.conflicts().map(\.rule) == [.schemaChanged])
        #expect(try phone.capture(at: 40) == nil)

        try Self.finish(laptop, phone, update: update)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT * FROM visit ORDER BY place") == ["\"lake\"|1", "\"market\"|2"])
        }
    }

    @Test(
        "An older app's delete of a row without a key, whose reference has become another value, deletes no other row",
        arguments: [true, false]
    )
    func deletedWithoutKey(isDropped: Bool) throws {
        func columns(_ hasReference: Bool) -> String {
            "place TEXT, folder INT\(hasReference ? " REFERENCES folder" : "")"
        }
        let update = Self.rebuild("visit", columns(!isDropped))
        let (laptop, phone) = try Self.devices(
            "CREATE TABLE visit (\(columns(isDropped)))",
            "INSERT INTO visit VALUES ('lake', 1), ('lake', NULL)",
            update: update
        )
        try laptop.edit("DELETE FROM visit WHERE folder = 1")
        try laptop.capture(at: 30)
        try phone.capture(at: 20)
        try phone.receive(laptop.sets)
        let query = "SELECT * FROM visit ORDER BY folder"
        #expect(try phone.rows(query) == ["\"lake\"|NULL", "\"lake\"|1"])
        let entries = try phone.conflicts()
        #expect(entries.map(\.rule) == [.schemaChanged])
        #expect(
            entries.allSatisfy { !$0.hasLoss && $0.kept["folder"] != nil },
            "no row is lost that can be restored"
        )

        try Self.finish(laptop, phone, update: update)
        for device in [laptop, phone] {
            #expect(try device.rows(query) == ["\"lake\"|NULL", "\"lake\"|1"])
            #expect(try device.conflicts().map(\.rule) == [.schemaChanged])
        }
    }

    @Test("An older app's delete of a row without a key that the updated store had got counts when it's folded again")
    func deletedWithoutKeyBefore() throws {
        let schema = Self.folders + "CREATE TABLE visit (place TEXT, folder INT REFERENCES folder)"
        let pair = try DevicePair(schema)
        let (laptop, phone) = (pair.laptop, pair.phone)
        try laptop.edit("INSERT INTO folder VALUES (1, 'home'), (2, 'work')")
        try laptop.edit("INSERT INTO visit VALUES ('lake', 1), ('market', 2)")
        try pair.exchange()
        let tablet = try SimulatedDevice("tablet", schemaSQL: schema)
        try tablet.edit("INSERT INTO folder VALUES (3, 'late')")
        let late = try #require(try tablet.capture(at: 5))
        try laptop.edit("DELETE FROM visit WHERE folder = 1")
        try laptop.capture(at: 10)
        try phone.integrate(laptop.sets)
        for device in [laptop, phone] { try device.write() }

        let update = Self.rebuild("visit", "place TEXT, folder INT")
        try phone.migrate(update)
        try phone.capture(at: 20)
        for device in [laptop, phone] {
            try device.receive([late])
        }
        try Self.finish(laptop, phone, update: update)
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT * FROM visit") == ["\"market\"|2"])
            #expect(try device.conflicts().isEmpty)
        }
    }
}
