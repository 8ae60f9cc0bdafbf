import GRDB
import Testing

@testable import StoreChanges

@Suite("What a store's triggers may write")
struct StoreTriggersTests {
    /// The triggers of a store in which an edited note reaches a table by another trigger, by a view, and by a cycle.
    private func triggers() throws -> StoreTriggers {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE Note (id INTEGER PRIMARY KEY, title TEXT);
                    CREATE TABLE folder (id INTEGER PRIMARY KEY, count INT);
                    CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE history (text);
                    CREATE TABLE total (count INT);
                    CREATE TABLE badge (count INT);
                    CREATE VIEW recent AS SELECT title FROM note;
                    CREATE TRIGGER noted AFTER INSERT ON Note BEGIN UPDATE "Folder" SET count = count + 1; END;
                    CREATE TRIGGER counted AFTER UPDATE ON folder BEGIN INSERT INTO recent VALUES ('x'); END;
                    CREATE TRIGGER shown INSTEAD OF INSERT ON recent BEGIN
                        INSERT INTO history VALUES (new.title);
                        DELETE FROM note WHERE false;
                    END;
                    CREATE TRIGGER tagged AFTER INSERT ON tag BEGIN UPDATE total SET count = count + 1; END;
                    CREATE TEMP TRIGGER observed AFTER INSERT ON history BEGIN UPDATE [badge] SET count = 1; END;
                    """
            )
            return try StoreTriggers(of: SQLConnection(db))
        }
    }

    private let tables: Set<String> = ["note", "folder", "tag", "recent", "history", "total", "badge"]

    @Test("A written table reaches what its triggers name, and what the triggers of these tables and views name")
    func reachable() throws {
        let triggers = try triggers()
        #expect(
            triggers.names(after: ["note"]).intersection(tables) == ["folder", "recent", "history", "note", "badge"]
        )
        #expect(triggers.names(after: ["HISTORY", "tag"]).intersection(tables) == ["badge", "total"])
    }

    @Test("A table without triggers reaches nothing, whatever the triggers of other tables name")
    func unreachable() throws {
        let triggers = try triggers()
        #expect(triggers.names(after: ["badge", "total"]).isEmpty && triggers.names(after: []).isEmpty)
        #expect(!triggers.exist(on: "badge") && triggers.exist(on: "NOTE"))
        #expect(triggers.names.intersection(tables) == tables.subtracting(["tag"]))
    }
}
