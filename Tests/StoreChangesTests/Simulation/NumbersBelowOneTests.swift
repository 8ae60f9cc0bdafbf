import StoreChanges
import Testing

@Suite("Integer keys of 0 or less", .timeLimit(.minutes(60)))
struct NumbersBelowOneTests {
    @Test(
        "Rows of one such number on two devices stay two rows, and the references of each device follow its own row",
        arguments: [0, -4],
        ["INTEGER", "TEXT"]
    )
    func sameNumber(number: Int, type: String) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, folder \(type) REFERENCES folder, title TEXT);
            """
        )
        for (device, name, title) in [(devices.laptop, "home", "milk"), (devices.phone, "work", "report")] {
            try device.edit("INSERT INTO folder VALUES (\(number), '\(name)')")
            #expect(try device.edit("INSERT INTO note (folder, title) VALUES (\(number), '\(title)')"))
        }
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            let rows = try device.rows("SELECT name, title FROM note JOIN folder ON folder.id = folder ORDER BY name")
            #expect(rows == ["\"home\"|\"milk\"", "\"work\"|\"report\""])
            #expect(try device.rows("SELECT id FROM folder ORDER BY id") == ["\(number)", "1"])
            #expect(try device.violations().isEmpty && device.conflicts().isEmpty)
        }
    }

    @Test(
        "When such a row goes, rows that another device refers to it get what ON DELETE declares",
        arguments: [("CASCADE", []), ("SET NULL", ["\"new\"|NULL"])]
    )
    func deletedParent(action: String, expected: [String]) throws {
        let devices = try DevicePair(
            "CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node ON DELETE \(action), name TEXT)"
        )
        try devices.laptop.edit("INSERT INTO node VALUES (-4, -4, 'root')")
        try devices.exchange()
        try devices.phone.edit("DELETE FROM node")
        #expect(try devices.laptop.edit("INSERT INTO node VALUES (5, -4, 'new')"))
        try devices.exchange()
        for device in [devices.laptop, devices.phone] {
            #expect(try device.rows("SELECT name, up FROM node") == expected)
            #expect(try device.violations().isEmpty)
        }
    }

    @Test("A CHECK that only negative numbers satisfy isn't violated by a row of a name")
    func negativeNumbers() throws {
        for check in ["up < 0", "up BETWEEN -10 AND -5"] {
            let device = try SimulatedDevice(
                "laptop",
                schemaSQL: "CREATE TABLE node (id INTEGER PRIMARY KEY, up INTEGER REFERENCES node, CHECK (\(check)))"
            )
            let table = try #require(device.schema.table("node"))
            let name = Cell.row(.numbered(client: device.client, number: 1))
            #expect(try !ScratchEvaluator(device.schema).violatesCheck(table, ["id": name, "up": name]))
        }
    }
}
