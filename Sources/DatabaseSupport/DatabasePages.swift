package import GRDB
import GRDBSQLite

/// The pages of a database whose file doesn't change, read through SQLite's own handle.
package struct DatabasePages: Sendable {
    /// The size of a page in bytes.
    package let pageSize: Int
    private let pageCount: Int64

    /// The database's size in bytes.
    package var byteCount: Int64 { Int64(pageSize) * pageCount }

    /// Moves what is in a write-ahead log into the database file, if no other connection is using the log.
    ///
    /// Other connections can't write meanwhile. A passive checkpoint before this one would leave less to do, but the two can
    /// damage a database in SQLite before 3.51.3 (https://www.sqlite.org/wal.html#walresetbug).
    ///
    /// Blocks.
    ///
    /// - Parameter db: A connection without a transaction.
    /// - Throws: `DatabaseError` if the database can't be read.
    package static func emptyLog(of db: Database) throws {
        guard try logSize(of: db) > 0 else { return }
        try? db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// The size of the write-ahead log in bytes; 0 if there is none.
    package static func logSize(of db: Database) throws -> Int64 {
        try db.usesLog ? sizeOfUsedLog(of: db) : 0
    }

    /// The size in bytes of the write-ahead log of a database that uses one; executes no statement.
    package static func sizeOfUsedLog(of db: Database) throws -> Int64 {
        // A log that can't be seen may hold anything.
        try SQLiteFile(SQLITE_FCNTL_JOURNAL_POINTER, of: db.sqliteConnection)?.byteCount ?? .max
    }

    /// Finds the pages of a read transaction that reads nothing but the database file, to which no connection writes
    /// meanwhile; `nil` if part of the database is in a log, or the database isn't in a file.
    ///
    /// - Parameter db: A connection in a read transaction.
    /// - Throws: `DatabaseError`.
    package init?(of db: Database) throws {
        // The first read starts the snapshot.
        guard let pageCount = try Int64.fetchOne(db, sql: "PRAGMA page_count"),
            let pageSize = try Int.fetchOne(db, sql: "PRAGMA page_size"),
            try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") != nil,
            // Checked after that read: if the log is empty now, it was empty then, and the transaction reads nothing from
            // it.
            try Self.logSize(of: db) == 0,
            let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection)
        else { return nil }
        self.pageSize = pageSize
        self.pageCount = pageCount
        guard try file.byteCount >= byteCount else { return nil }
    }

    /// Reads a part of the database file.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - db: The connection, in the transaction.
    ///   - offset: Where the part begins, in bytes.
    ///   - count: How many bytes to read.
    /// - Returns: The bytes; fewer than `count` only at the end.
    /// - Throws: `DatabaseError`.
    package func read(_ db: Database, at offset: Int64, upTo count: Int) throws -> [UInt8] {
        let count = Int(min(Int64(count), byteCount - offset))
        guard count > 0 else { return [] }
        guard let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection) else {
            throw DatabaseError(resultCode: .SQLITE_IOERR)
        }
        return try file.read(at: offset, count: count)
    }
}
