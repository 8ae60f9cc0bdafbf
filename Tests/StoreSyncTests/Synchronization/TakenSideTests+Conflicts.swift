import Foundation
import StoreChanges
import Testing

@testable import StoreSync

/// What is given up of the document if a store counts.
extension TakenSideTests {
    private typealias Cells = [String: Cell]

    private func text(_ column: String, _ value: String) -> Cells { [column: .value(.text(value))] }

    @Test("What an old copy of a store replaces and deletes is in the conflict log of its device, and can be restored")
    func oldCopyWithoutReplica() async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try await synchronize(a)
        let old = try Data(contentsOf: a.store)
        try b.execute(
            """
            UPDATE setting SET value = '14' WHERE key = 'size'; UPDATE place SET name = 'toys' WHERE slot = 2;
            UPDATE note SET title = 'tulips' WHERE id = 1
            """
        )
        try await synchronize(b, a)
        let c = try fixture.device("c")
        try old.write(to: c.store)
        try c.execute("UPDATE setting SET value = 'sans' WHERE key = 'font'; DELETE FROM place WHERE slot = 2")
        #expect(try await take(.local, c).conflicts == 4)
        let log = ConflictLog(ofStoreAt: c.store, state: c.state)
        let entries = try await log.entries()
        let lost = [text("value", "14"), text("name", "toys"), text("title", "tulips"), text("value", "serif")]
        let kept = [text("value", "12"), [:], text("title", "roses"), text("value", "sans")]
        #expect(Set(entries.map(\.conflict.lost)) == Set(lost) && Set(entries.map(\.conflict.kept)) == Set(kept))
        #expect(entries.allSatisfy { $0.conflict.rule == .otherSideTaken && $0.canBeRestored })
        try await synchronize(a, b)
        for device in [a, b] { #expect(try content(device) == content(c)) }
        let former = try content(c)
        #expect(former.contains("size = 12") && !former.contains("place 1 2 toys"))
        for entry in entries { try await log.restore(entry.number) }
        try await synchronize(c, a)
        let rows = try content(a)
        for row in ["size = 14", "font = serif", "place 1 2 toys", "note tulips in garden in home"] {
            #expect(rows.contains(row), "\(row)")
        }
    }

    @Test("What a restored backup replaces is in the conflict log once, also what the last synchronization had written")
    func backupOfReplica() async throws {
        let fixture = try Fixture()
        let (a, _) = try await restoredBackup(fixture)
        _ = try await take(.local, a)
        let lost = try await ConflictLog(ofStoreAt: a.store, state: a.state).entries().map(\.conflict.lost)
        for cells in [text("value", "14"), text("title", "tulips")] {
            #expect(lost.count { $0 == cells } == 1, "\(cells): \(lost)")
        }
    }

    @Test("A row that consists of its key, and that a store lacks which counts, can be restored")
    func rowOfItsKey() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.execute("CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL); INSERT INTO tag VALUES ('home'), ('work')")
        try await synchronize(a)
        try b.execute("CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL); INSERT INTO tag VALUES ('home')")
        #expect(try await take(.local, b).conflicts == 1)
        let log = ConflictLog(ofStoreAt: b.store, state: b.state)
        try await log.restore(#require(try await log.entries().first).number)
        try await synchronize(b, a)
        #expect(try a.query("SELECT name FROM tag ORDER BY name") == ["home", "work"])
    }

    @Test(
        "Rows of both store and document aren't doubled if the replica is lost and one side or both are taken",
        arguments: TakenSide.allCases
    )
    func lostState(side: TakenSide) async throws {
        let fixture = try Fixture()
        let (a, b) = try await devices(fixture)
        try a.execute(
            "INSERT INTO folder VALUES (3, 'attic', 1); INSERT INTO note VALUES (3, 3, 'trunk'), (4, 3, 'hats')"
        )
        try await synchronize(a, b)
        try b.execute("INSERT INTO folder VALUES (7, 'cellar', 1); INSERT INTO note VALUES (8, 7, 'wine')")
        try await synchronize(b, a)
        let former = try content(a)
        let again = try fixture.device("again")
        try FileManager.default.copyItem(at: a.store, to: again.store)
        #expect(try await take(side, again).publishedChanges == 0)
        try await synchronize(b, again)
        for device in [b, again] { #expect(try content(device) == former) }
    }
}
