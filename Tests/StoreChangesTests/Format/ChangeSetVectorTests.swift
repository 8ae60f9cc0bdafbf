import Foundation
import GRDB
import StoreChanges
import Testing

@Suite("Change sets in another language", .timeLimit(.minutes(60)))
struct ChangeSetVectorTests {
    private static let resources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Resources")
    private static let file = resources.appending(path: "Vectors/everything.syncset")

    /// A schema with every part of the format.
    private static let schema: StoreSchema = {
        do {
            return try DatabaseQueue().write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE UNIQUE);
                        CREATE TABLE note (
                            id INTEGER PRIMARY KEY, folder INT DEFAULT 1 REFERENCES folder ON DELETE CASCADE, low INT, high INT,
                            CHECK (low <= high)
                        );
                        CREATE TABLE pair (a, b REAL, PRIMARY KEY (b, a)) WITHOUT ROWID;
                        """
                )
                return try StoreSchema(db)
            }
        } catch {
            preconditionFailure("\(error)")
        }
    }()

    /// A set with every part of the format.
    private static let everything: SyncChangeSet = {
        let (a, b) = (ClientID(rawValue: "device-a"), ClientID(rawValue: "device-é"))
        let note = RowName.numbered(client: a, number: 300)
        let tag = RowName.key([.value(.text("home"))])
        let long = Cell.value(.text(String(repeating: "x", count: 40)))
        let description = SchemaDescription(schema)
        var header = SyncChangeSet.Header(
            id: SetID(a, 129),
            predecessor: SetDigest(of: [1]),
            stamp: Stamp(rawValue: 1_790_000_000_000),
            seen: [b: SeenSet(7, SetDigest(of: [2])), ClientID(rawValue: "c"): SeenSet(1 << 40, SetDigest(of: [3]))],
            schema: SchemaVersion(2, description.digest)
        )
        header.schemaDescription = description
        header.isMigration = true
        let inserted = InsertedRow(
            cells: ["body": .value(.blob([0, 255])), "folder": .row(.numbered(client: b, number: -1))],
            wish: -2,
            dangling: ["folder"]
        )
        let updated: [String: UpdatedCell] = [
            "body": UpdatedCell(from: OldCell(long), to: .value(.real(-0.5)), putsBack: true),
            "folder": UpdatedCell(from: OldCell(.row(note)), to: .value(.null), isDangling: true),
        ]
        let deleted = DeletedRow(
            image: SetDigest(of: [5]),
            parents: [RowReference("folder", note), RowReference("folder", .numbered(client: b, number: 2))]
        )
        let pair = RowName.key([.row(note), .value(.integer(.min)), .value(.real(.infinity)), .value(.text([0xFF]))])
        let leaving = DeletedRow(image: SetDigest(of: [7]), left: [RowReference("pair", pair)])
        return SyncChangeSet(
            header,
            [
                Change("note", note, .insert(inserted)),
                Change("note", .numbered(client: b, number: 1), .update(updated)),
                Change("note", .numbered(client: b, number: 3), .delete(deleted)),
                Change("note", .key([.value(.null)]), .insert(InsertedRow(cells: [:]))),
                Change("note", .numbered(client: b, number: 4), .delete(leaving)),
                Change("pair", pair, .insert(InsertedRow(cells: [:]))),
                Change("tag", tag, .delete(DeletedRow(image: SetDigest(of: [6])))),
            ]
        )
    }()

    @Test("The bytes of a set stay what they are")
    func bytes() throws {
        let bytes = try [UInt8](Data(contentsOf: Self.file))
        #expect(Self.everything.encoded == bytes)
        #expect(try SyncChangeSet(decoding: bytes).header == Self.everything.header)
        #expect(try Set(SyncChangeSet(decoding: bytes).changes) == Set(Self.everything.changes))
    }

    @Test("A program that was written from the article alone reads the same set")
    func python() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [Self.resources.appending(path: "read_changes.py").path, Self.file.path]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        let set = try #require(JSONSerialization.jsonObject(with: text) as? [String: Any])
        let digest = SetDigest(of: Self.everything.encoded).rawValue
        #expect(set["digest"] as? String == digest.map { String(format: "%02x", $0) }.joined())
        #expect(set["client"] as? String == "device-a")
        #expect(set["sequence"] as? Int == 129)
        #expect(set["migration"] as? Int == 1)
        let description = try #require(set["description"] as? [String: [String: Any]])
        #expect(description["pair"]?["key"] as? [String] == ["a", "b"])
        #expect((description["note"]?["references"] as? [[Any]])?.first?[1] as? String == "folder")
        let uniques = try #require(description["folder"]?["uniques"] as? [[String: Any]])
        #expect(uniques.map { $0["kind"] as? String } == ["identity"])
        #expect((uniques[0]["terms"] as? [[Any]])?.first?[1] as? String == "name")
        #expect((description["note"]?["columns"] as? [String: [Any]])?["folder"]?[3] as? String == "1")
        #expect(set["stamp"] as? Int == 1_790_000_000_000)
        let tables = try #require(set["tables"] as? [[String: Any]])
        #expect(tables.map { $0["name"] as? String } == ["note", "pair", "tag"])
        let notes = try #require(tables[0]["changes"] as? [[String: Any]])
        #expect(notes.map { $0["kind"] as? Int } == [1, 2, 3, 4, 5])
        #expect(notes[0]["wish"] as? Int == -2)
        #expect(notes[0]["dangling"] as? [String] == ["folder"])
        #expect((notes[2]["parents"] as? [Any])?.count == 2)
        #expect((notes[4]["left"] as? [[Any]])?.first?[0] as? String == "pair")
        let key = (try #require(tables[1]["changes"] as? [[String: Any]])[0]["row"] as? [String: [Any]])?["key"]
        #expect(key?.count == 4)
        #expect(key?[1] as? Int == .min)
    }
}
