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

    @Test("A row that two devices restore at once, or one after the other, is one row", arguments: [false, true])
    func severalDevices(atOnce: Bool) throws {
        try deletePages("DELETE FROM page")
        var sets = try restore("page", on: "phone")
        if !atOnce { try exchange(&sets) }
        sets += try restore("page", on: "laptop")
        try exchange(&sets)
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try pages(app) == ["1 oat 1"]) }
        // Restoring again on either device changes nothing.
        for device in ["phone", "laptop"] { sets += try restore("page", on: device) }
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try pages(app) == ["1 oat 1"]) }
        #expect(try fixture.open("phone").content() == fixture.open("laptop").content())
    }

    @Test("A row that gets all of its values again on two devices is one row, although it has the greatest number")
    func allValues() throws {
        try laptop.write { try $0.execute(sql: "INSERT INTO item VALUES (2, 'last', 1)") }
        var sets = try fixture.open("laptop").synchronized(with: []).captured
        try exchange(&sets)
        try laptop.write { try $0.execute(sql: "UPDATE item SET text = 'y', list = 2 WHERE id = 1") }
        sets = try fixture.open("laptop").synchronized(with: []).captured
        try phone.write { try $0.execute(sql: "UPDATE item SET text = 'z', list = 3 WHERE id = 1") }
        try exchange(&sets)
        // From now on, SQLite could give the row's number to a new row.
        try phone.write { try $0.execute(sql: "DELETE FROM item WHERE id = 2") }
        sets = try fixture.open("phone").synchronized(with: []).captured
        try exchange(&sets)
        sets = try restore("item", on: "phone") + restore("item", on: "laptop")
        // Other devices' edits of a row that were deleted would be conflicts.
        for change in sets.flatMap(\.changes) {
            guard case .update = change.edit else {
                Issue.record("\(change)")
                continue
            }
        }
        try exchange(&sets)
        for app in [laptop, phone] {
            let sql = "SELECT id || ' ' || text || ' ' || list FROM item"
            #expect(try app.read { try String.fetchAll($0, sql: sql) } == ["1 y 2"])
        }
        #expect(try fixture.open("phone").content() == fixture.open("laptop").content())
    }

    @Test("A restored row whose number is taken gets another number, and no device has it twice")
    func takenNumber() throws {
        try deletePages("DELETE FROM page")
        try phone.write { try $0.execute(sql: "INSERT INTO page VALUES (1, 'tea', 2)") }
        var sets = try restore("page", on: "phone") + restore("page", on: "laptop")
        try exchange(&sets)
        try exchange(&sets)
        #expect(try pages(phone) == ["1 tea 2", "2 oat 1"])
        #expect(try pages(laptop) == ["1 oat 1", "2 tea 2"])
        #expect(try fixture.open("phone").content() == fixture.open("laptop").content())
    }

    @Test("A row that was deleted with its parent is restored after the parent, which the refusal names, on any device")
    func children() throws {
        try deletePages("DELETE FROM book WHERE id = 1")
        let store = try fixture.open("phone")
        let book = try #require(try entry("book", in: store))
        let page = try #require(try entry("page", in: store))
        let error = #expect(throws: StoreChangesError.self) { try store.restore(page.number) }
        #expect(error?.code == .cannotRestore)
        #expect(error?.message.contains("Restore conflict \(book.number) first") == true, "\(error as Any)")
        // Another book gets the number, and the page isn't put into it.
        try phone.write { try $0.execute(sql: "INSERT INTO book VALUES (1, 'other')") }
        var sets = try fixture.open("phone").synchronized(with: []).captured
        #expect(throws: StoreChangesError.self) { try store.restore(page.number) }
        #expect(try pages(phone) == [])

        sets += try restore("book", on: "phone") + restore("page", on: "phone")
        #expect(try titles(phone) == ["1 new 'oat'"])
        try exchange(&sets)
        sets += try restore("page", on: "laptop")
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try titles(app) == ["1 new 'oat'"]) }
        #expect(try fixture.open("phone").content() == fixture.open("laptop").content())
    }

    @Test("A row whose parent another device has restored can be restored")
    func childElsewhere() throws {
        try deletePages("DELETE FROM book WHERE id = 1")
        var sets = try restore("book", on: "phone")
        try exchange(&sets)
        sets += try restore("page", on: "laptop")
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try titles(app) == ["1 new 'oat'"]) }
    }

    @Test("A row that was deleted again after it was restored can be restored again")
    func deletedAgain() throws {
        try deletePages("DELETE FROM page")
        var sets = try restore("page", on: "phone")
        try exchange(&sets)
        try phone.write { try $0.execute(sql: "DELETE FROM page") }
        sets += try restore("page", on: "phone")
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try pages(app) == ["1 oat 1"]) }
    }

    @Test("What the app writes before and after a row is restored is captured under its own names")
    func editsMeanwhile() throws {
        try deletePages("DELETE FROM page")
        let app = try fixture.app("phone")
        try app.write { try $0.execute(sql: "INSERT INTO page VALUES (5, 'before', 2)") }
        let store = try fixture.open("phone", through: app)
        let page = try #require(try entry("page", in: store))
        var sets = try store.sets(store.restore(page.number))
        try app.write { try $0.execute(sql: "INSERT INTO page VALUES (6, 'after', 2)") }
        sets += try restore("page", on: "laptop")
        try exchange(&sets)
        try exchange(&sets)
        for app in [laptop, phone] { #expect(try pages(app) == ["1 oat 1", "5 before 2", "6 after 2"]) }
        #expect(try fixture.open("phone").content() == fixture.open("laptop").content())
    }

    @Test("A row that refers to itself does so again when it's restored with another number")
    func referenceToItself() throws {
        let devices = try DevicePair(
            "CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT, parent INTEGER REFERENCES folder)"
        )
        try devices.laptop.edit("INSERT INTO folder VALUES (1, 'home', 1)")
        try devices.exchange()
        try devices.phone.edit("UPDATE folder SET name = 'flat'")
        try devices.phone.capture(at: 10)
        try devices.laptop.edit("DELETE FROM folder")
        try devices.laptop.capture(at: 20)
        try devices.laptop.integrate(devices.phone.sets)
        try devices.phone.integrate(devices.laptop.sets)
        for device in [devices.laptop, devices.phone] { try device.write() }
        try devices.laptop.edit("INSERT INTO folder VALUES (1, 'new', NULL)")
        let entry = try #require(try devices.laptop.loggedConflicts().first)
        #expect(try devices.laptop.restore(entry.number, at: 30))
        try devices.phone.integrate(devices.laptop.sets)
        try devices.phone.write()
        for device in [devices.laptop, devices.phone] {
            #expect(
                try device.rows(
                    "SELECT f.name, p.name FROM folder f LEFT JOIN folder p ON p.id = f.parent ORDER BY f.name"
                )
                    == [#""flat"|"flat""#, #""new"|NULL"#]
            )
        }
    }

    @Test(
        "A reference that only the document's rules name isn't restored if its row is gone",
        arguments: [["id", "kind"], ["code", "kind"]]
    )
    func referenceOfRules(parentColumns: [String]) throws {
        let devices = try DevicePair(
            """
            CREATE TABLE folder (id INTEGER PRIMARY KEY, code TEXT, kind TEXT, UNIQUE (id, kind), UNIQUE (code, kind));
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, folder, kind TEXT);
            """,
            rules: SyncRules(
                references: [
                    .init(table: "note", columns: ["folder", "kind"], parent: "folder", parentColumns: parentColumns)
                ]
            )
        )
        let (laptop, phone) = (devices.laptop, devices.phone)
        let column = parentColumns[0]
        try laptop.edit("INSERT INTO folder VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')")
        try laptop.edit("INSERT INTO note SELECT 1, 'filed', \(column), kind FROM folder WHERE id = 2")
        try devices.exchange()
        for (device, folder) in [(laptop, 1), (phone, 3)] {
            try device.edit(
                "UPDATE note SET (folder, kind) = (SELECT \(column), kind FROM folder WHERE id = \(folder))"
            )
            try device.capture(at: UInt64(folder))
        }
        let expected = try phone.rows("SELECT * FROM note")
        try laptop.integrate(phone.sets)
        try laptop.write()
        #expect(try laptop.rows("SELECT * FROM note") == expected)
        try laptop.edit("DELETE FROM folder WHERE id = 1")
        let entry = try #require(try laptop.loggedConflicts().first)
        #expect(try !laptop.restore(entry.number))
        #expect(try laptop.rows("SELECT * FROM note") == expected)
        try laptop.edit("INSERT INTO folder VALUES (1, 'a', 'x')")
        #expect(try laptop.restore(entry.number) == (column == "code"))
    }

    @Test("Nothing is restored while edits are missing on which other devices have built: it would be a new row")
    func missingSets() throws {
        let devices = try DevicePair("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let (laptop, phone) = (devices.laptop, devices.phone)
        let tablet = try SimulatedDevice("tablet", schemaSQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        try phone.edit("INSERT INTO note VALUES (1, 'milk')")
        try phone.capture(at: 1)
        try laptop.integrate(phone.sets)
        try laptop.write()
        try phone.edit("UPDATE note SET title = 'oat milk'")
        try phone.capture(at: 10)
        try laptop.edit("DELETE FROM note")
        try laptop.capture(at: 20)
        try laptop.integrate(phone.sets)
        try laptop.write()
        try tablet.integrate(phone.sets + laptop.sets)
        try tablet.write()
        try tablet.edit("INSERT INTO note VALUES (2, 'tea')")
        let missing = try #require(try tablet.capture(at: 30))
        var head = try tablet.publishHead()
        head.stable = StablePrefix(missing.header.position, try tablet.integratedSets())
        try laptop.learn(heads: [head], removals: [:])
        let entry = try #require(try laptop.loggedConflicts().first)
        #expect(throws: MissingSets.self) { try laptop.restore(entry.number, at: 40) }
        #expect(try laptop.rows("SELECT title FROM note").isEmpty)
        #expect(try laptop.loggedConflicts().first?.isRestored == false)

        try laptop.learn([missing], removals: [:])
        try laptop.write()
        #expect(try laptop.restore(entry.number, at: 50))
        #expect(try laptop.rows("SELECT title FROM note ORDER BY title") == [#""oat milk""#, #""tea""#])
    }

    @Test("A row without a key isn't restored twice on a device that still has it")
    func countedRow() throws {
        for app in [laptop, phone] {
            try app.write {
                try $0.execute(
                    sql: "CREATE TABLE visit (tag TEXT REFERENCES tag ON DELETE CASCADE, text TEXT)"
                )
            }
        }
        let entry = try conflict("DELETE FROM tag", "INSERT INTO visit VALUES ('new', 'x')")
        #expect(entry.conflict.rule == .deletedWithParent)
        try phone.write { try $0.execute(sql: "INSERT INTO tag VALUES ('new')") }
        let store = try fixture.open("phone")
        try store.restore(entry.number)
        let error = #expect(throws: StoreChangesError.self) { try store.restore(entry.number) }
        #expect(error?.message.contains("restored already") == true, "\(error as Any)")
        #expect(try phone.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM visit") } == 1)
        try phone.write { try $0.execute(sql: "DELETE FROM visit") }
        try store.restore(entry.number)
        #expect(try phone.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM visit") } == 1)
    }

    // MARK: Pages of books

    /// Lets the laptop change a book and its page while the phone deletes, so that both have entries of what is deleted.
    private func deletePages(_ phoneEdit: String) throws {
        for app in [laptop, phone] {
            try app.write {
                try $0.execute(
                    sql: """
                        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
                        CREATE TABLE page (
                            id INTEGER PRIMARY KEY, text TEXT, book INTEGER REFERENCES book ON DELETE CASCADE
                        );
                        """
                )
            }
        }
        try laptop.write {
            try $0.execute(sql: "INSERT INTO book VALUES (1, 'old'), (2, 'b'); INSERT INTO page VALUES (1, 'milk', 1)")
        }
        var sets = try fixture.open("laptop").synchronized(with: []).captured
        try exchange(&sets)
        try laptop.write {
            try $0.execute(sql: "UPDATE book SET title = 'new' WHERE id = 1; UPDATE page SET text = 'oat'")
        }
        sets = try fixture.open("laptop").synchronized(with: []).captured
        try phone.write { try $0.execute(sql: phoneEdit) }
        try exchange(&sets)
        #expect(try pages(laptop) == [] && pages(phone) == [])
    }

    /// Gives both devices sets of either, and what both have captured then is exchanged next.
    private func exchange(_ sets: inout [SyncChangeSet]) throws {
        for device in ["phone", "laptop", "phone"] {
            let others = sets.filter { $0.header.id.client.rawValue != device }
            sets += try fixture.open(device).synchronized(with: others).captured
        }
        sets = []
    }

    /// The entry of a table with the most of a row.
    private func entry(_ table: String, in store: SynchronizedStore) throws -> LoggedConflict? {
        try store.conflicts().filter { $0.conflict.row.table == table && $0.conflict.hasLoss }
            .max { $0.conflict.lost.count < $1.conflict.lost.count }
    }

    /// Restores the entry of a table, and returns what was captured.
    private func restore(_ table: String, on device: String) throws -> [SyncChangeSet] {
        let store = try fixture.open(device)
        let entry = try #require(try entry(table, in: store))
        return try store.sets(store.restore(entry.number))
    }

    private func pages(_ app: DatabaseQueue) throws -> [String] {
        try app.read {
            try String.fetchAll($0, sql: "SELECT id || ' ' || text || ' ' || book FROM page ORDER BY id")
        }
    }

    /// The pages with the titles of their books.
    private func titles(_ app: DatabaseQueue) throws -> [String] {
        try app.read {
            try String.fetchAll(
                $0,
                sql: "SELECT page.id || ' ' || title || ' ' || quote(text) FROM page JOIN book ON book.id = book"
            )
        }
    }
}
