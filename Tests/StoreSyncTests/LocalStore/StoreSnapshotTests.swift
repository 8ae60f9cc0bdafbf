import Foundation
import GRDB
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The snapshot of a local store", .timeLimit(.minutes(60)))
struct StoreSnapshotTests {
    private let fixture: Fixture

    init() throws {
        fixture = try Fixture(isVolatile: false)
    }

    private func place(_ name: String) -> URL { fixture.folder.appending(path: name) }

    private func snapshot(_ url: URL, _ name: String = UUID().uuidString) throws -> StoreSnapshot {
        try StoreSnapshot.take(of: LocalStore(url), at: place(name))
    }

    @Test(
        "Two snapshots of an unchanged store, and a snapshot of a snapshot, have the same bytes",
        arguments: ["delete", "wal"]
    )
    func stable(journalMode: String) throws {
        let store = place("store.sqlite")
        let queue = try DatabaseQueue(path: store.path)
        _ = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode = \(journalMode)") }
        try Store.write((0..<500).map { "note \($0)" }, to: store)
        let first = try snapshot(store)
        #expect(try snapshot(store).contentRoot == first.contentRoot)
        try queue.close()
        #expect(try snapshot(store).contentRoot == first.contentRoot)
        let second = try snapshot(first.url)
        #expect(try second.contentRoot == first.contentRoot)
        // Opened and read by a program, as after a pull.
        #expect(try Store.notes(in: second.url).count == 500)
        #expect(try snapshot(second.url).contentRoot == first.contentRoot)
        try Store.write(["another"], to: store)
        #expect(try snapshot(store).contentRoot != first.contentRoot)
    }

    @Test("A snapshot that can't be read any more names its file")
    func unreadable() throws {
        let store = place("store.sqlite")
        try Store.write(["note"], to: store)
        let snapshot = try snapshot(store)
        try FileManager.default.removeItem(at: snapshot.url)
        let error = #expect(throws: StoreSyncError.self) { try snapshot.read(at: 0, upTo: 1) }
        #expect(error?.message.contains(snapshot.url.path) == true)
    }

    @Test("Two stores of equal content have one root, whatever counters, SQLite version and journal mode they record")
    func headers() throws {
        let (one, other) = (place("one.sqlite"), place("other.sqlite"))
        try Store.write((0..<500).map { "note \($0)" }, to: one)
        var bytes = try Data(contentsOf: one)
        // The change counter, the schema cookie, the “version-valid-for” number, and SQLite's version.
        for (offset, field) in [24: [9, 8, 7, 6], 40: [0, 0, 4, 2], 92: [9, 8, 7, 6], 96: [0, 0x2E, 0x2E, 0x2E]] {
            bytes.replaceSubrange(offset..<offset + 4, with: field.map { UInt8($0) })
        }
        try bytes.write(to: other)
        let first = try snapshot(one)
        #expect(try snapshot(other).contentRoot == first.contentRoot)
        for mode in ["wal", "delete", "persist"] {
            try Store.setJournalMode(mode, of: other)
            #expect(try snapshot(other).contentRoot == first.contentRoot)
        }
        #expect(try Store.notes(in: first.url).count == 500)
        // Before 3.7.0, SQLite left an outdated file length in the header, and the “version-valid-for” number shows it.
        bytes.replaceSubrange(28..<32, with: [0, 0, 0, 1])
        bytes.replaceSubrange(92..<96, with: [0, 0, 0, 0])
        try bytes.write(to: other)
        let copy = try snapshot(other)
        #expect(try copy.contentRoot == first.contentRoot)
        let length = try Data(contentsOf: copy.url).subdata(in: 28..<32).reduce(0) { $0 << 8 | Int64($1) }
        #expect(length * 4096 == copy.byteCount)
    }

