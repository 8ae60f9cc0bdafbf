import Foundation
import GRDB
import Testing

@testable import StoreChanges

@Suite("Updates of an app that rename what the document's rules name", .timeLimit(.minutes(60)))
struct RenamingCheckTests {
    private let fixture: SynchronizedStoreTests.Fixture
    private let app: DatabaseQueue
    private let identity = SynchronizedStore.Identity(
        document: "notes",
        client: ClientID(rawValue: "laptop"),
        rules: SyncRules(
            excludedTables: ["History"],
            references: [SyncRules.Reference(table: "item", columns: ["par"], parent: "item")],
            meaningfulKeys: ["settings"],
            uniques: [SyncRules.Unique(table: "item", columns: ["list", "rank"], kind: .identity)]
        )
    )

    init() throws {
        fixture = try SynchronizedStoreTests.Fixture()
        app = try fixture.app("laptop")
        try app.execute(
            """
            CREATE TABLE history (url TEXT);
            CREATE TABLE settings (id INTEGER PRIMARY KEY, theme TEXT);
            CREATE TABLE item (
                id INTEGER PRIMARY KEY, par INTEGER, list INTEGER REFERENCES item, rank INTEGER, UNIQUE (list, rank)
            );
            INSERT INTO settings VALUES (1, 'dark');
            INSERT INTO item VALUES (1, NULL, NULL, 1);
            """
        )
    }

    private var replica: URL { fixture.folder.appending(path: "laptop.replica") }

    private func open() throws -> SynchronizedStore {
        try SynchronizedStore(storeAt: fixture.storeURL("laptop"), replicaAt: replica, identity)
    }

    private func expectRefusal(_ named: String, _ successor: String) {
        let error = #expect(throws: StoreChangesError.self) { _ = try open() }
        #expect(error?.code == .invalidRules, "\(error as Any)")
        #expect(error?.message.contains("name the \(named), ") == true, "\(error as Any)")
        #expect(error?.message.contains(": the \(successor)") == true, "\(error as Any)")
    }

    /// A renaming, and what takes it back.
    struct Renaming: Sendable {
        var update: String
        var back: String
        var named: String
        var successor: String
    }

    @Test(
        "A renamed table or column that the rules name stops the synchronization until it has its former name again",
        arguments: [
            Renaming(
                update: "ALTER TABLE history RENAME TO visits; INSERT INTO visits VALUES ('private')",
                back: "ALTER TABLE visits RENAME TO history",
                named: "table History",
                successor: "table visits"
            ),
            Renaming(
                update: "ALTER TABLE settings RENAME TO prefs",
                back: "ALTER TABLE prefs RENAME TO settings",
                named: "table settings",
                successor: "table prefs"
            ),
            Renaming(
                update: "ALTER TABLE item RENAME TO thing",
                back: "ALTER TABLE thing RENAME TO item",
                named: "table item",
                successor: "table thing"
            ),
            Renaming(
                update: "ALTER TABLE item RENAME COLUMN par TO parent",
                back: "ALTER TABLE item RENAME COLUMN parent TO par",
                named: "column par of item",
                successor: "column parent"
            ),
            Renaming(
                update: "ALTER TABLE item RENAME COLUMN rank TO position",
                back: "ALTER TABLE item RENAME COLUMN position TO rank",
                named: "column rank of item",
                successor: "column position"
            ),
        ]
    )
    func renamed(_ renaming: Renaming) throws {
        _ = try open().synchronized(with: [])
        try app.execute(renaming.update)
        for _ in 1...2 { expectRefusal(renaming.named, renaming.successor) }
        try app.execute(renaming.back)
        #expect(try open().synchronized(with: []).captured.isEmpty)
    }

    @Test(
        "What the rules name may be removed, and a later table of the same columns isn't taken for it",
        arguments: [
            "DROP TABLE history",
            "DROP TABLE history; CREATE TABLE visits (url TEXT, at TEXT)",
            "DROP TABLE history; CREATE VIEW visits AS SELECT theme AS url FROM settings",
            "ALTER TABLE history RENAME TO grdb_history",
            "ALTER TABLE item DROP COLUMN par",
            "ALTER TABLE item ADD COLUMN parent INTEGER REFERENCES item; ALTER TABLE item DROP COLUMN par",
        ]
    )
    func removed(update: String) throws {
        _ = try open().synchronized(with: [])
        try app.execute(update)
        _ = try open().synchronized(with: [])
        try app.execute("CREATE TABLE page (url TEXT); INSERT INTO page VALUES ('public')")
        #expect(try open().synchronized(with: []).captured.flatMap(\.changes).map(\.table) == ["page"])
    }

    @Test("A replica that doesn't remember the names of its store yet begins with the present ones")
    func formerReplica() throws {
        _ = try open().synchronized(with: [])
        let database = try DatabaseQueue(path: replica.path)
        try database.execute("DELETE FROM facts WHERE name = 'names'")
        try database.close()
        #expect(try open().synchronized(with: []).captured.isEmpty)
        try app.execute("ALTER TABLE history RENAME TO visits")
        expectRefusal("table History", "table visits")
    }

    @Test("A device whose app has renamed a table before it begins with an older store is stopped, too")
    func renamedBeforeJoining() throws {
        let copy = fixture.folder.appending(path: "beginning.sqlite")
        try FileManager.default.copyItem(at: fixture.storeURL("laptop"), to: copy)
        try app.execute("ALTER TABLE history RENAME TO visits")
        try SynchronizedStore.createReplica(at: replica, from: SynchronizedStore.Beginning(store: copy), identity)
        expectRefusal("table History", "table visits")
    }
}
