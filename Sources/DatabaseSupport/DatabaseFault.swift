package import GRDB
import GRDBSQLite

/// Why what a database's file holds can't be used.
package enum DatabaseFault: Sendable {
    /// The file is damaged, isn't a database, or holds what this package doesn't write.
    case damage
    /// Reading the file failed.
    case reading

    /// Says that files couldn't be read, and what to do.
    package static func unreadable(_ files: String) -> String {
        "\(files) couldn't be read: the disk or its connection reported an error. Check the disk, then try again."
    }
}

extension DatabaseError {
    /// The error of a database that SQLite can read, and that doesn't hold what this package writes.
    ///
    /// SQLite itself doesn't use its code.
    package static func ofContent(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_FORMAT, message: message)
    }

    /// Finds out whether the error says that a database's file is damaged, or that it couldn't be read.
    ///
    /// SQLite reports damage also if the medium fails to give a page. So the file is read again before it's called damaged.
    ///
    /// Blocks as long as reading the whole file takes, if SQLite has reported damage.
    ///
    /// - Parameter path: The database.
    /// - Returns: The fault of this file; `nil` if the error is about something else.
    package func fault(ofDatabaseAt path: String) -> DatabaseFault? {
        switch extendedResultCode {
        case .SQLITE_FORMAT: return .damage
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            if DatabaseQueue.isDamaged(path) { return .damage }
            // A failed read gives no extended code, which names what SQLite found in the pages.
            return extendedResultCode == resultCode ? .reading : nil
        case .SQLITE_IOERR_READ, .SQLITE_IOERR_SHORT_READ, .SQLITE_IOERR_FSTAT, .SQLITE_IOERR_ACCESS,
            .SQLITE_IOERR_SEEK,
            .SQLITE_IOERR_DATA, .SQLITE_IOERR_CORRUPTFS:
            return .reading
        default: return nil
        }
    }
}

extension DatabaseQueue {
    /// Whether SQLite finds damage in a database that it can read.
    fileprivate static func isDamaged(_ path: String) -> Bool {
        var configuration = Configuration.ofThisPackage
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        // Rows that a constraint refuses aren't damage, and constraints may need functions that only the app has.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA ignore_check_constraints = ON") }
        do {
            return try DatabaseQueue(path: path, configuration: configuration).read { db in
                // SQLite's check reports what it can't read as damage.
                for file in [SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER] {
                    try SQLiteFile(file, of: db.sqliteConnection)?.readThrough()
                }
                return try String.fetchAll(db, sql: "PRAGMA integrity_check(1)") != ["ok"]
            }
        } catch let error as DatabaseError {
            // Without the app's collations SQLite can't check every index. Then what it has reported counts.
            return [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR].contains(error.resultCode)
        } catch {
            return false
        }
    }
}
