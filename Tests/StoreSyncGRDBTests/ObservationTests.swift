import Foundation
import GRDB
import Operations
import StoreChanges
import StoreSync
import StoreSyncGRDB
import Testing

@Suite("An app's observations", .timeLimit(.minutes(60)))
@MainActor struct ObservationTests {
    @Test(
        "A value observation gets all that other devices edited in one value, and then the app's own writes",
        arguments: ConnectionKind.allCases
    )
    func valueObservation(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        try pair.laptop.execute(
            "UPDATE note SET title = 'oat milk'; INSERT INTO note VALUES (2, 'bread', ''), (3, 'tea', '')"
        )
        try await pair.laptop.synchronize()

        let observation = ValueObservation.tracking {
            try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY id")
        }
        // A pool may fetch the first value twice.
        .removeDuplicates()
        var values = observation.values(in: pair.app).makeAsyncIterator()
        #expect(try await values.next() == ["milk"])
        let result = try await pair.phone.notes.synchronize(pair.app).value
        #expect(result.applied["note"]?.inserted == 2 && result.applied["note"]?.updated == 1)
        #expect(try await values.next() == ["oat milk", "bread", "tea"])
        // What a second transaction of the synchronization had written would come before this.
        try await pair.app.write { try $0.execute(sql: "DELETE FROM note WHERE id = 3") }
        #expect(try await values.next() == ["oat milk", "bread"])
        try await pair.converge()
        #expect(try pair.laptop.rows() == ["oat milk:", "bread:"])
    }

    @Test(
        "A transaction observer sees each row that other devices inserted, updated or deleted, in one transaction",
        arguments: ConnectionKind.allCases
    )
    func transactionObserver(kind: ConnectionKind) async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(kind)
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', ''), (3, 'tea', '')")
        try await pair.laptop.synchronize()
        _ = try await pair.phone.notes.synchronize(pair.app).value
        let events = RecordedEvents()
        pair.app.add(transactionObserver: events)
        try pair.laptop.execute(
            "UPDATE note SET title = 'rye' WHERE id = 2; DELETE FROM note WHERE id = 3; INSERT INTO note VALUES (7, 'salt', '')"
        )
        try await pair.laptop.synchronize()
        _ = try await pair.phone.notes.synchronize(pair.app).value
        _ = try await pair.phone.notes.synchronize(pair.app).value
        #expect(events.transactions.map { Set($0) } == [["update 2", "delete 3", "insert 7"]])
        #expect(events.transactions.first?.count == 3)
    }

    @Test("Rows that are in each other's way are observed as they are written in the end")
    func rowsInTheWay() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.pool)
        try await pair.app.write {
            try $0.execute(sql: "CREATE UNIQUE INDEX titles ON note (title); INSERT INTO note VALUES (2, 'tea', '')")
        }
        try pair.laptop.execute("CREATE UNIQUE INDEX titles ON note (title)")
        try await pair.converge()
        let events = RecordedEvents()
        pair.app.add(transactionObserver: events)
        try pair.laptop.execute(
            """
            UPDATE note SET title = 'x' WHERE id = 1; UPDATE note SET title = 'milk' WHERE id = 2;
            UPDATE note SET title = 'tea' WHERE id = 1;
            """
        )
        try await pair.laptop.synchronize()
        _ = try await pair.phone.notes.synchronize(pair.app).value
        #expect(events.transactions == [["delete 2", "delete 1", "insert 2", "insert 1"]])
        let titles = try await pair.app.read { try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY id") }
        #expect(titles == ["tea", "milk"])
    }

    @Test("Triggers run with the functions that the app registered")
    func functions() async throws {
        let fixture = try Fixture()
        let titles = RecordedTitles()
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(
                function: DatabaseFunction("index_title", argumentCount: 1) { values in
                    titles.note(String.fromDatabaseValue(values[0]) ?? "")
                    return nil
                }
            )
        }
        let pair = try await fixture.pair(.pool, configuration)
        try await pair.app.write {
            try $0.execute(
                sql: "CREATE TRIGGER indexing AFTER INSERT ON note BEGIN SELECT index_title(new.title); END"
            )
        }
        try pair.laptop.execute("INSERT INTO note VALUES (2, 'bread', '')")
        try await pair.laptop.synchronize()
        _ = try await pair.phone.notes.synchronize(pair.app).value
        #expect(titles.all == ["bread"])
    }

    @Test("What is restored from the conflict log is observed, and reaches the other device")
    func restore() async throws {
        let fixture = try Fixture()
        let pair = try await fixture.pair(.pool)
        try pair.laptop.execute("UPDATE note SET title = 'oat milk'")
        try await pair.laptop.synchronize()
        try await pair.app.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk'") }
        _ = try await pair.phone.notes.synchronize(pair.app).value
        let log = pair.phone.notes.conflicts(in: pair.app)
        let entry = try #require(try await log.entries().first)
        #expect(entry.conflict.lost == ["title": .value(.text("oat milk"))])
        let events = RecordedEvents()
        pair.app.add(transactionObserver: events)
        try await log.restore(entry.number)
        #expect(events.transactions == [["update 1"]])
        try await pair.converge()
        #expect(try pair.laptop.rows() == ["oat milk:"])
    }
}
