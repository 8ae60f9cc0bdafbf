import DatabaseSupport
import Foundation
import GRDB
import RemoteStorage

/// The tables of `state.sqlite`.
///
/// Each operation reads and writes facts, stores and uploads many times, with statements that the connection keeps prepared.
///
/// What queries select by is in columns; values are JSON.
enum StateSchema {
    static func migrate(_ database: DatabaseQueue) throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE lockName (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
                    CREATE TABLE client (
                        remote TEXT NOT NULL, application TEXT NOT NULL, client TEXT NOT NULL,
                        PRIMARY KEY (remote, application)) WITHOUT ROWID;
                    CREATE TABLE staging (
                        remote TEXT NOT NULL, application TEXT NOT NULL, name TEXT NOT NULL,
                        PRIMARY KEY (remote, application, name)) WITHOUT ROWID;
                    CREATE TABLE fact (
                        remote TEXT NOT NULL, application TEXT NOT NULL, document TEXT NOT NULL, name TEXT NOT NULL,
                        value TEXT NOT NULL, PRIMARY KEY (remote, application, document, name)) WITHOUT ROWID;
                    CREATE TABLE store (
                        remote TEXT NOT NULL, application TEXT NOT NULL, document TEXT NOT NULL, path TEXT NOT NULL,
                        value TEXT NOT NULL, PRIMARY KEY (remote, application, document, path)) WITHOUT ROWID;
                    CREATE TABLE upload (
                        upload TEXT PRIMARY KEY, remote TEXT NOT NULL, application TEXT NOT NULL,
                        document TEXT NOT NULL, client TEXT NOT NULL, generation INTEGER NOT NULL,
                        value TEXT NOT NULL) WITHOUT ROWID;
                    """
            )
        }
        migrator.registerMigration("2") { db in
            try db.execute(
                sql: """
                    ALTER TABLE upload ADD COLUMN isPublished BOOLEAN NOT NULL DEFAULT FALSE;
                    UPDATE upload SET isPublished = json_extract(value, '$.isPublished');
                    CREATE INDEX uploadGeneration ON upload (remote, application, document, generation);
                    CREATE INDEX unpublishedUpload ON upload (remote, application, document, generation)
                        WHERE NOT isPublished;
                    """
            )
        }
        guard try database.read(migrator.hasBeenSuperseded) == false else { throw NewerVersion() }
        try migrator.migrate(database)
    }

    /// The database was written by a newer version of this program.
    struct NewerVersion: Error {}

    /// This device's identifiers in all applications.
    static func fetchClients(_ db: Database) throws -> [ApplicationKey: String] {
        let rows = try Row.fetchAll(db, sql: "SELECT remote, application, client FROM client")
        return Dictionary(
            uniqueKeysWithValues: rows.map {
                (ApplicationKey(remote: $0["remote"], application: $0["application"]), $0["client"])
            }
        )
    }

    /// Saves this device's identifier in an application, in place of a former one.
    static func save(client: String, _ db: Database, _ key: ApplicationKey) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO client (remote, application, client) VALUES (?, ?, ?)",
            arguments: [key.remote, key.application, client]
        )
    }

    /// Deletes what a table has of an application, as far as the condition selects it.
    static func delete(
        _ table: String,
        where condition: String = "TRUE",
        _ db: Database,
        _ key: ApplicationKey
    ) throws {
        try db.execute(
            sql: "DELETE FROM \(table) WHERE remote = ? AND application = ? AND \(condition)",
            arguments: [key.remote, key.application]
        )
    }

    // MARK: Facts

    static func fetch<Value: Decodable>(
        _ type: Value.Type,
        _ db: Database,
        _ name: String,
        _ key: ApplicationKey
    ) throws -> Value? {
        try fetch(type, db, name, DocumentKey(application: key, document: ""))
    }

    /// One fact of a document; an empty document name, which no document has, stands for the application itself.
    static func fetch<Value: Decodable>(
        _ type: Value.Type,
        _ db: Database,
        _ name: String,
        _ key: DocumentKey
    ) throws -> Value? {
        let row = try String.fetchOne(
            db.cachedStatement(
                sql: "SELECT value FROM fact WHERE remote = ? AND application = ? AND document = ? AND name = ?"
            ),
            arguments: [key.application.remote, key.application.application, key.document, name]
        )
        return try row.map { try decode($0) }
    }

    static func save(_ value: some Encodable, _ db: Database, _ name: String, _ key: ApplicationKey) throws {
        try save(value, db, name, DocumentKey(application: key, document: ""))
    }

    static func save(_ value: some Encodable, _ db: Database, _ name: String, _ key: DocumentKey) throws {
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO fact (remote, application, document, name, value) VALUES (?, ?, ?, ?, ?)"
        ).execute(
            arguments: [
                key.application.remote, key.application.application, key.document, name, encode(value),
            ]
        )
    }

    /// The documents of an application that have a fact of this name.
    static func fetchDocuments(_ db: Database, having name: String, _ key: ApplicationKey) throws -> [String] {
        try String.fetchAll(
            db,
            sql: "SELECT document FROM fact WHERE remote = ? AND application = ? AND name = ? ORDER BY document",
            arguments: [key.remote, key.application, name]
        )
    }

    /// All documents of an application of which something is remembered.
    static func fetchDocuments(_ db: Database, _ key: ApplicationKey) throws -> [DocumentKey] {
        let documents = try String.fetchAll(
            db,
            sql: """
                SELECT document FROM fact WHERE remote = :remote AND application = :application AND document != ''
                UNION SELECT document FROM store WHERE remote = :remote AND application = :application
                UNION SELECT document FROM upload WHERE remote = :remote AND application = :application
                """,
            arguments: ["remote": key.remote, "application": key.application]
        )
        return documents.map { DocumentKey(application: key, document: $0) }
    }

    /// The uploads that were opened of the document with this integrity key.
    static func fetchMemory(_ db: Database, _ key: DocumentKey, _ integrityKey: String) throws -> RollbackMemory {
        try fetch(RollbackMemory.self, db, "rollbackMemory \(integrityKey)", key) ?? RollbackMemory()
    }

    static func save(_ memory: RollbackMemory, _ db: Database, _ key: DocumentKey, _ integrityKey: String) throws {
        try save(memory, db, "rollbackMemory \(integrityKey)", key)
    }

    // MARK: Stores and uploads

    static func fetchStores(_ db: Database, _ key: DocumentKey) throws -> [StoreRecord] {
        try String.fetchAll(
            db.cachedStatement(sql: "SELECT value FROM store WHERE remote = ? AND application = ? AND document = ?"),
            arguments: [key.application.remote, key.application.application, key.document]
        ).map { try decode($0) }
    }

    static func fetchStore(_ db: Database, at path: LocalPath, _ key: DocumentKey) throws -> StoreRecord? {
        try fetchStores(db, key).first { $0.path == path }
    }

    /// The stores of all documents of an application.
    static func fetchStores(_ db: Database, _ key: ApplicationKey) throws -> [StoreRecord] {
        try String.fetchAll(
            db.cachedStatement(sql: "SELECT value FROM store WHERE remote = ? AND application = ?"),
            arguments: [key.remote, key.application]
        ).map { try decode($0) }
    }

    static func save(_ store: StoreRecord, _ db: Database) throws {
        let key = store.document
        try db.cachedStatement(
            sql: "INSERT OR REPLACE INTO store (remote, application, document, path, value) VALUES (?, ?, ?, ?, ?)"
        ).execute(
            arguments: [
                key.application.remote, key.application.application, key.document, store.path.text, encode(store),
            ]
        )
    }

    static func removeStore(at path: LocalPath, _ db: Database, _ key: DocumentKey) throws {
        try db.execute(
            sql: "DELETE FROM store WHERE remote = ? AND application = ? AND document = ? AND path = ?",
            arguments: [key.application.remote, key.application.application, key.document, path.text]
        )
    }

    /// This device's uploads to a document.
    static func fetchUploads(_ db: Database, _ key: DocumentKey, _ wanted: UploadSelection) throws -> [UploadRecord] {
        try String.fetchAll(
            db,
            sql: "SELECT value FROM upload WHERE remote = ? AND application = ? AND document = ? AND \(wanted.sql)",
            arguments: [key.application.remote, key.application.application, key.document] + wanted.arguments
        ).map { try decode($0) }
    }

    static func save(_ upload: UploadRecord, _ db: Database) throws {
        let key = upload.document
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO upload (upload, remote, application, document, client, generation, isPublished, value)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(
            arguments: [
                upload.name.upload, key.application.remote, key.application.application, key.document,
                upload.name.client.rawValue, upload.name.generation, upload.isPublished, encode(upload),
            ]
        )
    }

    // MARK: JSON

    static func decode<Value: Decodable>(_ json: String) throws -> Value {
        do {
            return try JSONDecoder().decode(Value.self, from: Data(json.utf8))
        } catch {
            throw DatabaseError.ofContent("a value in it can't be read")
        }
    }

    static func encode(_ value: some Encodable) throws -> String {
        String(decoding: try JSONEncoder().encode(value), as: UTF8.self)
    }
}

extension StoreSyncError {
    /// Translates an error of the state database.
    init(state error: any Error, at url: URL) {
        if let error = error as? StoreSyncError {
            self = error
            return
        }
        let database = url.appending(path: "state.sqlite").path
        let (code, message) = ((error as? DatabaseError)?.resultCode, (error as? DatabaseError)?.message ?? "")
        // A missing table is an error of a statement, also that of migrations: then each of them is made again.
        let lacksTable =
            code == .SQLITE_ERROR && (message.hasPrefix("no such ") || message.hasSuffix(" already exists"))
        switch code {
        case _ where (error as? DatabaseError)?.fault(ofDatabaseAt: database) == .reading:
            self.init(.cannotWrite, DatabaseFault.unreadable("\(database) on this device"), cause: error)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT,
            _ where lacksTable:
            self.init(
                .corrupt,
                """
                The state directory \(url.path) on this device is damaged. Restore it from a backup, or move it away and \
                start with a new one. Keep the former one: it holds keychain items (keychains, keychain-secret), and edits \
                that may not be published (replicas). The new one has another client identifier, no memory of rollbacks, \
                and not the keys of encrypted applications, which their passwords give back.
                """,
                cause: error
            )
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.busy, "The state directory \(url.path) is in use. Try again.", cause: error)
        case .SQLITE_ABORT, .SQLITE_INTERRUPT:
            self.init(.busy, .suspended(url.path), cause: error)
        case nil where error is StateSchema.NewerVersion:
            self.init(
                .unsupportedFormat,
                "The state directory \(url.path) was written by a newer version. Update this program, or choose another with --state."
            )
        default:
            self.init(
                .cannotWrite,
                "The state directory \(url.path) on this device can't be used. Check its permissions and the free space on the disk.",
                cause: error
            )
        }
    }
}
