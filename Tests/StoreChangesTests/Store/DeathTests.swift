import Foundation
import GRDB
import TestSupport
import Testing

@testable import StoreChanges

/// At statements of a synchronization, a device's files are copied: a process that dies there leaves them so.
@Suite("Processes that die at a statement of SQLite", .timeLimit(.minutes(60)))
struct DeathTests {
    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE note (id INTEGER PRIMARY KEY, list INTEGER REFERENCES list ON DELETE CASCADE, title TEXT, body TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT);
        CREATE TABLE line (text TEXT);
        CREATE VIRTUAL TABLE note_text USING fts5 (title, content = 'note', content_rowid = 'id');
        CREATE TRIGGER note_inserted AFTER INSERT ON note BEGIN
            INSERT INTO note_text (rowid, title) VALUES (new.id, new.title);
        END;
        CREATE TRIGGER note_deleted AFTER DELETE ON note BEGIN
            INSERT INTO note_text (note_text, rowid, title) VALUES ('delete', old.id, old.title);
        END;
        CREATE TRIGGER note_updated AFTER UPDATE ON note BEGIN
            INSERT INTO note_text (note_text, rowid, title) VALUES ('delete', old.id, old.title);
            INSERT INTO note_text (rowid, title) VALUES (new.id, new.title);
        END;
        """

    /// What both devices have before they edit at once.
    private static let rows = """
        INSERT INTO list VALUES (1, 'home'), (2, 'work');
        INSERT INTO note VALUES (1, 1, 'milk', NULL), (2, 1, 'bread', NULL), (3, 2, 'desk', NULL), (4, 2, 'lamp', NULL);
        INSERT INTO tag VALUES ('red', '#f00'), ('blue', '#00f');
        INSERT INTO line VALUES ('a'), ('a'), ('b')
        """

    /// Edits that the laptop published: of rows that the phone edits too, and of others.
    private static let laptopEdits = """
        UPDATE note SET title = 'oat milk' WHERE id = 1;
        UPDATE note SET body = 'of wood' WHERE id = 3;
        DELETE FROM list WHERE name = 'work';
        INSERT INTO list VALUES (7, 'garden');
        INSERT INTO note VALUES (9, 7, 'roses', NULL);
        UPDATE tag SET color = '#d00' WHERE name = 'red';
        DELETE FROM line WHERE text = 'b'
        """

    private static let phoneEdits = """
        UPDATE note SET title = 'soy milk' WHERE id = 1;
        UPDATE note SET title = 'desk and chair' WHERE id = 3;
        DELETE FROM note WHERE id = 2;
        INSERT INTO list (name) VALUES ('garden');
        INSERT INTO note (list, title) SELECT id, 'tulips' FROM list WHERE name = 'garden';
        INSERT INTO tag VALUES ('green', '#0f0');
        INSERT INTO line VALUES ('a'), ('c')
        """

    /// A device in a folder of its own.
    private struct Device {
        let folder: URL
        let app: DatabaseQueue
        let store: SynchronizedStore

        init(in folder: URL, _ client: String) throws {
            self.folder = folder
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            app = try DatabaseQueue(path: folder.appending(path: "store.sqlite").path)
            store = try SynchronizedStore(
                storeAt: folder.appending(path: "store.sqlite"),
                replicaAt: folder.appending(path: "replica"),
                SynchronizedStore.Identity(document: "notes", client: ClientID(rawValue: client)),
                // Earlier than every file's time, so that a capture that is repeated has the same time.
                options: SynchronizedStore.Options(app: app, now: { Date(timeIntervalSince1970: 1_000_000_000) })
            )
        }

        func execute(_ sql: String) throws { try app.write { try $0.execute(sql: sql) } }

        /// The rows of the store, after a check that the database and its full-text index are intact.
        func rows() throws -> [String] {
            try app.write { db in
                #expect(try String.fetchOne(db, sql: "PRAGMA integrity_check") == "ok")
                #expect(try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").isEmpty)
                try db.execute(sql: "INSERT INTO note_text (note_text) VALUES ('integrity-check')")
                return try String.fetchAll(
                    db,
                    sql: """
                        SELECT 'list ' || id || name FROM list UNION ALL SELECT 'tag ' || name || color FROM tag
                        UNION ALL SELECT 'note ' || id || ifnull(list, '-') || title || ifnull(body, '-') FROM note
                        UNION ALL SELECT 'line ' || text FROM line ORDER BY 1
                        """
                )
            }
        }

        /// Calls `body` before every statement that is executed in the store or in the replica.
        func observe(_ body: @escaping () -> Void) {
            app.inDatabase { $0.trace { _ in body() } }
            store.replicaDatabase.inDatabase { $0.trace { _ in body() } }
        }
    }

    /// What a device has in the end.
    private struct Outcome: Equatable {
        let rows: [String]
        let state: StateContent
        let published: [Change]
        let conflicts: [Conflict]

        init(_ device: Device) throws {
            // What the synchronization wrote isn't the user's edit.
            #expect(try device.store.recordSet() == nil)
            rows = try device.rows()
            state = try device.store.content()
            published = try device.store.ownSets(1...UInt64.max).flatMap { try $0.decoded().changes }.sorted {
                ($0.table, $0.row) < ($1.table, $1.row)
            }
            conflicts = try device.store.conflicts().map(\.conflict)
        }
    }

    @Test(
        "F25: The next synchronization completes it, and captures nothing that the user didn't do",
        arguments: ["WAL", "DELETE"]
    )
    func deaths(mode: String) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "\(UUID())", directoryHint: .isDirectory)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, sets) = try devices(in: folder, mode)
        try phone.execute(Self.phoneEdits)
        // All of them take long, so quicker runs take a sample.
        let stride = TestDepth.choose(quick: 23, ci: 17, deep: 1)
        var (statements, deaths) = (0, [URL]())
        phone.observe {
            statements += 1
            guard statements % stride == 0 else { return }
            let copy = folder.appending(path: "death \(statements)", directoryHint: .isDirectory)
            do {
                try FileManager.default.copyItem(at: phone.folder, to: copy)
                // The shared memory of a write-ahead log ends with the last process.
                try? FileManager.default.removeItem(at: copy.appending(path: "store.sqlite-shm"))
                deaths.append(copy)
            } catch {
                Issue.record(error)
            }
        }
        _ = try phone.store.synchronize(with: sets)
        phone.observe {}
        let expected = try Outcome(phone)
        for title in ["roses", "tulips"] { #expect(expected.rows.contains { $0.contains(title) }, "\(expected)") }
        #expect(!expected.published.isEmpty && !expected.conflicts.isEmpty && deaths.count > 20)
        for copy in deaths {
            let restarted = try Device(in: copy, "phone")
            _ = try restarted.store.synchronize(with: sets)
            #expect(try Outcome(restarted) == expected, "\(copy.lastPathComponent) of \(statements) statements")
            try restarted.app.close()
            try FileManager.default.removeItem(at: copy)
        }
    }

    /// A phone that has what a laptop had, and the sets that the laptop published since.
    private func devices(in folder: URL, _ mode: String) throws -> (phone: Device, sets: [SyncChangeSet]) {
        let devices = try ["laptop", "phone"].map { name in
            let url = folder.appending(path: name, directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            let app = try DatabaseQueue(path: url.appending(path: "store.sqlite").path)
            try app.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
            try app.write { try $0.execute(sql: Self.schema) }
            try app.close()
            return try Device(in: url, name)
        }
        let (laptop, phone) = (devices[0], devices[1])
        try laptop.execute(Self.rows)
        let first = try #require(try laptop.store.recordSet())
        _ = try phone.store.synchronize(with: [first])
        try laptop.execute(Self.laptopEdits)
        let second = try #require(try laptop.store.recordSet())
        return (phone, [second])
    }
}
