import Foundation
import GRDB
import SyncCryptography
import ThreadSupport

/// The SQLite file of a keychain, and the key that opens what is sealed in it.
///
/// Everything in here blocks.
final class KeychainDatabase: Sendable {
    /// What the file says it is: "SSky" in ASCII.
    private static let applicationIdentifier = 0x5353_6B79
    private static let version = 1

    private let url: URL
    private let queue: DatabaseQueue
    private let key = Locked<EpochKey?>(nil)
    private let beforeCommit: @Sendable () throws -> Void

    init(url: URL, busyTimeout: TimeInterval, beforeCommit: @escaping @Sendable () throws -> Void) throws {
        self.url = url
        self.beforeCommit = beforeCommit
        var configuration = Configuration()
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            // A rollback journal that is truncated, since its deletion may be undone by a power cut, and the commit with it.
            // What is deleted is overwritten: a former key must not open what was sealed by it.
            try db.execute(
                sql: "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON"
            )
        }
        do {
            // SQLite alone opens the file, since closing another descriptor would drop the locks of this process on it.
            queue = try DatabaseQueue(path: url.path, configuration: configuration)
            guard chmod(url.path, 0o600) == 0 else {
                throw KeychainError(.cannotWrite, "The mode of \(url.path) can't be changed. Use a file of your own.")
            }
            try Self.prepare(queue, url)
        } catch {
            throw KeychainError(database: error, at: url)
        }
    }

    private static func prepare(_ queue: DatabaseQueue, _ url: URL) throws {
        guard try !queue.read({ try isPrepared($0, url) }) else { return }
        try queue.inTransaction(.immediate) { db in
            // Another process may have been quicker.
            guard try !isPrepared(db, url) else { return .rollback }
            try db.execute(
                sql: """
                    PRAGMA application_id = \(applicationIdentifier);
                    PRAGMA user_version = \(version);
                    CREATE TABLE wrappedKey (
                        id INTEGER PRIMARY KEY CHECK (id = 0), epoch TEXT NOT NULL, kind TEXT NOT NULL,
                        bytes BLOB NOT NULL, clock BLOB NOT NULL) STRICT;
                    CREATE TABLE item (
                        accessGroup TEXT NOT NULL, service TEXT NOT NULL, account TEXT NOT NULL,
                        isSynchronizable INTEGER NOT NULL, isTombstone INTEGER NOT NULL,
                        counter INTEGER NOT NULL, replica TEXT NOT NULL, sealed BLOB NOT NULL,
                        PRIMARY KEY (accessGroup, service, account, isSynchronizable)) STRICT, WITHOUT ROWID;
                    """
            )
            return .commit
        }
    }

    /// Whether the tables are there; not in a new file.
    private static func isPrepared(_ db: Database, _ url: URL) throws -> Bool {
        let identifier = try Int.fetchOne(db, sql: "PRAGMA application_id")
        let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        if identifier == 0, version == 0, try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") == 0 {
            return false
        }
        guard identifier == applicationIdentifier else {
            throw KeychainError(.unsupportedFormat, "\(url.path) is a database, but no keychain. Name another file.")
        }
        guard version == Self.version else {
            throw KeychainError(.unsupportedFormat, "A newer program wrote the keychain \(url.path). Update this one.")
        }
        return true
    }

    // MARK: The key

    /// The key as it stands in the file; `nil` while there is none.
    func wrappedKey() throws -> WrappedKey? {
        try access { try $0.read(Self.wrappedKey) }
    }

    private static func wrappedKey(_ db: Database) throws -> WrappedKey? {
        guard let row = try Row.fetchOne(db, sql: "SELECT epoch, kind, bytes FROM wrappedKey") else { return nil }
        guard let epoch = String.fromDatabaseValue(row["epoch"]).flatMap(UUID.init(uuidString:)),
            let kind = String.fromDatabaseValue(row["kind"]).flatMap(KeychainLock.Kind.init(rawValue:)),
            let bytes = Data.fromDatabaseValue(row["bytes"])
        else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "its key can't be read") }
        return WrappedKey(epoch: epoch, kind: kind, bytes: Array(bytes))
    }

    /// Gives a new keychain its key, unless somebody was quicker: then nothing happens.
    func establish(_ wrapped: WrappedKey, _ key: EpochKey) throws {
        try transact { db in
            guard try Self.wrappedKey(db) == nil else { return }
            let keychain = KeychainTransaction(db: db, key: key)
            try keychain.write(wrapped, clock: ReplicaClock(replica: UUID()))
        }
    }

    /// Remembers the key.
    ///
    /// Throws if it isn't the key that the file's content is sealed with.
    func unlock(_ key: EpochKey) throws {
        try access { try $0.read { db in _ = try self.transaction(db, key).clock() } }
        self.key.withLock { $0 = key }
    }

    /// Forgets the key.
    func lock() {
        key.withLock { $0 = nil }
    }

    /// Whether there is a key in memory.
    var isLocked: Bool { key.withLock { $0 == nil } }

    /// Seals everything by another key.
    func relock(_ wrapped: WrappedKey, _ key: EpochKey) throws {
        try write { try $0.reseal(by: wrapped, key) }
        self.key.withLock { $0 = key }
    }

    // MARK: Transactions

    /// Reads from the unlocked keychain.
    func read<Value>(_ body: (KeychainTransaction) throws -> Value) throws -> Value {
        try access { queue in try queue.read { try body(self.transaction($0, self.currentKey)) } }
    }

    /// Changes the unlocked keychain, wholly or not at all.
    func write<Value>(_ body: (KeychainTransaction) throws -> Value) throws -> Value {
        try transact { try body(self.transaction($0, self.currentKey)) }
    }

    private var currentKey: EpochKey {
        get throws {
            guard let key = key.withLock({ $0 }) else {
                throw KeychainError(
                    .locked,
                    "The keychain is locked. Unlock it with its passphrase or its device secret."
                )
            }
            return key
        }
    }

    private func transaction(_ db: Database, _ key: EpochKey) throws -> KeychainTransaction {
        guard let wrapped = try Self.wrappedKey(db), wrapped.epoch == key.epoch else {
            lock()
            throw KeychainError(.locked, "The keychain's lock was changed by another program. Unlock it again.")
        }
        return KeychainTransaction(db: db, key: key)
    }

    private func transact<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try access { queue in
            var result: Value?
            // Immediate, so that two processes that read and then write wait for each other from the start.
            try queue.inTransaction(.immediate) { db in
                result = try body(db)
                try beforeCommit()
                return .commit
            }
            guard let result else { preconditionFailure("a transaction that committed has a result") }
            return result
        }
    }

    private func access<Value>(_ body: (DatabaseQueue) throws -> Value) throws -> Value {
        do {
            return try body(queue)
        } catch let error as DatabaseError {
            throw KeychainError(database: error, at: url)
        }
    }
}

extension KeychainError {
    /// What an error of a keychain's database means.
    fileprivate init(database error: any Error, at url: URL) {
        if let error = error as? KeychainError {
            self = error
            return
        }
        switch (error as? DatabaseError)?.resultCode {
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            self.init(.corrupt, "The keychain \(url.path) is damaged. Put it back from a backup.", cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.busy, "Another program is using the keychain \(url.path). Try again.", cause: error)
        default:
            self.init(
                .cannotWrite,
                "The keychain \(url.path) can't be used. Check the permissions of its directory and the room on the disk.",
                cause: error
            )
        }
    }
}
