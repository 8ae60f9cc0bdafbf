import Testing

@testable import StoreChanges

@Suite("The sets that were captured together with a change of the schema")
struct MigrationSetsTests {
    /// Sets of a client that it captured together with a change of the schema.
    private func sets(of client: String, _ count: Int, schema: UInt8 = 1) -> [SyncChangeSet] {
        var last = SetDigest.none
        return (1...UInt64(count)).map { number in
            var header = SyncChangeSet.Header(
                id: SetID(ClientID(rawValue: client), number),
                predecessor: last,
                stamp: Stamp(rawValue: number),
                seen: [:],
                schema: SchemaVersion(1, SetDigest(rawValue: [UInt8](repeating: schema, count: SetDigest.byteCount)))
            )
            header.isMigration = true
            let set = SyncChangeSet(header, [])
            last = LogEntry(set).digest
            return set
        }
    }

    @Test("Each is read once, however many sets of the same change follow")
    func readings() throws {
        let (laptop, phone) = (sets(of: "laptop", 20), sets(of: "phone", 30))
        let bytes = Dictionary(uniqueKeysWithValues: laptop.map { (LogEntry($0).reference, $0) })
        var migrations = MigrationSets(laptop.prefix(5).map(LogEntry.init))
        for set in laptop.dropFirst(5) { migrations.add(LogEntry(set)) }
        var readings = 0
        for set in phone {
            let found = migrations.unseen(by: set.header) { reference in
                readings += 1
                return bytes[reference]
            }
            #expect(found == laptop)
            migrations.add(LogEntry(set))
        }
        #expect(readings == laptop.count)
    }

    @Test("Only sets of the same change are found that the author hadn't seen")
    func unseen() throws {
        let (laptop, other) = (sets(of: "laptop", 3), sets(of: "other", 2, schema: 2))
        var migrations = MigrationSets((laptop + other).map(LogEntry.init))
        var header = sets(of: "phone", 1)[0].header
        header.seen[laptop[0].header.id.client] = SeenSet(2, LogEntry(laptop[1]).digest)
        let bytes = Dictionary(uniqueKeysWithValues: (laptop + other).map { (LogEntry($0).reference, $0) })
        #expect(migrations.unseen(by: header) { bytes[$0] } == [laptop[2]])
        header.isMigration = false
        #expect(migrations.unseen(by: header) { bytes[$0] }.isEmpty)
    }
}
