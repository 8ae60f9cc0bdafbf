import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Restoring what a conflict lost", .timeLimit(.minutes(60)))
struct RestoringTests {
    private let fixture: SynchronizedStoreTests.Fixture
    private let laptop: DatabaseQueue
    private let phone: DatabaseQueue

    /// Two devices whose items are of the first of three lists.
    init() throws {
        fixture = try SynchronizedStoreTests.Fixture()
        (laptop, phone) = (try fixture.app("laptop"), try fixture.app("phone"))
        for app in [laptop, phone] {
            try app.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT);
                        CREATE TABLE item (
                            id INTEGER PRIMARY KEY, text TEXT, list INTEGER REFERENCES list ON DELETE SET NULL
                        );
                        CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL);
                        CREATE TABLE tagged (
                            tag TEXT NOT NULL REFERENCES tag ON DELETE CASCADE, text TEXT NOT NULL, PRIMARY KEY (tag, text)
                        );
                        """
                )
            }
        }
        try laptop.write {
            try $0.execute(
                sql: """
                    INSERT INTO list VALUES (1, 'a'), (2, 'b'), (3, 'c');
                    INSERT INTO item VALUES (1, 'x', 1);
                    INSERT INTO tag VALUES ('new');
                    """
            )
        }
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        _ = try fixture.open("phone").synchronized(with: sets)
    }

    /// Executes a statement on each device, and returns the number of the conflict that the phone has then.
    private func conflict(_ laptopEdit: String, _ phoneEdit: String) throws -> LoggedConflict {
        try laptop.write { try $0.execute(sql: laptopEdit) }
        try phone.write { try $0.execute(sql: phoneEdit) }
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        let store = try fixture.open("phone")
        _ = try store.synchronized(with: sets)
        return try #require(try store.conflicts().first)
    }

    private func expectRefusal(of entry: LoggedConflict, because reason: String) throws {
        let store = try fixture.open("phone")
        let error = #expect(throws: StoreChangesError.self) { try store.restore(entry.number) }
        #expect(error?.code == .cannotRestore && error?.message.contains(reason) == true, "\(error as Any)")
        #expect(try store.conflicts().first?.isRestored == false)
    }

    @Test(
        "A conflict isn't restored if an update of the app has removed its table or its column",
        arguments: [("DROP TABLE item", "can't hold such a row"), ("ALTER TABLE item DROP COLUMN text", "no column")]
    )
    func schemaChange(sql: String, reason: String) throws {
        let entry = try conflict("UPDATE item SET text = 'y'", "UPDATE item SET text = 'z'")
        #expect(entry.conflict.rule == .overwritten)
        try phone.write { try $0.execute(sql: sql) }
        _ = try fixture.open("phone").synchronized(with: [])
        try expectRefusal(of: entry, because: reason)
    }

    @Test("A reference isn't restored as NULL if its row is gone and another row has got its number")
    func referenceToRowThatIsGone() throws {
        let entry = try conflict("UPDATE item SET list = 2", "UPDATE item SET list = 3")
        #expect(entry.conflict.rule == .overwritten && entry.conflict.lost.keys.sorted() == ["list"])
        for edit in [
            "DELETE FROM list WHERE id > 1", "INSERT INTO list VALUES (2, 'd'), (3, 'e')", "UPDATE item SET list = 1",
        ] {
            try phone.write { try $0.execute(sql: edit) }
            _ = try fixture.open("phone").synchronized(with: [])
        }
        try expectRefusal(of: entry, because: "item.list")
        #expect(try phone.read { try Int.fetchAll($0, sql: "SELECT list FROM item") } == [1])
    }

    @Test("A deleted row isn't inserted again with NULL in place of a row that is gone")
    func deletedRow() throws {
        let entry = try conflict("UPDATE item SET text = 'y'", "DELETE FROM item; DELETE FROM list WHERE id = 1")
        #expect(entry.conflict.lost["list"] != nil)
        try phone.write { try $0.execute(sql: "INSERT INTO list VALUES (1, 'd')") }
        _ = try fixture.open("phone").synchronized(with: [])
        try expectRefusal(of: entry, because: "item.list")
        #expect(try phone.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM item") } == 0)
    }

    @Test("An edit of a deleted row isn't restored without a value that the table requires, and nothing is in its way")
    func requiredColumn() throws {
        for app in [laptop, phone] {
            try app.write {
                try $0.execute(sql: "CREATE TABLE page (id INTEGER PRIMARY KEY, title TEXT, body TEXT NOT NULL)")
            }
        }
        try laptop.write { try $0.execute(sql: "INSERT INTO page VALUES (1, 'x', 'text')") }
        let sets = try fixture.open("laptop").synchronized(with: []).captured
        _ = try fixture.open("phone").synchronized(with: sets)
        let entry = try conflict("DELETE FROM page", "UPDATE page SET title = 'y'")
        #expect(entry.conflict.rule == .editOfDeleted && entry.conflict.lost.keys.sorted() == ["title"])
        try expectRefusal(of: entry, because: "page.body may not be empty")
        let error = #expect(throws: StoreChangesError.self) { try fixture.open("phone").restore(entry.number) }
        #expect(error?.message.contains("in its way") == false)
    }

    @Test("A row that consists of its key is restored once the row is back to which it refers")
    func rowOfKey() throws {
        let entry = try conflict("DELETE FROM tag", "INSERT INTO tagged VALUES ('new', 'x')")
        #expect(entry.conflict.rule == .deletedWithParent && entry.conflict.lost.isEmpty && entry.conflict.hasLoss)
        try expectRefusal(of: entry, because: "FOREIGN KEY")
        try phone.write { try $0.execute(sql: "INSERT INTO tag VALUES ('new')") }
        let store = try fixture.open("phone")
        try store.restore(entry.number)
        #expect(try phone.read { try String.fetchAll($0, sql: "SELECT text FROM tagged") } == ["x"])
        #expect(try store.conflicts().first?.isRestored == true)
        let error = #expect(throws: StoreChangesError.self) { try store.restore(entry.number) }
        #expect(error?.code == .cannotRestore, "the row is there")
    }
}
