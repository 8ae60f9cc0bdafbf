import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Updates of an app after which a table can't synchronize", .timeLimit(.minutes(60)))
struct UnsuitableTableTests {
    private typealias Fixture = SynchronizedStoreTests.Fixture

    /// Two devices with the same three notes, of which one is updated.
    private func devices(_ fixture: Fixture) throws -> (laptop: DatabaseQueue, phone: DatabaseQueue) {
        let (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        try laptop.execute("INSERT INTO note (title) VALUES ('bread'), ('milk'), ('tea')")
        let first = try fixture.open("laptop").synchronized(with: [])
        _ = try fixture.open("phone").synchronized(with: first.captured)
        return (laptop, phone)
    }

    @Test(
        "A table that can't synchronize any more stops the synchronization until an update mends it; no edit is lost",
        arguments: [
            ("note (id * 2)", "is calculated from numbers"),
            ("note (title COLLATE swiftLocalizedCompare)", "compared by swiftLocalizedCompare"),
        ]
    )
    func mended(index: String, reason: String) throws {
        let fixture = try Fixture()
        let (laptop, phone) = try devices(fixture)
        try laptop.write {
            try $0.execute(
                sql: "CREATE UNIQUE INDEX places ON \(index); UPDATE note SET title = 'oat milk' WHERE id = 2"
            )
            try $0.execute(sql: "DELETE FROM note WHERE title = 'tea'")
        }
        for _ in 1...2 {
            let error = #expect(throws: StoreChangesError.self) { _ = try fixture.open("laptop") }
            #expect(error?.code == .unsuitableTable, "\(error as Any)")
            #expect(error?.message.contains("note: ") == true && error?.message.contains(reason) == true)
        }
        try phone.execute("UPDATE note SET title = 'rye bread' WHERE title = 'bread'")
        let set = try #require(try fixture.open("phone").recordSet())

        try laptop.execute("DROP INDEX places")
        let mended = try fixture.open("laptop").synchronized(with: [set])
        #expect(mended.captured.flatMap(\.changes).count == 2)
        _ = try fixture.open("phone").synchronized(with: mended.captured)
        for (device, app) in [("laptop", laptop), ("phone", phone)] {
            #expect(try app.titles() == ["oat milk", "rye bread"])
            #expect(try fixture.open(device).conflicts().isEmpty)
            #expect(try fixture.open(device).recordSet() == nil)
        }
    }

    @Test("A table that can't synchronize any more is found by its name in any case, and may be dropped")
    func droppedAfterwards() throws {
        let fixture = try Fixture()
        let (laptop, _) = try devices(fixture)
        try laptop.execute(
            """
            CREATE TABLE new (id INTEGER PRIMARY KEY, title TEXT); INSERT INTO new SELECT id, title FROM note;
            DROP TABLE note; ALTER TABLE new RENAME TO Note; CREATE UNIQUE INDEX places ON Note (id * 2);
            """
        )
        let error = #expect(throws: StoreChangesError.self) { _ = try fixture.open("laptop") }
        #expect(error?.code == .unsuitableTable, "\(error as Any)")
        try laptop.execute("DROP TABLE Note; CREATE TABLE word (text TEXT)")
        try laptop.execute("INSERT INTO word VALUES ('hello')")
        #expect(try fixture.open("laptop").recordSet()?.changes.count == 1)
    }
}
