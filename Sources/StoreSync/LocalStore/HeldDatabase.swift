import Foundation
import GRDB
import GRDBSQLite

/// A database that stands still while it's read as a file, although others have it open and write.
///
/// In WAL mode, a read transaction that begins when all of the log has been copied into the database file and the log is
/// empty reads that file alone, and SQLite keeps everybody from copying newer pages into it until the transaction ends.
/// Writers go on in the log. So the file can be read as it stands, without a copy on this device.
///
/// It gives the same bytes as a ``StoreSnapshot`` of that moment holds.
final class HeldDatabase: @unchecked Sendable {
    // Sendable: the connection is used in its queue only.
    let byteCount: Int64
    private let pageSize: Int64
    private let store: LocalStore
    private let queue: DatabaseQueue
    private let fingerprint: LocalStore.Fingerprint?

    /// The page on which SQLite sets its locks: whatever stands in it means nothing, and no copy has it.
    private static let lockByte: Int64 = 1 << 30

    /// Holds a database.
    ///
    /// Blocks, but doesn't wait for others.
    ///
    /// - Returns: `nil` if it can't be held: it has no log, others are just reading from the log, or it can't be opened.
    ///   ``StoreSnapshot/take(of:at:whileCopying:)`` then copies it, or says why not.
    init?(_ store: LocalStore) {
        do {
            guard SQLiteHeader.isAtStart(of: store.url) else { return nil }
            var configuration = Configuration()
            // The transaction stays open between reads.
            configuration.allowsUnsafeTransactions = true
            configuration.busyMode = .immediateError
            let queue = try DatabaseQueue(path: store.path, configuration: configuration)
            guard let (pageSize, pageCount) = try queue.inDatabase(Self.hold) else {
                try? queue.close()
                return nil
            }
            self.queue = queue
            self.store = store
            self.pageSize = Int64(pageSize)
            byteCount = Int64(pageSize) * Int64(pageCount)
            fingerprint = store.fingerprint
        } catch {
            return nil
        }
    }

    /// Begins the transaction; returns the database's size, or `nil` if others may write to the file.
    private static func hold(_ db: Database) throws -> (pageSize: Int, pageCount: Int)? {
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return nil }
        // Fails beside a reader; then the log may still be empty.
        try? db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        try db.beginTransaction(.deferred)
        // The first read pins the state.
        guard let pageCount = try Int.fetchOne(db, sql: "PRAGMA page_count"),
            let pageSize = try Int.fetchOne(db, sql: "PRAGMA page_size"),
            try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") != nil,
            // Looked at after: if it's empty now it was then, and the transaction reads nothing from it.
            let log = SQLiteFile(SQLITE_FCNTL_JOURNAL_POINTER, of: db.sqliteConnection), try log.byteCount == 0,
            let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection),
            try file.byteCount >= Int64(pageSize) * Int64(pageCount)
        else {
            try? db.rollback()
            return nil
        }
        return (pageSize, pageCount)
    }

    /// Reads a piece of the database.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - offset: Where it begins, in bytes.
    ///   - count: How many bytes are wanted, at least 100 at the beginning.
    /// - Returns: The bytes; fewer than wanted only at the end.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if they can't be read.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        let count = Int(min(Int64(count), byteCount - offset))
        guard count > 0 else { return [] }
        do {
            var bytes = try queue.inDatabase { db in
                guard let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection) else {
                    throw DatabaseError(resultCode: .SQLITE_IOERR)
                }
                return try file.read(at: offset, count: count)
            }
            if offset == 0 { SQLiteHeader.normalize(&bytes, pageCount: UInt32(byteCount / pageSize)) }
            let lockPage = (Self.lockByte..<Self.lockByte + pageSize).clamped(to: offset..<offset + Int64(count))
            for index in lockPage { bytes[Int(index - offset)] = 0 }
            return bytes
        } catch {
            throw StoreSyncError(
                .storeChanged,
                "\(store.path) could not be read on. Nothing was published. Try again.",
                cause: error
            )
        }
    }

    /// Lets others write to the file again.
    ///
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if somebody has done so before, past SQLite.
    func release() throws {
        let after = store.fingerprint
        try? queue.inDatabase { try $0.rollback() }
        try? queue.close()
        guard fingerprint == after else {
            throw StoreSyncError(
                .storeChanged,
                "Something other than SQLite wrote to \(store.path) while it was read. Nothing was published. Try again."
            )
        }
    }

    deinit { try? queue.close() }
}
