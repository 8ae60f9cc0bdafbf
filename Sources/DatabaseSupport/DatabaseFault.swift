package import GRDB
import GRDBSQLite

/// Why what a database's file holds can't be used.
package enum DatabaseFault {
    /// The file is damaged, isn't a database, or holds what this package doesn't write.
    case damage
    /// Reading the file failed.
    case reading
    /// The file is intact, but SQLite can't parse its schema, which a newer version may have written.
    case unknownSchema

    /// Says that files couldn't be read, and what to do.
    package static func unreadable(_ files: String) -> String {
        "\(files) couldn't be read: the disk or its connection reported an error. Check the disk, then try again."
    }

    /// Says that the schema of a store has what this version of SQLite doesn't know, and what to do.
    package static func unknownSchema(of store: String, _ error: any Error) -> String {
        let version = String(cString: sqlite3_libversion())
        let reason = (error as? DatabaseError)?.message ?? "\(error)"
        return """
            SQLite \(version) can't read the schema of \(store): \(reason). The app may have written it with a newer SQLite, \
            which synchronizing its records needs too. The store can be pushed and pulled as a whole.
            """
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
            if let fault = DatabaseFault.found(inDatabaseAt: path) { return fault }
            // A failed read gives no extended code, which names what SQLite found in the pages.
            return extendedResultCode == resultCode ? .reading : nil
        case .SQLITE_IOERR_READ, .SQLITE_IOERR_SHORT_READ, .SQLITE_IOERR_FSTAT, .SQLITE_IOERR_ACCESS,
            .SQLITE_IOERR_SEEK, .SQLITE_IOERR_DATA, .SQLITE_IOERR_CORRUPTFS:
            return .reading
        default: return nil
        }
    }
}

extension DatabaseFault {
    /// What SQLite finds in a database that it can read; `nil` if there is nothing wrong with it.
    fileprivate static func found(inDatabaseAt path: String) -> DatabaseFault? {
        do {
            return try check(path, .ofThisPackage) { db in
                try String.fetchAll(db, sql: "PRAGMA integrity_check(1)") == ["ok"] ? nil : .damage
            }
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_CORRUPT: return isIntactWithoutSchema(path) ? .unknownSchema : .damage
            // Without the app's collations SQLite can't check every index. Then what it has reported counts.
            case .SQLITE_NOTADB, .SQLITE_ERROR: return .damage
            default: return nil
            }
        } catch {
            return nil
        }
    }

    /// Whether SQLite finds no damage in those tables of a database whose definitions it can parse.
    private static func isIntactWithoutSchema(_ path: String) -> Bool {
        let isSound = try? check(path, .ofPages) { db in
            let stored = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
            return try String.fetchAll(db, sql: stored).allSatisfy { try isIntact($0, db) }
        }
        return isSound ?? false
    }

    private static func isIntact(_ table: String, _ db: Database) throws -> Bool {
        do {
            return try String.fetchAll(db, sql: "PRAGMA quick_check(\(table.quotedDatabaseIdentifier))") == ["ok"]
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // SQLite doesn't know the table, or something that only the app has.
            return true
        }
    }

    /// Runs a check of a database whose files can be read.
    private static func check<Result>(
        _ path: String,
        _ configuration: Configuration,
        _ body: (Database) throws -> Result
    ) throws -> Result {
        var configuration = configuration
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        // Rows that a constraint refuses aren't damage, and constraints may need functions that only the app has.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA ignore_check_constraints = ON") }
        return try DatabaseQueue(path: path, configuration: configuration).read { db in
            // SQLite's check reports what it can't read as damage.
            for file in [SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER] {
                try SQLiteFile(file, of: db.sqliteConnection)?.readThrough()
            }
            return try body(db)
        }
    }
}
