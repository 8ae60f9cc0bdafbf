import Testing

@testable import StoreChanges

@Suite("A device that is restored from a backup, and what it had captured since", .timeLimit(.minutes(60)))
struct RestoredDeviceTests {
    private static let schema = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder, title TEXT);
        CREATE TABLE word (text TEXT PRIMARY KEY NOT NULL, meaning TEXT);
        """
    private let laptop: SimulatedDevice
    private let phone: SimulatedDevice
    private let inserts = """
        INSERT INTO folder VALUES (2, 'work');
        INSERT INTO note VALUES (1, 2, 'before');
        """

    /// Two devices that have the laptop's first set.
    init() throws {
        laptop = try SimulatedDevice("laptop", schemaSQL: Self.schema)
        phone = try SimulatedDevice("phone", schemaSQL: Self.schema)
        laptop.limits = CapturedChanges.Limits()
        try laptop.edit("INSERT INTO folder VALUES (1, 'home')")
        try laptop.capture(at: 1)
        try laptop.write()
        try laptop.notePublication()
        try phone.receive(laptop.sets)
    }

    /// Lets the laptop publish a set, which the phone integrates and writes.
    private func publish() throws -> SyncChangeSet {
        let set = try #require(try laptop.capture(at: 10))
        try laptop.write()
        try phone.learn([set], removals: [:])
        try phone.write()
        return set
    }

    /// No variant of a set has the lesser digest.
    private struct NoSuchSet: Error {}

    /// Restores a backup, and lets the device publish another set of a number, which counts in place of the first one.
    private func restore(
        _ backup: SimulatedDevice,
        besides published: SyncChangeSet,
        at time: UInt64 = 20,
        _ sql: (Int) -> String
    ) throws -> (SimulatedDevice, SyncChangeSet) {
        let digest = SetDigest(of: published.encoded)
        for variant in 0..<2000 {
            let restored = try SimulatedDevice(copying: backup)
            restored.limits = CapturedChanges.Limits()
            try restored.edit(sql(variant))
            let captured = try #require(try restored.capture(at: time))
            try #require(captured.header.id == published.header.id)
            guard SetDigest(of: captured.encoded).rawValue.lexicographicallyPrecedes(digest.rawValue) else { continue }
            try restored.write()
            try restored.notePublication()
            return (restored, captured)
        }
        throw NoSuchSet()
    }

    private func text(_ cells: [String: Cell]) -> Set<String> {
        Set(
            cells.values.compactMap {
                if case .value(.text(let text)) = $0 { String(decoding: text, as: UTF8.self) } else { nil }
            }
        )
    }

    @Test("What it had published under a number that it uses again is in the conflict log, as rows of their own")
    func lostSet() throws {
        let backup = try SimulatedDevice(copying: laptop)
        try laptop.edit("\(inserts) INSERT INTO word VALUES ('b', 'second letter')")
        let published = try publish()
        let (restored, captured) = try restore(backup, besides: published) {
            "INSERT INTO folder VALUES (2, 'other \($0)'); INSERT INTO note VALUES (1, 2, 'after')"
        }
        try phone.learn([captured], removals: [:])
        // The storage shows the first one again.
        try restored.learn([published], removals: [:])
        #expect(try !restored.hasLostIdentity())
        for device in [phone, restored] {
            try device.write()
            #expect(try device.rows("SELECT title FROM note") == ["\"after\""])
            #expect(try device.capture() == nil)
            let entries = try device.loggedConflicts()
            #expect(entries.map(\.conflict.rule) == [.setVoid, .setVoid, .setVoid])
            #expect(Set(entries.map { text($0.conflict.lost) }) == [["work"], ["before"], ["second letter"]])
            #expect(entries.allSatisfy { $0.conflict.kept.isEmpty && $0.conflict.hasLoss })
            #expect(entries.allSatisfy { $0.author.set == published.header.id })
            // Restoring the note must not bring it into the other set's folder.
            let folder = try #require(entries.first { $0.conflict.row.table == "folder" }).conflict
            let note = try #require(entries.first { $0.conflict.row.table == "note" }).conflict
            #expect(note.lost["folder"] == .row(folder.row.row))
            #expect(try device.content().rows[folder.row] == nil && device.content().rows[note.row] == nil)
        }
        // The set that counts is folded again.
        let tablet = try SimulatedDevice("tablet", schemaSQL: Self.schema)
        try tablet.edit("INSERT INTO word VALUES ('c', 'third letter')")
        let earlier = try #require(try tablet.capture(at: 15))
        for device in [phone, restored] {
            let entries = try device.loggedConflicts()
            for _ in 0..<2 {
                try device.learn([earlier, published, captured], removals: [:])
                #expect(try device.loggedConflicts() == entries)
            }
        }
    }

    @Test("What it had published is in the conflict log, also if the set that counts has the same number and time")
    func lostSetOfTheSameTime() throws {
        let backup = try SimulatedDevice(copying: laptop)
        try laptop.edit("INSERT INTO word VALUES ('b', 'second letter')")
        let published = try publish()
        let (restored, captured) = try restore(backup, besides: published, at: 10) {
            "INSERT INTO word VALUES ('c', 'third letter \($0)')"
        }
        #expect(captured.header.stamp == published.header.stamp)
        try phone.learn([captured], removals: [:])
        try restored.learn([published], removals: [:])
        #expect(try !restored.hasLostIdentity())
        let tablet = try SimulatedDevice("tablet", schemaSQL: Self.schema)
        try tablet.edit("INSERT INTO word VALUES ('d', 'fourth letter')")
        let earlier = try #require(try tablet.capture(at: 5))
        for device in [phone, restored] {
            let entries = try device.loggedConflicts()
            #expect(entries.map(\.conflict.rule) == [.setVoid])
            #expect(entries.map { text($0.conflict.lost) } == [["second letter"]])
            // The set that counts is folded again.
            try device.learn([earlier, published, captured], removals: [:])
            #expect(try device.loggedConflicts() == entries)
            try device.write()
            #expect(try device.rows("SELECT text FROM word ORDER BY text") == ["\"c\"", "\"d\""])
        }
    }

    @Test(
        "What its backup had already, and what it captures again, is there once; captured later, it's logged, too",
        arguments: [10, 20]
    )
    func capturedAgain(time: UInt64) throws {
        try laptop.edit("\(inserts) INSERT INTO word VALUES ('b', 'second letter')")
        let backup = try SimulatedDevice(copying: laptop)
        let published = try publish()
        let (restored, captured) = try restore(backup, besides: published, at: time) {
            "INSERT INTO word VALUES ('c', 'third letter \($0)')"
        }
        try phone.learn([captured], removals: [:])
        try restored.learn([published], removals: [:])
        for device in [phone, restored] {
            try device.write()
            // Rows with integer keys that are captured at another time may be others.
            let tables = Set(try device.conflicts().map(\.row.table))
            #expect(tables == (time == 10 ? [] : ["folder", "note"]))
            #expect(try device.rows("SELECT name, title FROM note JOIN folder ON folder = folder.id").count == 1)
            #expect(try device.rows("SELECT * FROM word").count == 2)
        }
    }

    @Test(
        "Rows that its backup has, and that come back from the storage, are there once unless they were changed",
        arguments: [false, true]
    )
    func uncapturedRows(areChanged: Bool) throws {
        try laptop.edit(inserts)
        let restored = try SimulatedDevice(copying: laptop)
        restored.limits = CapturedChanges.Limits()
        let published = try publish()
        if areChanged { try restored.edit("UPDATE note SET title = 'changed'") }
        try restored.learn([published], removals: [:])
        let captured = try restored.capture(at: 20)
        #expect(captured?.changes.count == (areChanged ? 1 : nil))
        try restored.write()
        try restored.edit("UPDATE note SET folder = 1")
        try restored.capture(at: 30)
        try restored.write()
        try phone.learn(Array(restored.sets.dropFirst()), removals: [:])
        try phone.write()
        for device in [restored, phone] {
            #expect(try device.rows("SELECT name FROM folder ORDER BY id") == ["\"home\"", "\"work\""])
            let titles = try device.rows("SELECT title FROM note WHERE folder = 1 ORDER BY title")
            #expect(titles == (areChanged ? ["\"before\"", "\"changed\""] : ["\"before\""]))
            #expect(try device.capture() == nil)
            #expect(try device.conflicts().isEmpty)
        }
        #expect(try restored.content() == phone.content())
    }
}
