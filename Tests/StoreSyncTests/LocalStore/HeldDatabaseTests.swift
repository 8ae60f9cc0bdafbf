import Foundation
import GRDB
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A database in WAL mode that is read in place", .timeLimit(.minutes(60)))
struct HeldDatabaseTests {
    private let store: TestStore
    private let local: LocalStore

    init() throws {
        store = try TestStore()
        local = try LocalStore(store.url)
    }

    /// The destination of the copy that is needed when the database can't be held any longer.
    private var copy: URL { store.file("copy of the held state") }

    private func hold(_ local: LocalStore? = nil) -> HeldDatabase? {
        HeldDatabase(local ?? self.local, copyingTo: copy)
    }

    /// Ends the reading of a state that was held to its end, or copied.
    private func end(_ held: HeldDatabase) throws {
        defer { held.release() }
        try held.check()
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
        "A database read in place has the same bytes as a snapshot",
        arguments: [512, 4096, 65536],
        ["NONE", "FULL", "INCREMENTAL"]
    )
    func equalsSnapshot(pageSize: Int, vacuum: String) throws {
        let queue = try DatabaseQueue(path: store.url.path)
        try queue.inDatabase { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = \(pageSize); PRAGMA auto_vacuum = \(vacuum); PRAGMA journal_mode = wal;
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
        // First while a connection has all of that in the log, then after the connection was closed.
        for _ in 0..<2 {
            let held = try #require(hold())
            #expect(held.byteCount == Int64(expected.count) && held.byteCount > 100_000)
            let read = try bytes(of: held)
            #expect(read == expected)
            try held.copy()
            let copied = try bytes(of: held)
            #expect(copied == expected)
            try end(held)
            try queue.close()
        }
    }

    @Test("Writers of a database read in place continue, and what is read doesn't change")
    func writersGoOn() throws {
        try store.make("before", in: .closedInWALMode)
        let expected = try snapshot()
        let held = try #require(hold())
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
        try end(held)
        #expect(try store.content() == "after 2")
        let next = try #require(hold())
        let later = try bytes(of: next)
        #expect(later != expected)
        try end(next)
    }

    @Test("A database read in place is one consistent state while another process keeps writing")
    func besideWriter() async throws {
        let busy = try await BusyStore(at: store.url, checkpointPages: 20)
        try await busy.expectConsistentCopies {
            guard let held = hold() else { return nil }
            let copy = store.file("held")
            try Data(try bytes(of: held, pieces: 4096)).write(to: copy)
            try end(held)
            return copy
        }
    }

    /// Whether all of the log can be copied into the database file.
    private func emptiesLog(_ writer: DatabaseQueue) throws -> Bool {
        try writer.inDatabase { try Int.fetchOne($0, sql: "PRAGMA wal_checkpoint(TRUNCATE)") == 0 }
    }

    @Test("A read in place continues from a copy of the held state, and then the log can be emptied")
    func copiedInTheMiddle() throws {
        try store.make("before", in: .closedInWALMode)
        let expected = try snapshot()
        let held = try #require(hold())
        let start = try held.read(at: 0, upTo: 10_000)
        let writer = try DatabaseQueue(path: store.url.path)
        defer { try? writer.close() }
        for round in 0..<2 {
            try writer.inDatabase { try $0.execute(sql: "UPDATE item SET value = 'after \(round)'") }
            #expect(try emptiesLog(writer) == (round == 1))
            try held.copy()
        }
        let rest = try held.read(at: 10_000, upTo: expected.count)
        #expect(start + rest == expected)
        let again = try bytes(of: held)
        #expect(again == expected)
        #expect(FileManager.default.fileExists(atPath: copy.path))
        try end(held)
        #expect(!FileManager.default.fileExists(atPath: copy.path))
        #expect(throws: StoreSyncError.self) { try held.read(at: 0, upTo: 100) }
        #expect(try store.content() == "after 1")
    }

    @Test("A read copies the held state if the log has more than 64 MiB")
    func largeLog() throws {
        try store.make("before", in: .closedInWALMode)
        let expected = try snapshot()
        let held = try #require(hold())
        let writer = try DatabaseQueue(path: store.url.path)
        defer { try? writer.close() }
        for (mebibytes, isEmptied) in [(60, false), (5, true)] {
            try writer.inDatabase { db in
                try db.execute(
                    sql: "INSERT INTO item (value, filler) VALUES ('large', zeroblob(\(mebibytes << 20)))"
                )
            }
            let read = try bytes(of: held)
            #expect(read == expected)
            #expect(try emptiesLog(writer) == isEmptied)
        }
        try end(held)
    }

    @Test("If the held state can't be copied, the log can be emptied nevertheless, and reads fail")
    func copyFails() throws {
        try store.make("before", in: .closedInWALMode)
        let held = try #require(hold())
        try Data().write(to: copy)
        let writer = try DatabaseQueue(path: store.url.path)
        defer { try? writer.close() }
        try writer.inDatabase { try $0.execute(sql: "UPDATE item SET value = 'after'") }
        try held.copy()
        #expect(try emptiesLog(writer))
        let error = #expect(throws: StoreSyncError.self) { try held.read(at: 0, upTo: 100) }
        #expect(error?.code == .cannotWrite)
        held.release()
        #expect(FileManager.default.fileExists(atPath: copy.path), "a file that the database didn't create is kept")
    }

    @Test("A cancelled copy leaves no file, and the state is held until it's released")
    func cancelledCopy() async throws {
        try store.make("before", in: .closedInWALMode)
        let expected = try snapshot()
        let held = try #require(hold())
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try held.copy()
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!FileManager.default.fileExists(atPath: copy.path))
        let read = try bytes(of: held)
        #expect(read == expected)
        try end(held)
    }

