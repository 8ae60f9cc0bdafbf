import Foundation
import GRDB
import GRDBSQLite
import StoreChanges

extension StoreSnapshot {
    /// Checks, without copying it, that a store can be copied.
    ///
    /// Blocks.
    ///
    /// - Parameter store: The store.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `unsupportedFormat`; `CancellationError`.
    static func checkSource(_ store: LocalStore) throws {
        try checkExists(store)
        switch try open(store) {
        case .database(let database): try? database.close()
        case .databaseAtRest: break
        case .file: try refuseSideFiles(of: store)
        }
    }

    /// Checks that a store is an SQLite database whose schema and tables can be read.
    ///
    /// Blocks as long as reading the store takes.
    ///
    /// - Parameter store: The store.
    /// - Throws: ``StoreSyncError``: `storeNotFound`, `busy`, `corrupt`, `unsupportedFormat`; `CancellationError`.
    static func checkDatabase(_ store: LocalStore) throws {
        try checkExists(store)
        switch try open(store) {
        case .database(let database):
            defer { try? database.close() }
            let tables: [String]
            do {
                tables = try database.read { db in
                    // Unlike a copy, a synchronization needs the whole schema.
                    try db.execute(sql: "PRAGMA writable_schema = RESET")
                    return try readTables(db)
                }
            } catch {
                throw StoreSyncError(database: error, at: store.url.path).orCancellation
            }
            guard !StoreSchema.isOfCoreData(tables: tables) else {
                throw StoreSyncError(
                    .unsupportedFormat,
                    "\(store.path) belongs to Core Data, whose stores can't be synchronized record by record. Push it as a whole."
                )
            }
        case .databaseAtRest: break
        case .file: throw try withoutTables(store)
        }
    }

    /// The error for a store that is empty, or isn't a database.
    private static func withoutTables(_ store: LocalStore) throws -> StoreSyncError {
        try store.byteCount == 0
            ? StoreSyncError(
                .storeNotFound,
                """
                \(store.path) is an empty database: it has no tables to synchronize. Create them with the app first. If \
                another device has synchronized the document, remove this file instead, and synchronize with --take remote: \
                that downloads the document's store.
                """
            )
            : StoreSyncError(
                .storeNotFound,
                """
                \(store.path) isn't an SQLite database, so it has no records to synchronize. Name an SQLite database, or push \
                the file as a whole.
                """
            )
    }

    /// Reads the pages of all tables, and no values: the app's functions and collations aren't needed.
    ///
    /// `PRAGMA quick_check` would need them.
    ///
    /// - Returns: The names of the tables.
    private static func readTables(_ db: Database) throws -> [String] {
        let stored = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
        let tables = try String.fetchAll(db, sql: stored)
        // SQLite needs the collations of a table `WITHOUT ROWID`, although counting compares no values.
        sqlite3_collation_needed(db.sqliteConnection, nil) { _, connection, encoding, name in
            _ = sqlite3_create_collation_v2(connection, name, encoding, nil, { _, _, _, _, _ in 0 }, nil)
        }
        for table in tables {
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table.quotedName) NOT INDEXED")
        }
        return tables
    }
}
