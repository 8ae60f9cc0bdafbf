import ContentDigests
import GRDB
import GRDBSQLite

/// The pages of a database whose file doesn't change, read through SQLite's own handle.
struct DatabasePages: Sendable {
    /// The database's size in bytes.
    let byteCount: Int64
    private let pageSize: Int64

    /// The offset of the page on which SQLite sets its locks: its content is meaningless, and no copy contains it.
    private static let lockByte: Int64 = 1 << 30

    /// Begins a read transaction that reads nothing but the database file, to which no connection writes meanwhile.
    ///
    /// - Parameter db: A connection.
    /// - Returns: The pages; or `nil`, without a transaction, if part of the database is in a log that others are
    ///   reading.
    /// - Throws: `DatabaseError`.
    static func hold(_ db: Database) throws -> DatabasePages? {
        let usesLog = try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
        // Fails while another connection reads the log. Even then the log may be empty.
        if usesLog { try? db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try db.beginTransaction(.deferred)
        do {
            // The first read starts the snapshot.
            if let pageCount = try Int64.fetchOne(db, sql: "PRAGMA page_count"),
                let pageSize = try Int64.fetchOne(db, sql: "PRAGMA page_size"),
                try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") != nil,
                // Checked after that read: if the log is empty now, it was empty then, and the transaction reads
                // nothing from it.
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

    /// Reads a part of the database, with the bytes that a snapshot has.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - db: The connection, in the transaction.
    ///   - offset: Where the part begins, in bytes.
    ///   - count: How many bytes to read, at least 100 at offset 0.
    /// - Returns: The bytes; fewer than `count` only at the end.
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
    /// - Parameters:
    ///   - db: A connection without a transaction.
    ///   - hash: How its pages are digested.
    /// - Returns: The digest; `nil` if the file can't be kept unchanged, so that a copy is needed.
    /// - Throws: `DatabaseError` and `CancellationError`.
    static func contentRoot(of db: Database, _ hash: PageHash) throws -> ContentRoot? {
        guard let pages = try hold(db) else { return nil }
        defer { try? db.rollback() }
        var hasher = ContentRootHasher(hash)
        while hasher.byteCount < pages.byteCount {
            try Task.checkCancellation()
            hasher.update(try pages.read(db, at: hasher.byteCount, upTo: ContentRoot.blockSize))
        }
        return hasher.finalize()
    }
}
