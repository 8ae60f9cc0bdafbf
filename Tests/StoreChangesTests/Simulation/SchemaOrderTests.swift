import StoreChanges
import Testing

@Suite("Devices that have the versions of an app in other steps", .timeLimit(.minutes(60)))
struct SchemaOrderTests {
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, slug TEXT)"

    /// Lets both devices capture, integrate and write, whatever waits for an update.
    private func exchange(_ devices: DevicePair) throws {
        for (device, other) in [(devices.laptop, devices.phone), (devices.phone, devices.laptop)] {
            try device.capture()
            try other.receive(device.sets)
        }
    }

    @Test(
        "A version that another device has left behind without an edit isn't newer than the one with its edits",
        arguments: [
            [
                "CREATE UNIQUE INDEX slugs ON note (slug)",
                "CREATE UNIQUE INDEX titles ON note (title); ALTER TABLE note ADD COLUMN body TEXT",
            ],
            ["ALTER TABLE note ADD COLUMN color TEXT DEFAULT 'red'", "ALTER TABLE note ADD COLUMN body TEXT"],
        ]
    )
    func silentVersion(versions: [String]) throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        for version in versions { try laptop.migrate(version) }
        try laptop.edit("UPDATE note SET body = 'two'")
        try exchange(devices)
        #expect(try phone.needsNewerSchema())
        for version in versions {
            #expect(try phone.needsNewerSchema())
            try phone.migrate(version)
            try phone.edit("UPDATE note SET slug = 'after ' || (SELECT count(*) FROM pragma_table_info('note'))")
            try exchange(devices)
        }
        try devices.exchange()
        #expect(try !phone.needsNewerSchema() && !laptop.needsNewerSchema())
        #expect(try phone.rows("SELECT body FROM note") == ["\"two\""])
        #expect(try phone.content() == laptop.content())
    }

    @Test("A version that another device has skipped isn't newer than that device's one")
    func leapedVersion() throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        let versions = ["color", "size", "body"].map { "ALTER TABLE note ADD COLUMN \($0) TEXT" }
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        for version in versions.dropLast() { try phone.migrate(version) }
        try laptop.migrate(versions.joined(separator: "; "))
        try laptop.edit("UPDATE note SET body = 'two'")
        try exchange(devices)
        #expect(try phone.needsNewerSchema())
        try phone.edit("UPDATE note SET size = 'large'")
        try exchange(devices)
        try phone.migrate(versions[2])
        try exchange(devices)
        try devices.exchange()
        #expect(try !phone.needsNewerSchema() && !laptop.needsNewerSchema())
        #expect(try laptop.rows("SELECT size, body FROM note") == ["\"large\"|\"two\""])
    }

    @Test("A version that the app has taken back isn't newer than the app's next one")
    func nextVersion() throws {
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.notes)
        let (color, body) = ("ALTER TABLE note ADD COLUMN color TEXT", "ALTER TABLE note ADD COLUMN body TEXT")
        try laptop.migrate("\(color); \(body)")
        try laptop.migrate(
            "ALTER TABLE note DROP COLUMN color; ALTER TABLE note DROP COLUMN body",
            takesOlderSchema: true
        )
        try laptop.migrate(color)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        #expect(try laptop.capture()?.header.schema.number == 4)
        #expect { try laptop.migrate(body) } throws: { error in (error as? StoreChangesError)?.code == .newerSchema }
    }

    @Test(
        "A device that skips a version reads the edits that used what the next version has removed",
        arguments: [
            [
                "ALTER TABLE note RENAME COLUMN title TO subject", "UPDATE note SET subject = 'bread'",
                "ALTER TABLE note RENAME COLUMN subject TO head", "INSERT INTO note (head) VALUES ('butter')",
            ],
            [
                "CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO label (name) VALUES ('food')",
                "ALTER TABLE label RENAME TO tag", "INSERT INTO tag (name) VALUES ('drink')",
            ],
            [
                "CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO label (name) VALUES ('food')",
                "DROP TABLE label; ALTER TABLE note ADD COLUMN body TEXT", "UPDATE note SET body = 'two'",
            ],
            [
                "ALTER TABLE note ADD COLUMN body TEXT", "INSERT INTO note (title, slug, body) VALUES ('a', 'b', 'c')",
                "ALTER TABLE note DROP COLUMN slug", "UPDATE note SET body = 'two'",
            ],
        ]
    )
    func skippedVersion(steps: [String]) throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        for (migration, edit) in [(steps[0], steps[1]), (steps[2], steps[3])] {
            try laptop.migrate(migration)
            try laptop.edit(edit)
            try exchange(devices)
        }
        #expect(try phone.needsNewerSchema())
        try phone.migrate("\(steps[0]); \(steps[2])")
        try exchange(devices)
        try devices.exchange()
        #expect(try !phone.needsNewerSchema() && !laptop.needsNewerSchema())
        #expect(try phone.content() == laptop.content())
    }

    @Test(
        "A device that skips versions takes the edits made in them, whether the other device has the last one or not",
        arguments: [true, false]
    )
    func skippedDefinitions(isLaptopUpdated: Bool) throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        let versions = ["NOT NULL", "NOT NULL DEFAULT ''", "NOT NULL DEFAULT '' COLLATE NOCASE"].map { definition in
            """
            CREATE TABLE new (id INTEGER PRIMARY KEY, title TEXT \(definition), slug TEXT);
            INSERT INTO new SELECT * FROM note; DROP TABLE note; ALTER TABLE new RENAME TO note
            """
        }
        for (version, edit) in [
            (versions[0], "UPDATE note SET title = 'oat milk'"),
            (versions[1], "INSERT INTO note (title) VALUES ('bread')"),
        ] {
            try laptop.migrate(version)
            try laptop.edit(edit)
            try laptop.capture()
        }
        func updateLaptop() throws {
            try laptop.migrate(versions[2])
            try laptop.integrate([])
            try laptop.capture()
        }
        if isLaptopUpdated { try updateLaptop() }
        try phone.migrate(versions.joined(separator: ";"))
        try exchange(devices)
        #expect(try !phone.needsNewerSchema() && laptop.needsNewerSchema() == !isLaptopUpdated)
        #expect(try phone.rows("SELECT title FROM note ORDER BY title") == ["\"bread\"", "\"oat milk\""])
        if !isLaptopUpdated { try updateLaptop() }
        try devices.exchange()
        #expect(try !phone.needsNewerSchema() && !laptop.needsNewerSchema())
        #expect((laptop.sets + phone.sets).count { $0.changes.isEmpty } == 1, "one device tells the last version, once")
    }

    @Test(
        "A version that lacks a table of another device's is older, whichever device is the first to be read",
        arguments: [true, false]
    )
    func fewerTables(isLaptopFirst: Bool) throws {
        let devices = try DevicePair(Self.notes)
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try devices.exchange()
        let first = "CREATE UNIQUE INDEX slugs ON note (slug)"
        let second = """
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT); DROP INDEX slugs;
            CREATE UNIQUE INDEX slugs ON note (slug COLLATE NOCASE)
            """
        try laptop.migrate(first)
        try phone.migrate("\(first); \(second)")
        try phone.edit("INSERT INTO tag VALUES (7, 'food')")
        let order = isLaptopFirst ? [(laptop, phone), (phone, laptop)] : [(phone, laptop), (laptop, phone)]
        for (device, other) in order {
            try device.integrate(other.sets)
            try device.capture()
        }
        try exchange(devices)
        #expect(try laptop.needsNewerSchema())
        #expect(try isLaptopFirst == false || !phone.needsNewerSchema())
        try laptop.migrate(second)
        try laptop.integrate([])
        try devices.exchange()
        for device in [laptop, phone] {
            #expect(try !device.needsNewerSchema())
            #expect(try device.rows("SELECT name FROM tag") == ["\"food\""])
        }
    }
}
