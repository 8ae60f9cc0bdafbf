import ContentDigests
import FileSupport
import Foundation
import GRDB
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The replacement of a local store", .timeLimit(.minutes(60)))
struct StoreReplacementTests {
    private let fixture: Fixture
    private let url: URL
    private let old = Set((0..<800).map { "old \($0)" })
    private let new = Set((0..<900).map { "new \($0)" })

    init() throws {
        fixture = try Fixture(isVolatile: false)
        url = fixture.folder.appending(path: "store.sqlite")
    }

    /// Creates a download next to the store, as a pull does.
    private func download() throws -> URL {
        let download = StoreReplacement.temporaryURL(for: try LocalStore(url))
        let source = fixture.folder.appending(path: "source-\(UUID().uuidString)")
        try Store.write(new.sorted(), to: source)
        _ = try StoreSnapshot.take(of: LocalStore(source), at: download)
        return download
    }

    private func root() throws -> ContentRoot {
        let copy = fixture.folder.appending(path: UUID().uuidString)
        return try StoreSnapshot.take(of: LocalStore(url), at: copy).contentRoot
    }

    private func replace(
        _ expectation: StoreReplacement.Expectation,
        mode: WholeStoreDownloadRequest.Replacement = .file,
        faultPoint: @escaping @Sendable (String) throws -> Void = { _ in }
    ) throws {
        try StoreReplacement.replace(
            LocalStore(url, steps: StepObserver(faultPoint)),
            with: download(),
            expecting: expectation,
            mode: mode
        )
    }

    private func code(_ expectation: StoreReplacement.Expectation, mode: WholeStoreDownloadRequest.Replacement = .file)
        -> StoreSyncError.Code?
    {
        do {
            try replace(expectation, mode: mode)
            return nil
        } catch {
            return (error as? StoreSyncError)?.code
        }
    }

    @Test("A replacement keeps the extended attributes of the store")
    func attributes() throws {
        try Store.write(old.sorted(), to: url)
        // Not every file system has them.
        guard FileAttributes.set("user.tag", to: [1, 2], url.path) else { return }
        try replace(.anything)
        #expect(FileAttributes.value("user.tag", url.path) == [1, 2])
    }

