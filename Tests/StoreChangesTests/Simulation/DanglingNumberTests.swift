import StoreChanges
import Testing

@Suite("Numbers of no row in references", .timeLimit(.minutes(60)))
struct DanglingNumberTests {
    @Test(
        "A row that arrives gets no number that a reference holds for no row, and the reference stays as it is",
        arguments: ["p INT REFERENCES p", "p TEXT REFERENCES p", "p INT, FOREIGN KEY (g, p) REFERENCES p (g, id)"]
    )
    func nextNumber(reference: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE g (id INTEGER PRIMARY KEY);
            CREATE TABLE p (id INTEGER PRIMARY KEY, g INT REFERENCES g, name TEXT, UNIQUE (id, g));
            CREATE TABLE c (k TEXT PRIMARY KEY NOT NULL, g INT REFERENCES g, v INT, \(reference));
            """
        )
        let (laptop, phone) = (devices.laptop, devices.phone)
        func expectNoParent() throws {
            for device in [laptop, phone] {
                let rows = try device.rows("SELECT CAST(p AS INT), name FROM c LEFT JOIN p ON p.id = p")
                #expect(rows == ["3|NULL"])
                #expect(try device.rows("SELECT id FROM p ORDER BY id") == ["2", "4"])
            }
        }
        try laptop.edit("INSERT INTO g VALUES (1); INSERT INTO c VALUES ('x', 1, 0, 3)", observingForeignKeys: false)
        try devices.exchange()
        for device in [laptop, phone] { try device.edit("INSERT INTO p VALUES (2, 1, '\(device.client.rawValue)')") }
        try devices.exchange()
        try expectNoParent()
        try laptop.edit("UPDATE c SET v = 1")
        try devices.exchange()
        try expectNoParent()
        for device in [laptop, phone] { #expect(try device.conflicts().isEmpty) }
    }

    @Test(
        "A number of no row stays a value when another device's row of that number arrives; in that device's store it's a reference",
        arguments: [0, 3]
    )
    func numberOfArrivingRow(number: Int) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, title TEXT);
            """
        )
        let (laptop, phone) = (devices.laptop, devices.phone)
        try laptop.edit("INSERT INTO note VALUES (1, \(number), 'milk')", observingForeignKeys: false)
        try laptop.capture()
        try phone.edit("INSERT INTO folder VALUES (\(number), 'work')")
        try phone.capture()
        try laptop.receive(phone.sets)
        #expect(try laptop.rows("SELECT id FROM folder") == ["1"])
        #expect(try laptop.rows("SELECT folder FROM note") == ["\(number)"])
        #expect(try laptop.content().rows.values.contains { $0.cells["folder"] == .value(.integer(Int64(number))) })
        #expect(try laptop.capture(readsPages: false) == nil)

        try phone.receive(laptop.sets)
        try devices.exchange()
        for device in [laptop, phone] {
            #expect(try device.rows("SELECT name FROM note JOIN folder ON folder.id = folder") == ["\"work\""])
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("A reference leads, on all devices, to the row to which its author's store gives such a number")
    func numberOfOwnRow() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder, title TEXT);
            """
        )
        try devices.laptop.edit("INSERT INTO note VALUES (1, 3, 'milk')", observingForeignKeys: false)
        try devices.exchange()
        try devices.phone.edit("INSERT INTO folder VALUES (3, 'work')")
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(
                try device.rows("SELECT folder, name FROM note JOIN folder ON folder.id = folder") == ["3|\"work\""]
            )
        }
    }
}
