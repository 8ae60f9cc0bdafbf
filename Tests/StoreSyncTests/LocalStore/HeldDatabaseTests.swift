import Foundation
import GRDB
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A database that is held still while it's read", .timeLimit(.minutes(30)))
struct HeldDatabaseTests {
    private let store: TestStore
    private let local: LocalStore

    init() throws {
        store = try TestStore()
        local = try LocalStore(store.url)
    }

    private func bytes(of held: HeldDatabase, pieces: Int = 100_000) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let piece = try held.read(at: Int64(bytes.count), upTo: pieces)
            guard !piece.isEmpty else { return bytes }
            bytes += piece
        }
    }

    private func snapshot(of local: LocalStore? = nil) throws -> [UInt8] {
        let copy = store.file("copy-\(UUID().uuidString)")
        return try Array(Data(contentsOf: StoreSnapshot.take(of: local ?? self.local, at: copy).url))
    }

    @Test(
        "gives the bytes that a snapshot has",
        arguments: [512, 4096, 65536],
        ["NONE wal", "FULL wal", "INCREMENTAL wal", "NONE delete", "FULL persist", "INCREMENTAL truncate"]
    )
    func equalsSnapshot(pageSize: Int, modes: String) throws {
        let modes = modes.split(separator: " ")
        let queue = try DatabaseQueue(path: store.url.path)
        try queue.inDatabase { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = \(pageSize); PRAGMA auto_vacuum = \(modes[0]); PRAGMA journal_mode = \(modes[1]);
                    """
            )
            try db.execute(sql: "CREATE TABLE note (text TEXT NOT NULL); CREATE INDEX byText ON note (text)")
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
                    INSERT INTO note SELECT hex(randomblob(200)) || i FROM n;
                    DELETE FROM note WHERE rowid % 3 = 0;
                    """
            )
        }
        let expected = try snapshot()
        // Whether somebody has it open, with all of that in the log, or nobody.
        for _ in 0..<2 {
            let held = try #require(HeldDatabase(local))
            #expect(held.byteCount == Int64(expected.count) && held.byteCount > 100_000)
            let read = try bytes(of: held)
            #expect(read == expected)
            try held.release()
            try queue.close()
        }
    }

    @Test("writers go on, nobody changes what is read, and the log is copied into the file afterwards")
    func writersGoOn() throws {
        try store.make("before", in: .closedInWALMode)
        let expected = try snapshot()
        let held = try #require(HeldDatabase(local))
        let start = try held.read(at: 0, upTo: 8192)
        let writer = try DatabaseQueue(path: store.url.path)
        defer { try? writer.close() }
        try writer.inDatabase { db in
            for round in 0..<3 {
                try db.execute(sql: "UPDATE item SET value = 'after \(round)'")
                try? db.execute(sql: "PRAGMA wal_checkpoint(\(round == 2 ? "TRUNCATE" : "PASSIVE"))")
            }
        }
        let rest = try bytes(of: held).dropFirst(8192)
        #expect(start + rest == expected)
        try held.release()
        #expect(try store.content() == "after 2")
        let next = try #require(HeldDatabase(local))
        let later = try bytes(of: next)
        #expect(later != expected)
        try next.release()
    }

    @Test("while another process writes and copies its log into the file throughout, it is one consistent state")
    func besideWriter() async throws {
        let writer = try PythonProcess(
            """
            import os, sqlite3, sys
            parent = os.getppid()
            db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA wal_autocheckpoint = 20")
            db.execute("CREATE TABLE a (x INTEGER)")
            db.execute("CREATE TABLE b (x INTEGER, pad TEXT)")
            print("ready")
            x = 0
            while os.getppid() == parent:
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO a VALUES (?)", (x,))
                db.execute("INSERT INTO b VALUES (?, hex(randomblob(300)))", (-x,))
                for table in "ab":
                    db.execute(f"DELETE FROM {table} WHERE rowid <= ?", (x - 2000,))
                db.execute("COMMIT")
                x += 1
            """,
            [store.url.path]
        )
        #expect(try await writer.line() == "ready")
        var newest: [Int] = []
        while newest.count < 20 || newest.last == newest.first {
            let copy = store.file("held")
            let read = try await runBlocking { () -> Bool in
                guard let held = HeldDatabase(local) else { return false }
                try Data(try bytes(of: held, pieces: 4096)).write(to: copy)
                try held.release()
                return true
            }
            guard read else { continue }
            let queue = try DatabaseQueue(path: copy.path)
            let (verdict, sum, last) = try await queue.read { db in
                (
                    try String.fetchOne(db, sql: "PRAGMA integrity_check"),
                    try Int.fetchOne(db, sql: "SELECT coalesce((SELECT sum(x) FROM a) + (SELECT sum(x) FROM b), 0)"),
                    try Int.fetchOne(db, sql: "SELECT max(x) FROM a") ?? -1
                )
            }
            try queue.close()
            #expect(verdict == "ok" && sum == 0)
            newest.append(last)
        }
        try await writer.kill9()
        #expect(newest == newest.sorted())
    }

    @Test("without a log writers wait meanwhile, and what one left that died is taken back first")
    func withoutLog() throws {
        try store.make("before", in: .killedInTransaction)
        let held = try #require(HeldDatabase(local))
        let writer = try DatabaseQueue(path: store.url.path)
        defer { try? writer.close() }
        #expect {
            try writer.inDatabase { try $0.execute(sql: "UPDATE item SET value = 'after'") }
        } throws: {
            ($0 as? DatabaseError)?.resultCode == .SQLITE_BUSY
        }
        let read = try bytes(of: held)
        try held.release()
        let expected = try snapshot()
        #expect(read == expected)
        #expect(try store.content() == "before")
        try writer.inDatabase { try $0.execute(sql: "UPDATE item SET value = 'after'") }
        #expect(try store.content() == "after")
    }

    @Test("a database that is being written to, one whose log is being read, and what isn't a database can't be held")
    func cannotBeHeld() throws {
        try store.make("content", in: .closedInRollbackMode)
        let writer = try DatabaseQueue(path: store.url.path)
        try writer.inTransaction(.exclusive) { _ in
            #expect(HeldDatabase(local) == nil)
            return .commit
        }
        try writer.close()
        try Store.setJournalMode("wal", of: store.url)
        let pool = try DatabasePool(path: store.url.path)
        try pool.write { try $0.execute(sql: "UPDATE item SET value = 'in the log'") }
        try pool.read { db in
            let value = try String.fetchOne(db, sql: "SELECT value FROM item")
            #expect(value == "in the log")
            #expect(HeldDatabase(local) == nil)
        }
        let held = try #require(HeldDatabase(local))
        try held.release()
        try pool.close()
        try Data("<store/>".utf8).write(to: store.file("store.xml"))
        for name in ["store.xml", "missing"] {
            let other = try LocalStore(store.file(name))
            #expect(HeldDatabase(other) == nil)
        }
    }

    @Test("whoever writes to the file past SQLite is found out before anything is published")
    func writtenPastSQLite() throws {
        try store.make("content", in: .closedInWALMode)
        let held = try #require(HeldDatabase(local))
        // A descriptor that this process closed would drop SQLite's locks.
        let vandal = Process()
        vandal.executableURL = URL(fileURLWithPath: "/bin/sh")
        vandal.arguments = ["-c", "printf x >> '\(store.url.path)'"]
        try vandal.run()
        vandal.waitUntilExit()
        #expect {
            try held.release()
        } throws: {
            ($0 as? StoreSyncError)?.code == .storeChanged
        }
    }

    @Test("the page of SQLite's locks is given as zeros, as a snapshot has it")
    func lockPage() throws {
        try store.make("content", in: .closedInWALMode)
        let (pageSize, lockPage): (UInt64, UInt64) = (4096, 1 << 30)
        // A file with a hole of a gibibyte, and rubbish where nothing counts.
        let handle = try FileHandle(forUpdating: store.url)
        try handle.truncate(atOffset: lockPage + 2 * pageSize)
        try handle.seek(toOffset: lockPage - 8)
        try handle.write(contentsOf: Data(repeating: 7, count: Int(pageSize) + 16))
        try handle.seek(toOffset: 28)
        try handle.write(contentsOf: withUnsafeBytes(of: UInt32(lockPage / pageSize + 2).bigEndian) { Data($0) })
        try handle.close()
        let held = try #require(HeldDatabase(local))
        #expect(held.byteCount == Int64(lockPage + 2 * pageSize))
        let bytes = try held.read(at: Int64(lockPage) - 16, upTo: Int(pageSize) + 32)
        let around = [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 7, count: 8)
        #expect(bytes == around + [UInt8](repeating: 0, count: Int(pageSize)) + around.reversed())
        try held.release()
    }
}
