import GRDB
import GRDBSQLite
import SyncCryptography

/// The pages of a database whose file stands still, read through SQLite's own handle.
struct DatabasePages: Sendable {
    /// The database's size in bytes.
    let byteCount: Int64
    private let pageSize: Int64

    /// The page on which SQLite sets its locks: whatever stands in it means nothing, and no copy has it.
    private static let lockByte: Int64 = 1 << 30

    /// Begins a read transaction during which nobody writes to the file, and which reads nothing but the file.
    ///
    /// - Parameter db: A connection.
    /// - Returns: The pages; or `nil`, without a transaction, if part of the database is in a log that others are reading.
    /// - Throws: `DatabaseError`.
    static func hold(_ db: Database) throws -> DatabasePages? {
        let usesLog = try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
        // Fails beside a reader; then the log may still be empty.
        if usesLog { try? db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try db.beginTransaction(.deferred)
        do {
            // The first read pins the state.
            if let pageCount = try Int64.fetchOne(db, sql: "PRAGMA page_count"),
                let pageSize = try Int64.fetchOne(db, sql: "PRAGMA page_size"),
                try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") != nil,
                // Looked at after: if it's empty now it was then, and the transaction reads nothing from it.
                try !usesLog || isLogEmpty(db),
                let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection),
                try file.byteCount >= pageSize * pageCount
            {
                return DatabasePages(byteCount: pageSize * pageCount, pageSize: pageSize)
            }
        } catch {
            try? db.rollback()
            throw error
        }
        try db.rollback()
        return nil
    }

    private static func isLogEmpty(_ db: Database) throws -> Bool {
        try SQLiteFile(SQLITE_FCNTL_JOURNAL_POINTER, of: db.sqliteConnection)?.byteCount == 0
    }

    /// Reads a piece of the database as a snapshot has it.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - db: The connection, in the transaction.
    ///   - offset: Where it begins, in bytes.
    ///   - count: How many bytes are wanted, at least 100 at the beginning.
    /// - Returns: The bytes; fewer than wanted only at the end.
    /// - Throws: `DatabaseError`.
    func read(_ db: Database, at offset: Int64, upTo count: Int) throws -> [UInt8] {
        let count = Int(min(Int64(count), byteCount - offset))
        guard count > 0 else { return [] }
        guard let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection) else {
            throw DatabaseError(resultCode: .SQLITE_IOERR)
        }
        var bytes = try file.read(at: offset, count: count)
        if offset == 0 { SQLiteHeader.normalize(&bytes, pageCount: UInt32(byteCount / pageSize)) }
        let lockPage = (Self.lockByte..<Self.lockByte + pageSize).clamped(to: offset..<offset + Int64(count))
        for index in lockPage { bytes[Int(index - offset)] = 0 }
        return bytes
    }

    /// The digest that a snapshot of a database would have.
    ///
    /// Blocks.
    ///
    /// - Parameter db: A connection without a transaction.
    /// - Returns: The digest; `nil` if the file can't be held still, so that a copy has to be made.
    /// - Throws: `DatabaseError` and `CancellationError`.
    static func contentRoot(of db: Database) throws -> ContentRoot? {
        guard let pages = try hold(db) else { return nil }
        defer { try? db.rollback() }
        var hasher = ContentRootHasher()
        while hasher.byteCount < pages.byteCount {
            try Task.checkCancellation()
            hasher.update(try pages.read(db, at: hasher.byteCount, upTo: ContentRoot.blockSize))
        }
        return hasher.finalize()
    }
}