    @Test(
        "A link in place of a download changes neither the owner nor the permissions of another file",
        arguments: [true, false]
    )
    func links(isSymbolic: Bool) throws {
        let other = fixture.folder.appending(path: "other")
        for exists in [false, true] {
            #expect(FileManager.default.createFile(atPath: other.path, contents: Data("other".utf8)))
            chmod(other.path, 0o600)
            if exists {
                try Store.write(old.sorted(), to: url)
                chmod(url.path, 0o666)
            }
            let download = try download()
            unlink(download.path)
            #expect((isSymbolic ? symlink : link)(other.path, download.path) == 0)
            let error = #expect(throws: StoreSyncError.self) {
                try StoreReplacement.replace(LocalStore(url), with: download, expecting: .anything)
            }
            #expect(error?.code == .cannotWrite)
            #expect(try mode(of: other) == 0o600)
            #expect(FileManager.default.fileExists(atPath: url.path) == exists)
        }
    }

    @Test("The header of a database isn't changed through a link", arguments: [true, false])
    func linkedHeader(isSymbolic: Bool) throws {
        try Store.write(old.sorted(), to: url)
        let before = try Data(contentsOf: url)
        let download = fixture.folder.appending(path: "download")
        #expect((isSymbolic ? symlink : link)(url.path, download.path) == 0)
        let error = #expect(throws: StoreSyncError.self) { try SQLiteHeader.setUsesLog(true, in: download) }
        #expect(error?.code == .cannotWrite)
        #expect(try Data(contentsOf: url) == before)
    }

    private func mode() throws -> Int? { try mode(of: url) }

    private func mode(of url: URL) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions] as? Int
    }

    private var sideFiles: [String] {
        get throws { try LocalStore(url).sideFiles }
    }

    /// Runs a script in another process and kills it, which leaves the store as a crash would.
    private func leave(_ script: String) async throws {
        let writer = try PythonProcess(
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            \(script)
            print("ready")
            sys.stdin.read()
            """,
            [url.path]
        )
        #expect(try await writer.line() == "ready")
        try await writer.kill9()
    }

    @Test("A closed store is replaced, keeps its permissions, and leaves no other file behind")
    func closed() throws {
        try Store.write(old.sorted(), to: url)
        chmod(url.path, 0o640)
        try replace(.unchanged(acceptable: [root()]))
        #expect(try Store.notes(in: url) == new)
        #expect(try mode() == 0o640)
        #expect(try sideFiles.isEmpty)
    }

    @Test("A new store gets the umask's permissions, and a store that appeared meanwhile isn't replaced")
    func absent() throws {
        try replace(.absent)
        #expect(try Store.notes(in: url) == new)
        #expect(try mode() == 0o644)
        #expect(code(.absent) == .localChanges)
    }

    @Test("A pull says to try again if another pull creates its store meanwhile, since no edits may be at risk")
    func createdMeanwhile() throws {
        let error = #expect(throws: StoreSyncError.self) {
            try replace(.absent) { [url, new] in
                if $0 == "before the rename" { try Store.write(new.sorted(), to: url) }
            }
        }
        #expect(error?.code == .localChanges)
        #expect(error?.message.contains("Try again: that tells whether edits") == true, "\(error as Any)")
    }

    @Test("A dead process's log with pages that were never checkpointed is compared, and removed by the replacement")
    func deadWriterWithLog() async throws {
        try Store.write(old.sorted(), to: url)
        let before = try root()
        try await leave("db.execute('PRAGMA journal_mode = WAL'); db.execute(\"INSERT INTO note VALUES ('precious')\")")
        #expect(try !sideFiles.isEmpty)
        #expect(code(.unchanged(acceptable: [before])) == .localChanges)
        #expect(try Store.notes(in: url) == old.union(["precious"]), "a row was lost")
        try await leave("db.execute('PRAGMA journal_mode = WAL'); db.execute(\"INSERT INTO note VALUES ('second')\")")
        try replace(.anything)
        #expect(try Store.notes(in: url) == new)
        #expect(try sideFiles.isEmpty)
    }

    @Test("The hot journal of a killed writer is rolled back, never mixed with the new store")
    func hotJournal() async throws {
        try Store.write(old.sorted(), to: url)
        let before = try root()
        let spill = "db.execute('PRAGMA cache_size = 1'); db.execute('PRAGMA journal_mode = DELETE'); "
        try await leave(spill + "db.execute('BEGIN IMMEDIATE'); db.execute(\"UPDATE note SET text = 'half ' || text\")")
        #expect(FileManager.default.fileExists(atPath: url.path + "-journal"))
        try replace(.unchanged(acceptable: [before]))
        #expect(try Store.notes(in: url) == new)
        #expect(try sideFiles.isEmpty)
    }

    @Test(
        "A store that another process has open in WAL mode, or writes to, is busy and remains unchanged",
        arguments: ["wal", "delete"]
    )
    func openElsewhere(journalMode: String) async throws {
        try Store.write(old.sorted(), to: url)
        let before = try root()
        let other = try PythonProcess(
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("PRAGMA journal_mode = \(journalMode)")
            \(journalMode == "delete" ? "db.execute('BEGIN IMMEDIATE')" : "")
            db.execute("SELECT count(*) FROM note").fetchone()
            print("ready")
            sys.stdin.readline()
            print(db.execute("SELECT count(*) FROM note").fetchone()[0])
            """,
            [url.path]
        )
        #expect(try await other.line() == "ready")
        let refused = try await runBlocking { code(.unchanged(acceptable: [before])) }
        #expect(refused == .busy)
        try other.send()
        #expect(try await other.line() == "800")
        try await other.kill9()
        try replace(.anything)
        #expect(try Store.notes(in: url) == new)
    }

    @Test("A store that another program keeps open is written into, in one transaction")
    func writtenInto() async throws {
        try Store.write(old.sorted(), to: url)
        let before = try root()
        let reader = try PythonProcess(
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("PRAGMA journal_mode = WAL")
            count = lambda: print(db.execute("SELECT count(*) FROM note").fetchone()[0])
            db.execute("BEGIN"); count()
            sys.stdin.readline(); count(); db.execute("COMMIT"); count()
            sys.stdin.read()
            """,
            [url.path]
        )
        #expect(try await reader.line() == "800")
        try await runBlocking { try replace(.unchanged(acceptable: [before]), mode: .transaction) }
        try reader.send()
        #expect(try await reader.line() == "800", "a reader's transaction sees one state")
        #expect(try await reader.line() == "900")
        try await reader.kill9()
        #expect(try Store.notes(in: url) == new)
        try Store.write(["later"], to: url)
        #expect(code(.unchanged(acceptable: [before]), mode: .transaction) == .localChanges)
        #expect(try Store.notes(in: url) == new.union(["later"]))
    }

    @Test("A connection that knows the old tables reads the new ones", arguments: ["wal", "delete"])
    func cachedSchema(journalMode: String) throws {
        try Store.write(old.sorted(), to: url)
        let queue = try DatabaseQueue(path: url.path)
        let notes: (Database) throws -> Set<String> = { db in
            try String.fetchSet(db.cachedStatement(sql: "SELECT text FROM note"))
        }
        _ = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode = \(journalMode)") }
        #expect(try queue.inDatabase(notes) == old)
        let source = fixture.folder.appending(path: "source")
        try DatabaseQueue(path: source.path).inDatabase { db in
            try db.execute(sql: "CREATE TABLE note (other TEXT DEFAULT 'other', text TEXT NOT NULL)")
            for note in new { try db.execute(sql: "INSERT INTO note (text) VALUES (?)", arguments: [note]) }
        }
        // All snapshots have the same counters. Only SQLite raises the counters of the store that is written into.
        let download = StoreReplacement.temporaryURL(for: try LocalStore(url))
        _ = try StoreSnapshot.take(of: LocalStore(source), at: download)
        try StoreReplacement.replace(LocalStore(url), with: download, expecting: .anything, mode: .transaction)
        #expect(try queue.inDatabase(notes) == new)
        #expect(try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
    }

    @Test("One changed row is reported, and the store keeps it and its journal mode", arguments: ["wal", "delete"])
    func changed(journalMode: String) throws {
        try Store.write(old.sorted(), to: url)
        let queue = try DatabaseQueue(path: url.path)
        _ = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode = \(journalMode)") }
        try queue.close()
        let before = try root()
        try Store.write(["precious"], to: url)
        #expect(code(.unchanged(acceptable: [before])) == .localChanges)
        #expect(try Store.notes(in: url) == old.union(["precious"]))
        let reopened = try DatabaseQueue(path: url.path)
        #expect(try reopened.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == journalMode)
    }

    @Test("Side files without a store are reported, since SQLite would take them for the new store's")
    func orphans() throws {
        try (SQLiteStart.log + Data(count: 100)).write(to: URL(fileURLWithPath: url.path + "-wal"))
        #expect(code(.absent) == .localChanges)
        try replace(.anything)
        #expect(try Store.notes(in: url) == new)
    }

    @Test("A damaged store that another program has open is busy, and is replaced once it's closed")
    func damagedAndOpen() throws {
        try Store.write(old.sorted(), to: url)
        let program = try SQLProgram(opening: url, mode: "WAL")
        try program.sql("INSERT INTO note VALUES ('another')")
        try program.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        try program.sql("BEGIN IMMEDIATE")
        var damaged = try Data(contentsOf: url)
        damaged.replaceSubrange(100..<4096, with: Data(repeating: 7, count: 3996))
        let file = try FileHandle(forWritingTo: url)
        try file.write(contentsOf: damaged)
        try file.close()
        #expect(code(.anything) == .busy)
        #expect(code(.anything, mode: .transaction) == .corrupt)
        #expect(try Data(contentsOf: url) == damaged)
        #expect(try sideFiles.count == 2)
        program.kill()
        #expect(code(.anything, mode: .transaction) == .corrupt)
        try replace(.anything)
        #expect(try Store.notes(in: url) == new)
        #expect(try sideFiles.isEmpty)
    }

    @Test("A store that isn't SQLite's is compared and replaced as a file")
    func otherFile() throws {
        try Data("old".utf8).write(to: url)
        let before = try root()
        try Data("changed".utf8).write(to: url)
        #expect(code(.unchanged(acceptable: [before])) == .localChanges)
        try replace(.unchanged(acceptable: [root()]))
        #expect(try Store.notes(in: url) == new)
    }

    @Test("Downloads that a dead process left behind are removed, and nothing else")
    func leftovers() throws {
        try Store.write(["one"], to: url)
        let store = try LocalStore(url)
        let leftover = StoreReplacement.temporaryURL(for: store)
        let bystander = fixture.folder.appending(path: ".other.sqlite.storesync-1")
        for file in [leftover, bystander] { try Data().write(to: file) }
        StoreReplacement.removeLeftovers(nextTo: store.url)
        #expect(!FileManager.default.fileExists(atPath: leftover.path))
        #expect(FileManager.default.fileExists(atPath: bystander.path))
    }
}
