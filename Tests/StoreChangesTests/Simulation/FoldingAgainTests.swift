import Testing

@testable import StoreChanges

@Suite("Sets that are undone and folded again", .timeLimit(.minutes(60)))
struct FoldingAgainTests {
    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)"

    /// Two devices with a common note.
    private func devices() throws -> (laptop: SimulatedDevice, phone: SimulatedDevice) {
        let laptop = try SimulatedDevice("laptop", schemaSQL: Self.notes)
        let phone = try SimulatedDevice("phone", schemaSQL: Self.notes)
        try laptop.edit("INSERT INTO note (id, title) VALUES (1, 'milk')")
        try laptop.capture()
        try phone.integrate(laptop.sets)
        for device in [laptop, phone] { try device.write() }
        return (laptop, phone)
    }

    @Test("A conflict keeps its number, by which the user restores it, if its set is folded again")
    func conflictNumbers() throws {
        let (laptop, phone) = try devices()
        let tablet = try SimulatedDevice("tablet", schemaSQL: Self.notes)
        try tablet.receive(laptop.sets)
        try tablet.edit("INSERT INTO note (id, title) VALUES (2, 'tea')")
        let late = try #require(try tablet.capture(at: 5))
        try tablet.edit("UPDATE note SET title = 'oat milk' WHERE id = 1")
        let conflicting = try #require(try tablet.capture(at: 6))
        try laptop.edit("UPDATE note SET title = 'rice milk', body = 'one'")
        try laptop.capture(at: 10)
        try phone.edit("UPDATE note SET title = 'soy milk', body = 'two'")
        try laptop.integrate([try #require(try phone.capture(at: 20))])
        let entries = try laptop.loggedConflicts()
        #expect(entries.map(\.conflict.rule) == [.overwritten])
        try laptop.integrate([late])
        #expect(try laptop.loggedConflicts() == entries)
        // It overwrites another value now, and is another entry.
        try laptop.integrate([conflicting])
        let more = try laptop.loggedConflicts()
        #expect(more.contains(entries[0]) && more.count == 2 && Set(more.map(\.number)).count == 2)
    }

    @Test("The bytes of a removed client's void sets are forgotten when later sets are stable")
    func voidSets() throws {
        let (laptop, phone) = try devices()
        try phone.edit("UPDATE note SET title = 'soy milk'")
        try laptop.integrate([try #require(try phone.capture(at: 10))])
        try laptop.remember([], removals: [phone.client: 0])
        try laptop.write()
        try laptop.trim()
        #expect(try laptop.voidByteCount() > 0, "a later note of the removal may name it as the last that counts")
        try laptop.edit("UPDATE note SET title = 'oat milk'")
        try laptop.capture(at: 20)
        try laptop.trim()
        #expect(try laptop.voidByteCount() == 0)
        try laptop.integrate(phone.sets)
        try laptop.remember([], removals: [phone.client: 1])
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note") == ["\"oat milk\""])
    }

    @Test("A checkpoint lacks the bytes of void sets that are late for good, also those of its maker")
    func voidSetsInCheckpoint() throws {
        let (laptop, phone) = try devices()
        try phone.edit("UPDATE note SET title = 'soy milk'")
        let void = try #require(try phone.capture(at: 10))
        try phone.notePublication()
        let removals = [phone.client: UInt64(0)]
        for device in [laptop, phone] { try device.remember([], removals: removals) }
        try phone.become("tablet")
        try laptop.integrate(try phone.captureVoidSetsAgain(at: 20))
        for device in [laptop, phone] { try device.write() }
        try phone.remember([try laptop.publishHead()])
        try phone.trim()
        #expect(try phone.capture() == nil)
        #expect(try phone.voidByteCount() > 0)
        let joiner = try SimulatedDevice("desk", joiningFrom: phone)
        #expect(try joiner.voidByteCount() == 0)
        // A later note has the set as the last to count.
        try joiner.remember([], removals: [void.header.id.client: 1])
        #expect(try joiner.publishHead().voids.map(\.set) == [LogEntry(void).reference])
        #expect(try joiner.content() == phone.content())
    }

    @Test("An update of the app changes all rows of a large table")
    func manyRows() throws {
        let device = try SimulatedDevice("desk", schemaSQL: Self.notes)
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 1200)"
        try device.edit("\(numbers) INSERT INTO note SELECT n, 'note ' || n, 'text' FROM numbers")
        try device.capture()
        try device.migrate("ALTER TABLE note DROP COLUMN body; ALTER TABLE note ADD COLUMN color TEXT DEFAULT 'red'")
        #expect(try device.capture() == nil)
        let rows = try device.content().rows.values
        #expect(rows.count == 1200 && rows.allSatisfy { Set($0.cells.keys).isSubset(of: ["title", "color"]) })
    }

    @Test(
        "After an update that removed a column, the digests of equal states are equal, whenever devices updated",
        arguments: [0, 1, 2, 3]
    )
    func digestsAfterRemoval(setsBeforeUpdate: Int) throws {
        let (laptop, phone) = try devices()
        let tablet = try SimulatedDevice("tablet", schemaSQL: Self.notes)
        try tablet.receive(laptop.sets)
        let drop = "ALTER TABLE note DROP COLUMN body"
        try laptop.edit("UPDATE note SET body = 'two'; INSERT INTO note VALUES (2, 'tea', 'three')")
        try laptop.capture(at: 10)
        try phone.receive(laptop.sets)
        try tablet.edit("UPDATE note SET title = 'oat milk'")
        let late = try #require(try tablet.capture(at: 5))
        try phone.edit("UPDATE note SET title = 'bread' WHERE id = 2")
        let last = try #require(try phone.capture(at: 20))
        try laptop.migrate(drop)
        for (number, set) in [last, late].enumerated() {
            if number == setsBeforeUpdate { try phone.migrate(drop) }
            for device in [laptop, phone] { try device.integrate([set]) }
        }
        if setsBeforeUpdate == 2 { try phone.migrate(drop) }
        let devices = setsBeforeUpdate == 3 ? [laptop] : [laptop, phone]
        let digest = try laptop.digest(of: laptop.content())
        for device in devices {
            #expect(try device.digests().present == digest)
            #expect(try device.fingerprint() == laptop.fingerprint())
        }
        // A device that wasn't updated can't be compared.
        let phones = try #require(try phone.fingerprint())
        #expect(try laptop.fingerprint()?.contradicts(phones) == false)
    }
}
