import Testing

@testable import StoreChanges

@Suite("The greatest times, numbers of schemas, and numbers in names", .timeLimit(.minutes(60)))
struct GreatNumberTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"

    private func set(_ stamp: Stamp, _ schema: SchemaVersion = SchemaVersion(0, .none)) -> SyncChangeSet {
        let id = SetID(ClientID(rawValue: "broken"), 1)
        return SyncChangeSet(
            SyncChangeSet.Header(id: id, predecessor: .none, stamp: stamp, seen: [:], schema: schema),
            []
        )
    }

    @Test("After a set of the last time a capture says what to do, and records nothing; after one before it, it works")
    func lastTime() throws {
        let device = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try device.integrate([set(Stamp(rawValue: Stamp.maximum.rawValue - 1))])
        try device.edit("INSERT INTO note VALUES (1, 'milk')")
        #expect(try device.capture()?.header.stamp == Stamp.maximum)
        try device.edit("INSERT INTO note VALUES (2, 'bread')")
        let error = #expect(throws: StoreChangesError.self) { try device.capture() }
        #expect(error?.code == .corrupt && error?.message.contains("another document") == true)
        #expect(try device.content().rows.count == 1)
    }

    @Test("A set with a later time is refused as it arrives")
    func laterTime() throws {
        let bytes = set(Stamp(rawValue: Stamp.maximum.rawValue + 1)).encoded
        let error = #expect(throws: StoreChangesError.self) { try EncodedChangeSet(decoding: bytes) }
        #expect(error?.code == .corrupt && error?.message.contains("the stamp is too great") == true)
    }

    @Test("After a set of the last schema, a device with a newer one continues capturing")
    func lastSchema() throws {
        let device = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        let digest = SetDigest(of: Array("another schema".utf8))
        try device.integrate([set(Stamp(rawValue: 1), SchemaVersion(SchemaVersion.maximumNumber, digest))])
        try device.migrate("ALTER TABLE note ADD COLUMN body TEXT")
        try device.edit("INSERT INTO note VALUES (1, 'milk', 'oat')")
        #expect(try device.capture()?.header.schema.number == SchemaVersion.maximumNumber)
    }

    @Test("An own set that the storage made up, with the greatest number in a name, doesn't end capturing")
    func lastName() throws {
        let author = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try author.edit("INSERT INTO note VALUES (1, 'milk')")
        var set = try #require(try author.capture())
        set.changes[0].row = .numbered(client: author.client, number: .max)
        let device = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try device.integrate([set])
        try device.write()
        try device.edit("INSERT INTO note VALUES (2, 'bread')")
        #expect(try device.capture()?.changes.map(\.row) == [.numbered(client: device.client, number: 1)])
    }
}
