import Testing

@testable import StoreChanges

@Suite("Edits that the removal of a client takes back", .timeLimit(.minutes(60)))
struct RemovedClientTests {
    private let laptop: SimulatedDevice
    private let phone: SimulatedDevice

    /// Two devices with a note, a tag and a visit, which are in the phone's first set.
    init() throws {
        let sql = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT);
            CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, color TEXT);
            CREATE TABLE visit (place TEXT);
            """
        laptop = try SimulatedDevice("laptop", schemaSQL: sql)
        phone = try SimulatedDevice("phone", schemaSQL: sql)
        phone.limits = CapturedChanges.Limits()
        try phone.edit("INSERT INTO note VALUES (1, 'milk', 'a'), (2, 'bread', 'b'), (3, 'tea', 'c')")
        try phone.edit("INSERT INTO visit VALUES ('school')")
    }

    /// Lets the phone capture a set, and the laptop integrate and write it.
    private func bring(_ sql: String = "", at time: UInt64) throws {
        try phone.edit(sql)
        let former = phone.sets.count
        try phone.capture(at: time)
        try laptop.integrate(Array(phone.sets.dropFirst(former)))
        try laptop.write()
    }

    /// What the laptop's log has of the removed client.
    private func entries() throws -> [Conflict] { try laptop.conflicts().filter { $0.rule == .clientRemoved } }

    private func text(_ cells: [String: Cell]) -> [String: String] {
        cells.compactMapValues {
            if case .value(.text(let text)) = $0 { String(decoding: text, as: UTF8.self) } else { nil }
        }
    }

    @Test("A row that several lost sets changed is logged once, as the last of them left it")
    func severalSets() throws {
        try bring(at: 1)
        try bring(
            """
            INSERT INTO note VALUES (4, 'new', 'd'), (5, 'deleted later', 'e');
            INSERT INTO visit VALUES ('lake'), ('river');
            UPDATE note SET title = 'oat milk' WHERE id = 1;
            UPDATE note SET title = 'rye bread' WHERE id = 2;
            """,
            at: 10
        )
        try bring(
            """
            UPDATE note SET title = 'newer' WHERE id = 4;
            DELETE FROM note WHERE id IN (3, 5);
            DELETE FROM visit WHERE place IN ('river', 'school');
            UPDATE note SET body = 'aa' WHERE id = 1;
            UPDATE note SET title = 'bread' WHERE id = 2;
            """,
            at: 20
        )
        try laptop.learn(removals: [phone.client: 1])
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note ORDER BY id") == ["\"milk\"", "\"bread\"", "\"tea\""])
        let entries = try entries()
        let lost = Set(entries.map { text($0.lost) })
        #expect(entries.count == 3)
        #expect(lost == [["title": "newer", "body": "d"], ["title": "oat milk", "body": "aa"], ["place": "lake"]])
        let kept = Set(entries.map { text($0.kept) })
        #expect(kept == [[:], ["title": "milk", "body": "a"]])
    }

    @Test("An edit of a row that was merged away is logged for the row that it was merged into")
    func mergedRow() throws {
        try laptop.edit("INSERT INTO tag VALUES (1, 'work', 'red')")
        let tag = try #require(try laptop.capture(at: 1)).changes[0].row
        try bring("INSERT INTO tag VALUES (1, 'work', 'red')", at: 10)
        try bring("UPDATE tag SET color = 'blue'", at: 20)
        #expect(try laptop.rows("SELECT color FROM tag") == ["\"blue\""])
        try laptop.learn(removals: [phone.client: 1])
        let entry = try #require(try entries().first)
        #expect(try entries().count == 1)
        #expect(entry.row == RowReference("tag", tag))
        #expect(text(entry.lost) == ["color": "blue"] && text(entry.kept) == ["color": "red"])
    }

    @Test("The entries go when another note of the removal says that the edits count")
    func laterNote() throws {
        try bring(at: 1)
        try bring("UPDATE note SET title = 'oat milk' WHERE id = 1", at: 10)
        try laptop.learn(removals: [phone.client: 1])
        #expect(try entries().count == 1)
        try laptop.learn(removals: [phone.client: 2])
        #expect(try laptop.conflicts().isEmpty)
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note WHERE id = 1") == ["\"oat milk\""])
    }

    @Test("The edit of a row that arrives again together with the removal isn't logged")
    func publishedAgain() throws {
        try bring(at: 1)
        try bring("UPDATE note SET title = 'oat milk' WHERE id = 1", at: 10)
        try phone.notePublication()
        let former = phone.client
        try phone.remember([], removals: [former: 1])
        try phone.become("another")
        let again = try phone.captureVoidSetsAgain(at: 20)
        #expect(again.count == 1)
        try laptop.learn(again, removals: [former: 1])
        try laptop.write()
        #expect(try laptop.rows("SELECT title FROM note WHERE id = 1") == ["\"oat milk\""])
        #expect(try entries().isEmpty)
    }
}
