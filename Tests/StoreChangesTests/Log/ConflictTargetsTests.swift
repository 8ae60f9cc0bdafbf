import GRDB
import Testing

@testable import StoreChanges

@Suite("Searching the other sides of conflicts", .timeLimit(.minutes(60)))
struct ConflictTargetsTests {
    private let table: FoldSchema.Table

    init() throws {
        let store = try DatabaseQueue()
        let schema = try store.write { db in
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)")
            return try StoreSchema(db)
        }
        table = try FoldSchema(schema).table("note")
    }

    private func row(_ number: Int64) -> RowReference {
        RowReference("note", .numbered(client: ClientID(rawValue: "laptop"), number: number))
    }

    private func note(_ title: String, _ body: String) -> StoredRow {
        StoredRow(table, ["title": .value(.text(Array(title.utf8))), "body": .value(.text(Array(body.utf8)))])
    }

    private func target(_ number: Int64, _ columns: Set<String>) -> ConflictTargets.Target {
        ConflictTargets.Target(row: row(number), state: note("new", "new"), columns: columns)
    }

    @Test("A set is the other side of the conflicts about rows and columns that it changed, and of no other")
    func changedRows() {
        var targets = ConflictTargets()
        targets.add([target(1, []), target(2, ["title"])], from: 2)
        targets.add([target(1, ["title"]), target(1, ["body"])], from: 0)
        var former = FormerItems()
        former.rows = [(row(1), note("old", "new")), (row(3), note("old", "old"))]
        #expect(targets.take(changedBy: former).sorted() == [0, 2])
        #expect(targets.take(changedBy: former).isEmpty, "each is found once")
        former.rows = [(row(1), nil)]
        #expect(targets.take(changedBy: former) == [1])
        #expect(!targets.isEmpty)
        former.rows = [(row(2), note("old", "old"))]
        #expect(targets.take(changedBy: former) == [3])
        #expect(targets.isEmpty)
    }
}