    @Test("A database with a rollback journal isn't held", arguments: ["delete", "persist", "truncate"])
    func rollbackJournal(mode: String) throws {
        let queue = try DatabaseQueue(path: store.url.path)
        try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = \(mode); CREATE TABLE note (text TEXT)") }
        #expect(hold() == nil)
        try queue.inDatabase { try $0.execute(sql: "INSERT INTO note VALUES ('one')") }
    }

    @Test("A locked database, a database whose log another connection reads, and any other file can't be held")
    func cannotBeHeld() throws {
        try store.make("content", in: .closedInWALMode)
        let writer = try DatabaseQueue(path: store.url.path)
        try writer.inDatabase { try $0.execute(sql: "PRAGMA locking_mode = EXCLUSIVE") }
        try writer.inTransaction(.exclusive) { _ in
            #expect(hold() == nil)
            return .commit
        }
        try writer.close()
        let pool = try DatabasePool(path: store.url.path)
        try pool.write { try $0.execute(sql: "UPDATE item SET value = 'in the log'") }
        try pool.read { db in
            let value = try String.fetchOne(db, sql: "SELECT value FROM item")
            #expect(value == "in the log")
            #expect(hold() == nil)
        }
        let held = try #require(hold())
        try end(held)
        try pool.close()
        try Data("<store/>".utf8).write(to: store.file("store.xml"))
        for name in ["store.xml", "missing"] {
            let other = try LocalStore(store.file(name))
            #expect(hold(other) == nil)
        }
    }

    @Test("A write to the file that bypasses SQLite is detected before anything is published")
    func writtenPastSQLite() throws {
        try store.make("content", in: .closedInWALMode)
        let held = try #require(hold())
        // Another process writes, because closing a descriptor in this process would drop SQLite's locks.
        let vandal = Process()
        vandal.executableURL = URL(fileURLWithPath: "/bin/sh")
        vandal.arguments = ["-c", "printf x >> '\(store.url.path)'"]
        try vandal.run()
        vandal.waitUntilExit()
        #expect {
            try end(held)
        } throws: {
            ($0 as? StoreSyncError)?.code == .storeChanged
        }
    }

    @Test("The page of SQLite's locks is read as zeros, as in a snapshot")
    func lockPage() throws {
        try store.make("content", in: .closedInWALMode)
        let (pageSize, lockPage): (UInt64, UInt64) = (4096, 1 << 30)
        // A file with a hole of a gibibyte, and other bytes than zeros in and around the page of the locks.
        let handle = try FileHandle(forUpdating: store.url)
        try handle.truncate(atOffset: lockPage + 2 * pageSize)
        try handle.seek(toOffset: lockPage - 8)
        try handle.write(contentsOf: Data(repeating: 7, count: Int(pageSize) + 16))
        try handle.seek(toOffset: 28)
        try handle.write(contentsOf: withUnsafeBytes(of: UInt32(lockPage / pageSize + 2).bigEndian) { Data($0) })
        try handle.close()
        let held = try #require(hold())
        #expect(held.byteCount == Int64(lockPage + 2 * pageSize))
        let bytes = try held.read(at: Int64(lockPage) - 16, upTo: Int(pageSize) + 32)
        let around = [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 7, count: 8)
        #expect(bytes == around + [UInt8](repeating: 0, count: Int(pageSize)) + around.reversed())
        try end(held)
    }
}
