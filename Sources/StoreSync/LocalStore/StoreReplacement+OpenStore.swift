import DatabaseSupport
import FileSupport
import Foundation
import GRDB

/// Writes into a store that other connections have open, in one transaction.
///
/// Any change of the store between the comparison and the commit is noticed. With a rollback journal, the connection
/// holds the exclusive lock from before the comparison until after the commit. With a write-ahead log no connection can
/// get that lock. So a second connection compares the store, and checks it again once the first connection has the
/// write lock: a commit in between changes its data version.
extension StoreReplacement {
    func write(into destination: DatabaseQueue) throws {
        guard SQLiteFile.isDatabase(at: download.path) else {
            throw StoreSyncError(
                .unsupportedFormat,
                "The downloaded store isn't an SQLite database, so it can't be written into \(store.path) while that is open. Close it."
            )
        }
        var configuration = Configuration.ofPages
        configuration.readonly = true
        let source = try DatabaseQueue(path: download.path, configuration: configuration)
        defer { try? source.close() }
        try source.read { source in
            try destination.inDatabase { destination in
                if try destination.usesLog {
                    try refuseOtherPageSize(of: source, for: destination)
                    try write(source, besideReadersOf: destination)
                } else {
                    try write(source, exclusivelyInto: destination)
                }
            }
        }
        try? store.steps.reached("after the transaction")
    }

    private func write(_ source: Database, exclusivelyInto destination: Database) throws {
        try destination.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
        try destination.inTransaction(.exclusive) { .commit }
        try check(destination)
        try store.steps.reached("before the transaction")
        try DatabaseCopy.run(from: source, to: destination)
        // Under the exclusive lock SQLite empties the journal but keeps its file. A change of the mode removes the
        // file. If it fails, the new content is in the store nevertheless.
        try? destination.execute(sql: "PRAGMA journal_mode = PERSIST")
        try? destination.execute(sql: "PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = DELETE")
    }

    private func write(_ source: Database, besideReadersOf destination: Database) throws {
        guard case .unchanged = expectation, let witness = try store.openDatabase(timeout: 2) else {
            try store.steps.reached("before the transaction")
            return try DatabaseCopy.run(from: source, to: destination)
        }
        defer { try? witness.close() }
        let version = try witness.inDatabase { db in
            let version = try dataVersion(db)
            try check(db)
            return version
        }
        try store.steps.reached("before the transaction")
        try DatabaseCopy.run(from: source, to: destination) {
            guard try witness.inDatabase(dataVersion) == version else { throw localChanges }
        }
    }

    /// A number that changes for a connection whenever another connection commits.
    private func dataVersion(_ db: Database) throws -> Int? {
        try Int.fetchOne(db, sql: "PRAGMA data_version")
    }

    private func refuseOtherPageSize(of source: Database, for destination: Database) throws {
        let sizes = try [source, destination].map { try Int.fetchOne($0, sql: "PRAGMA page_size") }
        guard sizes[0] != sizes[1] else { return }
        throw StoreSyncError(
            .unsupportedFormat,
            """
            \(store.path) is in WAL mode and has another page size than its replacement, so SQLite can't write that into it. \
            Close the store in all programs, then pull it as a file.
            """
        )
    }
}