    @Test("F11: A snapshot includes pages that are only in the write-ahead log, and leaves the log unchanged")
    func uncheckpointed() throws {
        let store = place("store.sqlite")
        let pool = try DatabasePool(path: store.path)
        try pool.write {
            try $0.execute(sql: "CREATE TABLE note (text TEXT NOT NULL); INSERT INTO note VALUES ('one')")
        }
        let before = try FileManager.default.attributesOfItem(atPath: store.path + "-wal")[.size] as? Int
        let copy = try snapshot(store)
        #expect(try Store.notes(in: copy.url) == ["one"])
        let after = try FileManager.default.attributesOfItem(atPath: store.path + "-wal")[.size] as? Int
        #expect(before == after)
        try pool.close()
    }

    @Test("F11: A snapshot is one consistent state while another process keeps writing")
    func besideWriter() async throws {
        let store = place("store.sqlite")
        let busy = try await BusyStore(at: store, checkpointPages: 50)
        try await busy.expectConsistentCopies { try snapshot(store).url }
    }

    @Test("A snapshot of a file that isn't SQLite's is a copy, and is refused if a log or a journal is next to it")
    func otherFiles() throws {
        let store = place("store.xml")
        try Data("<store/>".utf8).write(to: store)
        let copy = try snapshot(store)
        #expect(try Data(contentsOf: copy.url) == Data("<store/>".utf8))
        try Data().write(to: place("empty"))
        #expect(try snapshot(place("empty")).byteCount == 0)
        for (suffix, start) in [("-wal", SQLiteStart.log), ("-journal", SQLiteStart.journal)] {
            let side = URL(fileURLWithPath: store.path + suffix)
            try start.write(to: side)
            #expect {
                try snapshot(store)
            } throws: {
                ($0 as? StoreSyncError)?.code == .unsupportedFormat
            }
            try FileManager.default.removeItem(at: side)
        }
    }

    @Test("A snapshot of a missing file, a directory or a damaged database is an error that names the store")
    func refusals() throws {
        try FileManager.default.createDirectory(at: place("folder"), withIntermediateDirectories: true)
        var damaged = Data("SQLite format 3\0".utf8)
        damaged.append(Data(repeating: 7, count: 8192))
        try damaged.write(to: place("damaged"))
        for (name, code) in [
            ("missing", StoreSyncError.Code.storeNotFound), ("folder", .storeNotFound), ("no/where", .storeNotFound),
        ] {
            #expect {
                try snapshot(place(name))
            } throws: { error in
                let error = error as? StoreSyncError
                return error?.code == code && error?.message.contains(name.components(separatedBy: "/")[0]) == true
            }
        }
        // Whether SQLite reports "corrupt" or "not a database", a copy of such a file must not count as a store's snapshot.
        do {
            let copy = try snapshot(place("damaged"))
            #expect(try Data(contentsOf: copy.url) == damaged, "a file that isn't SQLite's is copied as it is")
        } catch let error as StoreSyncError {
            #expect(error.code == .corrupt)
        }
    }

    @Test("The error of a snapshot whose read failed doesn't call the store damaged")
    func failedRead() throws {
        try Store.write(["one"], to: place("whole.sqlite"))
        for code in [ResultCode.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_IOERR_READ] {
            let path = place("whole.sqlite").path
            let error = StoreSyncError(database: DatabaseError(resultCode: code), at: path)
            #expect(error.code == .cannotWrite)
            #expect(error.message.hasPrefix("\(path) on this device couldn't be read"), "\(error)")
        }
    }

    @Test("A snapshot of a symbolic link is the snapshot of the linked store")
    func symbolicLink() throws {
        try Store.write(["one"], to: place("real.sqlite"))
        try FileManager.default.createSymbolicLink(at: place("link.sqlite"), withDestinationURL: place("real.sqlite"))
        #expect(try LocalStore(place("link.sqlite")).path == LocalStore(place("real.sqlite")).path)
        #expect(try Store.notes(in: snapshot(place("link.sqlite")).url) == ["one"])
    }
}
