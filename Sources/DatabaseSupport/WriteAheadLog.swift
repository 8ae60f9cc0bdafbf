package import GRDB
import GRDBSQLite

extension Database {
    /// Whether the database uses a write-ahead log, rather than a rollback journal.
    package var usesLog: Bool {
        get throws { try String.fetchOne(self, sql: "PRAGMA journal_mode") == "wal" }
    }
}

/// How far a database's write-ahead log is, as every connection sees it.
///
/// A commit writes its pages into the log, waits until they are on the medium, and only then shows them to other connections. So the
/// log may change before a commit shows.
package struct WriteAheadLog: Equatable {
    /// The beginning of the index that the connections share.
    private let header: [UInt8]
    /// Where the page would be that the next commit writes first, in bytes; `nil` if that can't be told.
    private let end: Int64?

    /// Reads how far the log is; `nil` if the database has none.
    ///
    /// - Parameter db: A connection that has read the database.
    /// - Throws: `DatabaseError`.
    package init?(of db: Database) throws {
        guard try db.usesLog else { return nil }
        // There are two copies of the header: a connection is writing it while they differ, and then each has another checksum.
        header = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection)?.sharedMemory(upTo: 96) ?? []
        guard !header.isEmpty else {
            end = nil
            return
        }
        let pageSize = Int(Self.native(UInt16.self, header, at: 14))
        let last = Int64(Self.native(UInt32.self, header, at: 16))
        end = 32 + last * Int64(24 + (pageSize == 1 ? 65_536 : pageSize))
    }

    /// How many pages the log and the database have, the checksum of the log's pages, and its salts; empty if it has none.
    ///
    /// Every commit changes them. They stay the same if all connections are closed, and the next one reads the log again.
    var position: [Int64] {
        guard !header.isEmpty, Self.native(UInt32.self, header, at: 16) > 0 else { return [] }
        return [16, 24, 32].map { Self.native(Int64.self, header, at: $0) }
    }

    private static func native<Number: FixedWidthInteger>(_: Number.Type, _ bytes: [UInt8], at offset: Int) -> Number {
        bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) }
    }

    /// Whether the log may have pages after those of the last commit: another connection is in a transaction that has written, or such
    /// a transaction ended without a commit.
    ///
    /// - Parameter db: The connection.
    /// - Returns: Whether it may; `true` if that can't be told.
    /// - Throws: `DatabaseError`.
    package func mayHavePagesOfNextCommit(_ db: Database) throws -> Bool {
        guard let end, let log = SQLiteFile(SQLITE_FCNTL_JOURNAL_POINTER, of: db.sqliteConnection) else { return true }
        guard try log.byteCount >= end + 24 else { return false }
        // What former commits wrote there before the log started over has other salts. A log that starts over shows its own only with
        // its first commit.
        let salts = end == 32 ? try log.read(at: 16, count: 8) : Array(header[32..<40])
        return try log.read(at: end + 8, count: 8) == salts
    }
}
