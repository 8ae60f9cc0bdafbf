import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Building a replica again from the store with which it began", .timeLimit(.minutes(60)))
struct ReplicaRebuildingTests {
    private typealias Fixture = SynchronizedStoreTests.Fixture

    private let identity = SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: "laptop"))

    private func replica(_ fixture: Fixture) -> URL { fixture.folder.appending(path: "laptop.replica") }

    /// The app of a device that began with a store of one note, and a copy of that store.
    private func laptop(_ fixture: Fixture) throws -> (DatabaseQueue, SynchronizedStore.Beginning) {
        let app = try fixture.app("laptop")
        try app.write { try $0.execute(sql: "INSERT INTO note (title, body) VALUES ('milk', 'two litres')") }
        let copy = fixture.folder.appending(path: "beginning.sqlite")
        try FileManager.default.copyItem(at: fixture.storeURL("laptop"), to: copy)
        let beginning = SynchronizedStore.Beginning(store: copy)
        try SynchronizedStore.createReplica(at: replica(fixture), from: beginning, identity)
        let outcome = try fixture.open("laptop").synchronized(with: [])
        try #require(outcome.captured.isEmpty)
        return (app, beginning)
    }

    private func rebuild(_ fixture: Fixture, from sources: SynchronizedStore.Sources) throws -> Bool {
        try SynchronizedStore.rebuildReplica(
            at: replica(fixture),
            ofStoreAt: fixture.storeURL("laptop"),
            from: sources,
            identity,
            options: SynchronizedStore.Options()
        )
    }

    @Test("An edit that another process records while the replica is built is kept")
    func recordedMeanwhile() throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try fixture.app("phone").write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('bread')") }
        let set = try #require(try fixture.open("phone").recordSet())
        _ = try fixture.open("laptop").synchronized(with: [set])
        let observed = ObservedSet(set) {
            try app.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk' WHERE title = 'milk'") }
            #expect(try fixture.open("laptop").recordSet()?.changes.count == 1)
        }
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [observed], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        let store = try fixture.open("laptop")
        #expect(try store.ownSets(1...9).map(\.changeCount) == [1])
        let outcome = try store.synchronized(with: [])
        #expect(outcome.captured.isEmpty && outcome.written.isEmpty)
        let titles = try app.read { try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY title") }
        #expect(titles == ["bread", "oat milk"])
    }

    @Test(
        "A replica is built again although the store's schema has changed since",
        arguments: ["ADD COLUMN color TEXT DEFAULT 'red'", "DROP COLUMN body"]
    )
    func changedSchema(change: String) throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        let former = try app.write { db in
            try db.execute(sql: "ALTER TABLE note \(change); INSERT INTO note (title) VALUES ('bread')")
            try db.execute(sql: "UPDATE note SET title = 'oat milk' WHERE title = 'milk'")
            return try Row.fetchAll(db, sql: "SELECT * FROM note ORDER BY id")
        }
        _ = try fixture.open("laptop").synchronized(with: [])
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('tea')") }
        let outcome = try fixture.open("laptop").synchronized(with: [])
        #expect(outcome.captured.flatMap(\.changes).count == 1 && outcome.written.isEmpty)
        let rows = try app.read { try Row.fetchAll($0, sql: "SELECT * FROM note WHERE title <> 'tea' ORDER BY id") }
        #expect(rows == former)
    }

    @Test("Edits in a schema that the store had between the baseline's and its present one are read again")
    func formerSchema() throws {
        let fixture = try Fixture()
        let (app, beginning) = try laptop(fixture)
        try app.write {
            try $0.execute(
                sql: """
                    ALTER TABLE note ADD COLUMN color TEXT;
                    INSERT INTO note (title, body, color) VALUES ('bread', 'one', 'brown')
                    """
            )
        }
        _ = try fixture.open("laptop").synchronized(with: [])
        try app.write { try $0.execute(sql: "ALTER TABLE note DROP COLUMN body") }
        _ = try fixture.open("laptop").synchronized(with: [])
        let sources = SynchronizedStore.Sources(beginning: beginning, sets: [], news: LogNews())
        #expect(try rebuild(fixture, from: sources))
        try app.write { try $0.execute(sql: "INSERT INTO note (title) VALUES ('tea')") }
        let outcome = try fixture.open("laptop").synchronized(with: [])
        #expect(outcome.captured.flatMap(\.changes).count == 1 && outcome.written.isEmpty)
        let rows = "SELECT title || ' ' || ifnull(color, '-') FROM note ORDER BY title"
        #expect(try app.read { try String.fetchAll($0, sql: rows) } == ["bread brown", "milk -", "tea -"])
    }
}
