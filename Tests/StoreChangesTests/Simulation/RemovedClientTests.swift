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
            CREATE TABLE line (id INTEGER PRIMARY KEY, note INTEGER NOT NULL REFERENCES note ON DELETE CASCADE, text TEXT);
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
        try laptop.receive(Array(phone.sets.dropFirst(former)))
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

    @Test("Edits that arrive again together with the removal aren't logged, nor are new rows and their later edits")
    func publishedAgain() throws {
        try bring(at: 1)
        try bring("UPDATE note SET title = 'oat milk' WHERE id = 1; INSERT INTO note VALUES (4, 'new', 'd')", at: 10)
        try bring("UPDATE note SET title = 'newer' WHERE id = 4", at: 15)
        try phone.notePublication()
        let again = try comeBack(as: "another", at: 20)
        #expect(again.count == 2)
        #expect(try laptop.rows("SELECT title FROM note WHERE id = 1") == ["\"oat milk\""])
        #expect(try laptop.rows("SELECT title FROM note WHERE body = 'd'") == ["\"newer\""])
        #expect(try entries().isEmpty)
    }

    // MARK: Coming back

    /// Lets the phone learn what the laptop did and that its client was removed, and come back as another client; the laptop
    /// merges that.
    ///
    /// - Parameters:
    ///   - name: The new client.
    ///   - last: The last set of the former client that counts.
    ///   - time: When the phone comes back.
    /// - Returns: The sets with the edits that come back.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    private func comeBack(as name: String, after last: UInt64 = 1, at time: UInt64) throws -> [SyncChangeSet] {
        let former = phone.client
        let again = try comeBack(phone, as: name, after: last, at: time)
        try laptop.learn(again, removals: [former: last])
        try laptop.write()
        return again
    }

    private func comeBack(
        _ device: SimulatedDevice,
        as name: String,
        after last: UInt64 = 1,
        at time: UInt64
    ) throws -> [SyncChangeSet] {
        try device.learn(laptop.sets, removals: [device.client: last])
        #expect(try device.hasLostIdentity())
        try device.become(name)
        try device.adopt()
        let again = try device.captureVoidSetsAgain(at: time)
        try device.write()
        return again
    }

    /// What happens to a lost row before its device comes back.
    enum Meanwhile: CaseIterable {
        case nothing, restored, edited, deleted
    }

    @Test(
        "A removed device that comes back has its row once and under the same name, also if another device restored it",
        arguments: Meanwhile.allCases
    )
    func namesAgain(meanwhile: Meanwhile) throws {
        try bring(at: 1)
        try bring("INSERT INTO note VALUES (4, 'new', 'd')", at: 10)
        var rows = [try #require(phone.sets.last).changes[0].row]
        try phone.notePublication()
        try laptop.learn(removals: [phone.client: 1])
        try laptop.write()
        #expect(try laptop.rows("SELECT 1 FROM note WHERE body = 'd'").isEmpty)
        let lost = try #require(try laptop.loggedConflicts().first)
        #expect(lost.conflict.rule == .clientRemoved && lost.conflict.row.row == rows[0])
        if meanwhile != .nothing { #expect(try laptop.restore(lost.number, at: 20)) }
        if meanwhile == .edited { try laptop.edit("UPDATE note SET title = 'edited' WHERE body = 'd'") }
        if meanwhile == .deleted { try laptop.edit("DELETE FROM note WHERE body = 'd'") }
        try laptop.capture(at: 25)
        let joiner = try SimulatedDevice("tablet", joiningFrom: laptop)
        // Then the new client is removed, too.
        for (name, last, time) in [("another", 1, 30), ("third", 0, 40)] as [(String, UInt64, UInt64)] {
            try phone.notePublication()
            let former = phone.client
            let again = try comeBack(as: name, after: last, at: time)
            #expect(again.flatMap(\.changes).map(\.row) == rows)
            try joiner.learn(again, removals: [former: last])
            try joiner.write()
            for device in [laptop, phone, joiner] {
                #expect(try device.rows("SELECT title FROM note WHERE body = 'd'") == ["\"new\""], "\(device.client)")
                #expect(try device.capture() == nil)
                #expect(try device.rows("SELECT title FROM note WHERE body = 'e'").count == rows.count - 1)
                let content = try device.content()
                #expect(try content == laptop.content())
            }
            try bring("INSERT INTO note (title, body) VALUES ('of \(name)', 'e')", at: time + 1)
            try joiner.integrate(phone.sets)
            let new = try #require(phone.sets.last).changes[0].row
            if case .numbered(phone.client, _) = new {} else { Issue.record("\(new)") }
            rows.append(new)
        }
        let isLogged = try laptop.conflicts().contains {
            $0.rule == .overwritten && text($0.lost) == ["title": "edited"]
        }
        #expect(isLogged == (meanwhile == .edited))
    }

    @Test("After a removed device came back, a row that refers to its row is restored without the other row's entry")
    func child() throws {
        try bring(at: 1)
        try bring("INSERT INTO note VALUES (4, 'new', 'd')", at: 10)
        try phone.notePublication()
        try laptop.edit("INSERT INTO line SELECT 1, id, 'of the laptop' FROM note WHERE title = 'new'")
        try laptop.capture(at: 15)
        try laptop.learn(removals: [phone.client: 1])
        try laptop.write()
        #expect(try laptop.rows("SELECT * FROM line").isEmpty)
        let line = try #require(try laptop.loggedConflicts().first { $0.conflict.row.table == "line" })
        #expect(try !laptop.restore(line.number, at: 20))
        _ = try comeBack(as: "another", at: 30)
        #expect(try laptop.restore(line.number, at: 40))
        try phone.receive(laptop.sets)
        for device in [laptop, phone] {
            let lines = try device.rows("SELECT text, title FROM line JOIN note ON note = note.id")
            #expect(lines == ["\"of the laptop\"|\"new\""])
            #expect(try device.rows("SELECT 1 FROM note WHERE title = 'new'").count == 1)
        }
    }

    /// What a removed device and its copy know of each other when they come back.
    enum Knowledge: CaseIterable {
        case sets, head, nothing
    }

    @Test(
        "New rows of a removed device and of its copy are all there when both come back, also if they do so at once",
        arguments: Knowledge.allCases
    )
    func copiedDevice(knowledge: Knowledge) throws {
        try bring(at: 1)
        let copy = try SimulatedDevice(copying: phone)
        for (device, title, time) in [(phone, "of the phone", 10), (copy, "of the copy", 11)] as [(_, _, UInt64)] {
            // The new rows are equal at first.
            try device.edit("INSERT INTO note VALUES (4, '', 'd')")
            try device.capture(at: time)
            try device.edit("UPDATE note SET title = '\(title)' WHERE id = 4")
            try device.capture(at: time + 2)
            try device.notePublication()
        }
        if knowledge == .sets {
            try phone.integrate(copy.sets)
            try copy.integrate(phone.sets)
            try laptop.integrate(phone.sets + copy.sets)
        }
        let first = try comeBack(as: "another", at: 20)
        if knowledge != .nothing {
            try copy.learn(first, heads: knowledge == .head ? [phone.publishHead()] : [], removals: [copy.client: 1])
        }
        let second = try comeBack(copy, as: "third", at: 30)
        for device in [laptop, phone, copy] { try device.integrate(first + second) }
        for device in [laptop, phone, copy] {
            try device.write()
            let titles = try device.rows("SELECT title FROM note WHERE body = 'd' ORDER BY title")
            #expect(titles == ["\"of the copy\"", "\"of the phone\""])
        }
    }

    @Test("A row that a removed device hadn't published gets a name that the device didn't give before its restoration")
    func unpublishedRow() throws {
        try bring(at: 1)
        try phone.notePublication()
        let restored = try SimulatedDevice(copying: phone)
        try bring("INSERT INTO note VALUES (4, 'before the restoration', 'd')", at: 10)
        try restored.edit("INSERT INTO note VALUES (4, 'after the restoration', 'd')")
        try restored.capture(at: 11)
        try laptop.learn(removals: [phone.client: 1])
        try laptop.write()
        let lost = try #require(try laptop.loggedConflicts().last)
        #expect(try laptop.restore(lost.number, at: 20))
        let again = try comeBack(restored, as: "another", at: 30)
        try laptop.receive(again)
        for device in [laptop, restored] {
            let titles = try device.rows("SELECT title FROM note WHERE body = 'd' ORDER BY title")
            #expect(titles == ["\"after the restoration\"", "\"before the restoration\""])
        }
    }
}
