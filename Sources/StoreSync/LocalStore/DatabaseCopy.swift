import GRDB
import GRDBSQLite

/// Copies a database over another one by SQLite's online backup, in one transaction of the destination.
///
/// GRDB's `backup(to:)` can't run a check between locking the destination and writing to it.
enum DatabaseCopy {
    /// The number of pages after which a cancellation is noticed.
    private static let pagesPerStep: CInt = 4096

    /// Copies a whole database.
    ///
    /// - Parameters:
    ///   - source: The database to copy, in a read transaction: otherwise every commit of a writer would restart the
    ///     copy.
    ///   - destination: The database to overwrite.
    ///   - whenLocked: Called when the destination is locked and isn't changed yet. If it throws, the destination stays
    ///     unchanged.
    /// - Throws: `DatabaseError`, `CancellationError`, or what `whenLocked` throws.
    static func run(from source: Database, to destination: Database, whenLocked: () throws -> Void = {}) throws {
        guard
            let backup = sqlite3_backup_init(destination.sqliteConnection, "main", source.sqliteConnection, "main")
        else {
            throw DatabaseError(resultCode: destination.lastErrorCode, message: destination.lastErrorMessage)
        }
        do {
            // A step of zero pages takes the locks.
            try check(sqlite3_backup_step(backup, 0))
            try whenLocked()
            while try check(sqlite3_backup_step(backup, pagesPerStep)) != SQLITE_DONE {
                try Task.checkCancellation()
            }
        } catch {
            sqlite3_backup_finish(backup)
            throw error
        }
        try check(sqlite3_backup_finish(backup))
    }

    @discardableResult
    private static func check(_ code: CInt) throws -> CInt {
        guard code == SQLITE_OK || code == SQLITE_DONE else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code))
        }
        return code
    }
}
