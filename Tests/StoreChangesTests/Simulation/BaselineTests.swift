import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("A first baseline", .timeLimit(.minutes(60)))
struct BaselineTests {
    /// Two devices with the same rows, which both took as the baseline.
    private struct Fixture {
        var random: SplitMix64
        let devices: [SimulatedDevice]

        init(seed: UInt64) throws {
            random = SplitMix64(seed: seed)
            let schema = SimulatedSchemas.all[Int(seed % UInt64(SimulatedSchemas.all.count))]
            devices = try ["A", "B"].map { try SimulatedDevice($0, schemaSQL: schema) }
            for _ in 0..<Int.random(in: 0...60, using: &random) {
                let statement = RandomEdits(devices[0].schema).statement(using: &random)
                for device in devices { try device.edit(statement) }
            }
            for device in devices { try device.begin() }
        }

        /// All rows of a device's store; only how many there are where devices number rows by themselves.
        func rows(_ device: SimulatedDevice) throws -> [[String]] {
            let isNumbered = device.schema.tables.contains { if case .integer = $0.key { true } else { false } }
            return try device.schema.tables.map {
                try device.rows("SELECT \(isNumbered ? "count(*)" : "*") FROM \"\($0.name)\"").sorted()
            }
        }
    }

    @Test("A store that is its own baseline has no edits", arguments: TestDepth.seeds(quick: 16, deep: 10_000))
    func unchanged(seed: UInt64) throws {
        let fixture = try Fixture(seed: seed)
        for device in fixture.devices { #expect(try device.capture() == nil) }
        #expect(try fixture.devices[0].content() == fixture.devices[1].content())
    }

    @Test(
        "What a capture finds makes an unchanged copy equal to the store",
        arguments: TestDepth.seeds(quick: 12, deep: 20_000)
    )
    func difference(seed: UInt64) throws {
        var fixture = try Fixture(seed: seed)
        let (edited, copy) = (fixture.devices[0], fixture.devices[1])
        for _ in 0..<3 {
            for _ in 0..<Int.random(in: 1...25, using: &fixture.random) {
                try edited.edit(RandomEdits(edited.schema).statement(using: &fixture.random))
            }
            let set = try edited.capture()
            #expect(try edited.capture() == nil)
            try copy.receive(set.map { [$0] } ?? [])
            #expect(try fixture.rows(edited) == fixture.rows(copy))
            #expect(try edited.content() == copy.content())
            #expect(try copy.capture() == nil)
        }
    }

    @Test(
        "Rows are found in whatever order the store has them",
        arguments: TestDepth.seeds(quick: 10, deep: 2000)
    )
    func order(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let schema = """
            CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT);
            CREATE TABLE fact (a, b);
            CREATE TABLE node (id INTEGER PRIMARY KEY, parent INT REFERENCES node, label TEXT);
            """
        let devices = try ["A", "B"].map { try SimulatedDevice($0, schemaSQL: schema) }
        for index in 1...100 {
            let row = "\(index), \(index % 7 + 1), 'node \(index)'"
            for device in devices {
                try device.edit("INSERT INTO tag VALUES ('\(index)', 'red')")
                try device.edit("INSERT INTO fact VALUES (\(index % 60), 'x')")
                try device.edit("INSERT INTO node VALUES (\(row))")
            }
        }
        for device in devices { try device.begin() }
        // The same rows in another order, and some others.
        for _ in 0..<30 {
            let index = Int.random(in: 1...100, using: &random)
            try devices[0].edit("INSERT OR REPLACE INTO tag SELECT name, color FROM tag WHERE name = '\(index)'")
            try devices[0].edit("DELETE FROM fact WHERE a = \(index % 60)")
            try devices[0].edit("INSERT INTO fact VALUES (\(index % 60), 'x')")
            try devices[0].edit("UPDATE node SET id = \(index + 1000) WHERE id = \(index)")
            try devices[0].edit("UPDATE node SET label = 'edited' WHERE id = \(index / 2)")
        }
        let set = try #require(try devices[0].capture())
        #expect(!set.changes.contains { $0.table == "tag" })
        #expect(try devices[0].capture() == nil)
        try devices[1].receive([set])
        for table in ["tag", "fact", "node"] {
            let rows = try devices.map { try $0.rows("SELECT * FROM \(table)").sorted() }
            #expect(rows[0] == rows[1])
        }
    }
}
