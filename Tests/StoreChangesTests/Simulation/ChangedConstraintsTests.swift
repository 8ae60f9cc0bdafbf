import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("Updates of an app that change constraints", .timeLimit(.minutes(60)))
struct ChangedConstraintsTests {
    /// An update that changes by which constraints edits are merged.
    struct Update: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var schema: String
        var update: String
        /// Whether no reference becomes valid that led nowhere before.
        var keepsReferences = true
    }

    private static let folders = "CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);"
    private static func notes(_ reference: String) -> String {
        "CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT \(reference), title TEXT, slug TEXT);"
    }

    private static func rebuilding(_ reference: String) -> String {
        """
        \(notes(reference).replacing("TABLE note", with: "TABLE new")) INSERT INTO new SELECT * FROM note; DROP TABLE note;
        ALTER TABLE new RENAME TO note
        """
    }

    private static let unique = "CREATE UNIQUE INDEX slugs ON note (slug);"
    private static let expression = "CREATE UNIQUE INDEX slugs ON note (lower(slug)) WHERE title <> 'draft';"
    private static let (cascade, setNull) = (
        "REFERENCES folder ON DELETE CASCADE", "REFERENCES folder ON DELETE SET NULL"
    )
    private static let textKeys = "CREATE TABLE folder (id TEXT PRIMARY KEY NOT NULL, name TEXT);"

    static let updates = [
        Update("a unique index is dropped", folders + notes(setNull) + unique, "DROP INDEX slugs"),
        Update("a unique expression is dropped", folders + notes(setNull) + expression, "DROP INDEX slugs"),
        Update(
            "a unique index of a generated column is dropped",
            folders + notes(setNull).replacing(");", with: ", low TEXT AS (lower(slug)));")
                + "CREATE UNIQUE INDEX slugs ON note (low);",
            "DROP INDEX slugs"
        ),
        Update(
            "two unique indexes of the same column are dropped",
            folders + notes(setNull) + unique + "CREATE UNIQUE INDEX low ON note (slug COLLATE NOCASE);",
            "DROP INDEX slugs; DROP INDEX low"
        ),
        Update(
            "a unique index ignores case",
            folders + notes(setNull) + unique,
            "DROP INDEX slugs; DELETE FROM note WHERE id NOT IN (SELECT min(id) FROM note GROUP BY lower(slug)); \(expression)"
        ),
        Update("CASCADE becomes SET NULL", folders + notes(cascade), rebuilding(setNull)),
        Update("SET NULL becomes CASCADE", folders + notes(setNull), rebuilding(cascade)),
        Update("a reference to text is dropped", textKeys + notes(setNull), rebuilding("")),
        Update("a reference to text is added", textKeys + notes(""), rebuilding(cascade), keepsReferences: false),
        Update(
            "rows without a key needn't differ",
            "CREATE TABLE note (title TEXT, slug TEXT, folder INT); CREATE TABLE folder (id INT, name TEXT); \(unique)",
            "DROP INDEX slugs"
        ),
    ]

    private static let edits = [
        "INSERT INTO folder (id, name) VALUES ({}, 'f')", "DELETE FROM folder WHERE id = {}",
        "INSERT INTO note (title, slug) VALUES ('t', 's{}')", "INSERT INTO note (title, slug) VALUES ('u', 'S{}')",
        "UPDATE note SET slug = 's{}' WHERE rowid % 3 = {}", "UPDATE note SET folder = {} WHERE rowid % 3 = {}",
        "DELETE FROM note WHERE rowid % 3 = {}", "UPDATE note SET title = 't{}' WHERE slug = 's{}'",
    ]

    @Test(
        "Devices that are updated at different times are equal in the end, whatever each had merged before",
        arguments: updates,
        TestDepth.seeds(quick: 2, deep: 4_000)
    )
    func histories(update: Update, seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var devices = try ["A", "B", "C"].map { try SimulatedDevice($0, schemaSQL: update.schema) }
        var (log, time, updated): ([String], UInt64, Set<Int>) = ([], 0, [])
        func exchange(_ device: SimulatedDevice, publishes: Bool = true) throws {
            for other in devices where other.client != device.client {
                try device.integrate(other.sets[(device.arrived[other.client] ?? 0)...].shuffled(using: &random))
                device.arrived[other.client] = other.sets.count
            }
            time += 1
            if publishes { try device.capture(at: time) }
            try device.write()
        }
        func migrate(_ index: Int) throws {
            guard updated.insert(index).inserted else { return }
            try devices[index].migrate(update.update)
            log.append("\(devices[index].client) is updated")
        }
        for _ in 0..<Int.random(in: 10...40, using: &random) {
            let index = Int.random(in: devices.indices, using: &random)
            switch Int.random(in: 0..<20, using: &random) {
            case 0: try migrate(index)
            case 1 where devices.count == 3:
                time += 1
                try devices[index].capture(at: time)
                devices.append(try SimulatedDevice("D", joiningFrom: devices[index]))
                devices[3].arrived = devices[index].arrived
                devices[3].arrived[devices[index].client] = devices[index].sets.count
                if updated.contains(index) { updated.insert(3) }
                log.append("D joins from \(devices[index].client)")
            case 2...5:
                try exchange(devices[index])
                log.append("\(devices[index].client) synchronizes")
            case 6:
                for device in devices { try device.publishHead() }
                for other in devices { try devices[index].remember([other.heads.last].compactMap(\.self)) }
                try devices[index].trim()
                log.append(
                    "\(devices[index].client) trims up to \(String(describing: try devices[index].stable()?.position))"
                )
            default:
                let words = Self.edits.randomElement(using: &random)?.split(
                    separator: "{}",
                    omittingEmptySubsequences: false
                )
                let edit = (words ?? []).map(String.init).reduce("") {
                    $0.isEmpty ? $1 : "\($0)\(Int.random(in: 0...2, using: &random))\($1)"
                }
                if try devices[index].edit(edit) { log.append("\(devices[index].client): \(edit)") }
            }
        }
        for index in devices.indices { try migrate(index) }
        for _ in 0..<3 {
            for device in devices { try exchange(device) }
        }
        let context = Comment(rawValue: log.joined(separator: "\n"))
        let first = try devices[0].content()
        for device in devices {
            let content = try device.content()
            #expect(content.rows.mapValues(\.cells) == first.rows.mapValues(\.cells), context)
            #expect(content.counts == first.counts, context)
            #expect(try device.digests().present == devices[0].digests().present, context)
            #expect(try device.refusals().isEmpty, context)
            if update.keepsReferences { #expect(try device.violations() == [], context) }
            #expect(try !device.needsNewerSchema() && device.capture(at: 1_000) == nil, context)
        }
    }

    @Test("A set without a change tells that an update has other constraints, once")
    func announcement() throws {
        let pair = try DevicePair(Self.folders + Self.notes(Self.setNull) + Self.unique)
        let (laptop, phone) = (pair.laptop, pair.phone)
        try laptop.edit("INSERT INTO note (title) VALUES ('milk')")
        try pair.exchange()
        try laptop.migrate("DROP INDEX slugs")
        let set = try #require(try laptop.capture())
        #expect(set.changes.isEmpty && set.header.isMigration && set.header.schemaDescription != nil)
        #expect(try SyncChangeSet(decoding: set.encoded) == set)
        #expect(try laptop.capture() == nil)
        try phone.integrate([set])
        #expect(try phone.needsNewerSchema())
        try phone.migrate("DROP INDEX slugs")
        try phone.integrate([])
        #expect(try phone.capture() == nil, "the other device has told it")
        try laptop.migrate("ALTER TABLE note ADD COLUMN color TEXT")
        #expect(try laptop.capture() == nil, "the constraints are the same")
    }

    @Test("Rows that an added unique index refuses are merged where the update comes in the order")
    func addedIndex() throws {
        let pair = try DevicePair(Self.folders + Self.notes(Self.setNull))
        let (laptop, phone) = (pair.laptop, pair.phone)
        try laptop.edit("INSERT INTO note (id, title, slug) VALUES (1, 'milk', 's')")
        try laptop.capture(at: 10)
        try phone.edit("INSERT INTO note (id, title, slug) VALUES (2, 'bread', 's')")
        try phone.capture(at: 11)
        try laptop.migrate(Self.unique)
        try laptop.capture(at: 20)
        try laptop.integrate(phone.sets)
        try phone.integrate(laptop.sets)
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note") == ["\"bread\""])
        // The phone still has both.
        try phone.edit("DELETE FROM note WHERE title = 'milk'")
        try phone.migrate(Self.unique)
        try pair.exchange()
        #expect(try phone.rows("SELECT title FROM note") == ["\"bread\""])
        #expect(try phone.refusals().isEmpty && laptop.refusals().isEmpty)
    }
}

extension ChangedConstraintsTests.Update {
    fileprivate init(_ name: String, _ schema: String, _ update: String, keepsReferences: Bool = true) {
        (testDescription, self.schema, self.update) = (name, schema, update)
        self.keepsReferences = keepsReferences
    }
}
