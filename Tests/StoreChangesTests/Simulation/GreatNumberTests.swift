import Testing

@testable import StoreChanges

@Suite("The greatest times, numbers of schemas, and numbers in names", .timeLimit(.minutes(60)))
struct GreatNumberTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"

    private func set(
        _ stamp: Stamp,
        _ schema: SchemaVersion = SchemaVersion(0, .none),
        sequence: UInt64 = 1
    ) -> SyncChangeSet {
        let id = SetID(ClientID(rawValue: "broken"), sequence)
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

    @Test("A set with a number that no client gets to is refused as it arrives, and a set that has seen such a set")
    func laterSequence() throws {
        let broken = SetID.maximumSequence + 1
        _ = try EncodedChangeSet(decoding: set(Stamp(rawValue: 1), sequence: broken - 1).encoded)
        var seeing = set(Stamp(rawValue: 1))
        seeing.header.seen = [ClientID(rawValue: "other"): SeenSet(broken, .none)]
        for set in [set(Stamp(rawValue: 1), sequence: broken), set(Stamp(rawValue: 1), sequence: .max), seeing] {
            let error = #expect(throws: StoreChangesError.self) { try EncodedChangeSet(decoding: set.encoded) }
            #expect(error?.code == .corrupt && error?.message.contains("a sequence is too great") == true)
        }
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

    @Test(
        "An own set that the storage made up, with an extreme number in a name, doesn't end capturing",
        arguments: [Int64.max, -1, .min]
    )
    func lastName(number: Int64) throws {
        let author = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try author.edit("INSERT INTO note VALUES (1, 'milk')")
        var set = try #require(try author.capture())
        set.changes[0].row = .numbered(client: author.client, number: number)
        let device = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try device.receive([set])
        try device.edit("INSERT INTO note VALUES (2, 'bread')")
        try expectFirstName(in: device)
    }

    @Test(
        "A checkpoint with an extreme number in a name of the device that joins doesn't end its capturing",
        arguments: [Int64.max, -1, .min]
    )
    func lastNameInCheckpoint(number: Int64) throws {
        let phone = try SimulatedDevice("phone", schemaSQL: Self.schema)
        try phone.edit("INSERT INTO note VALUES (1, 'milk')")
        var set = try #require(try phone.capture())
        set.changes[0].row = .numbered(client: phone.client, number: number)
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        try laptop.receive([set])
        #expect(try laptop.capture() == nil)
        let joining = try SimulatedDevice("phone", joiningFrom: laptop)
        try joining.edit("INSERT INTO note VALUES (2, 'bread')")
        try expectFirstName(in: joining)
    }

    /// Expects that a device counts its new row as its first one.
    private func expectFirstName(in device: SimulatedDevice) throws {
        let changes = try #require(try device.capture()).changes
        guard changes.count == 1, case .numbered(device.client, let number) = changes[0].row else {
            Issue.record("\(changes)")
            return
        }
        #expect(RowName.counter(in: number) == 1)
    }
}
