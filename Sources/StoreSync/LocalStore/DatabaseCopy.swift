import GRDB
import GRDBSQLite

/// Copies a database over another one by SQLite's online backup, in one transaction of the destination.
///
/// GRDB's `backup(to:)` can't look at anything between taking the destination's lock and writing; this can.
enum DatabaseCopy {
    /// After so many pages a cancellation is noticed.
    private static let pagesPerStep: CInt = 4096

    /// Copies all of one database.
    ///
    /// - Parameters:
    ///   - source: What to copy. It is in a read transaction: beside a writer the copy would begin again and again.
    ///   - destination: What is overwritten.
    ///   - whenLocked: Called when nobody else can change the destination and nothing of it is changed yet; if it throws,
    ///     nothing will be.
    /// - Throws: `DatabaseError`, `CancellationError`, or what `whenLocked` throws.
    static func run(from source: Database, to destination: Database, whenLocked: () throws -> Void = {}) throws {
        guard
            let backup = sqlite3_backup_init(destination.sqliteConnection, "main", source.sqliteConnection, "main")
        else {
            throw DatabaseError(resultCode: destination.lastErrorCode, message: destination.lastErrorMessage)
        }
        do {
            // A step of no page takes the locks.
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
