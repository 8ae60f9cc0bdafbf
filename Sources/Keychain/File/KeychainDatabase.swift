import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import SyncCryptography
import ThreadSupport

/// The SQLite file of a keychain, and the key that opens its sealed content.
///
/// All methods block.
final class KeychainDatabase: Sendable {
    /// The application ID in the SQLite header: "SSky" in ASCII.
    private static let applicationIdentifier = 0x5353_6B79
    private static let version = 1

    private let url: URL
    private let queue: DatabaseQueue
    private let memory = Locked(Memory())
    private let steps: StepObserver

    private struct Memory {
        /// The key; `nil` while the keychain is locked.
        var key: EpochKey?
        /// How often ``KeychainDatabase/lock()`` was called.
        var lockCount = 0
    }

    init(url: URL, _ options: FileKeychain.Options) throws {
        self.url = url
        steps = options.steps
        var configuration = Configuration.ofThisPackage
        configuration.busyMode = .timeout(options.busyTimeout)
        configuration.prepareDatabase { db in
            // The rollback journal is truncated, since a power cut may undo its deletion, and the commit with it.
            // Deleted content is overwritten: a former key must not open what was sealed with it.
            try db.execute(
                sql: "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON"
            )
        }
        do {
            // Only SQLite opens the file: closing another descriptor would drop this process's locks on it.
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
            // Another process may have prepared the file first.
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

    /// Whether the tables exist; `false` for a new file.
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
            throw KeychainError(.unsupportedFormat, "A newer program wrote \(url.path). Update this program.")
        }
        return true
    }

    // MARK: The key

    /// Returns the wrapped key in the file; `nil` if the keychain is new.
    func wrappedKey() throws -> WrappedKey? {
        try access { try $0.read(Self.wrappedKey) }
    }

    private static func wrappedKey(_ db: Database) throws -> WrappedKey? {
        let statement = try db.cachedStatement(sql: "SELECT epoch, kind, bytes FROM wrappedKey")
        guard let row = try Row.fetchOne(statement) else { return nil }
        guard let epoch = String.fromDatabaseValue(row["epoch"]).flatMap(UUID.init(uuidString:)),
            let kind = String.fromDatabaseValue(row["kind"]).flatMap(KeychainLock.Kind.init(rawValue:)),
            let bytes = Data.fromDatabaseValue(row["bytes"])
        else { throw DatabaseError.ofContent("its key can't be read") }
        return WrappedKey(epoch: epoch, kind: kind, bytes: Array(bytes))
    }

    /// Stores the key of a new keychain; does nothing if another process stored a key first.
    func establish(_ wrapped: WrappedKey, _ key: EpochKey) throws {
        try transact { db in
            guard try Self.wrappedKey(db) == nil else { return }
            let keychain = KeychainTransaction(db: db, key: key)
            try keychain.write(wrapped, clock: ReplicaClock(replica: UUID()))
        }
    }

    /// Keeps the key in memory, unless the keychain's lock was changed since the key was unwrapped.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - count: The ``lockCount`` when the caller began to unlock the keychain.
    /// - Returns: Whether it's still the keychain's key.
    /// - Throws: ``KeychainError`` with code `locked` if ``lock()`` was called since then.
    func unlock(_ key: EpochKey, lockedTimes count: Int) throws -> Bool {
        try access { queue in
            try queue.read { db in
                guard try Self.wrappedKey(db)?.epoch == key.epoch else { return false }
                _ = try KeychainTransaction(db: db, key: key).clock()
                // Within the transaction, so that another task can't change the lock in between.
                let isUnlocked = memory.withLock { memory in
                    guard memory.lockCount == count else { return false }
                    memory.key = key
                    return true
                }
                guard isUnlocked else {
                    throw KeychainError(
                        .locked,
                        "The keychain was locked while it was being unlocked. Unlock it again."
                    )
                }
                return true
            }
        }
    }

    /// Discards the key.
    func lock() {
        memory.withLock { memory in
            memory.key = nil
            memory.lockCount += 1
        }
    }

    /// How often the keychain was locked by ``lock()``.
    var lockCount: Int { memory.withLock(\.lockCount) }

    /// Whether there is no key in memory.
    var isLocked: Bool { memory.withLock { $0.key == nil } }

    /// Seals all content again with another key.
    func relock(_ wrapped: WrappedKey, _ key: EpochKey) throws {
        try transact {
            try transaction($0, currentKey).reseal(by: wrapped, key)
        } onCommit: {
            // Before the next transaction, which would find that its key isn't the file's. A keychain that was locked meanwhile
            // stays locked.
            memory.withLock { if $0.key != nil { $0.key = key } }
        }
    }

    // MARK: Transactions

    /// Reads from the unlocked keychain.
    func read<Value>(_ body: (KeychainTransaction) throws -> Value) throws -> Value {
        try access { queue in try queue.read { try body(self.transaction($0, self.currentKey)) } }
    }

    /// Changes the unlocked keychain in one transaction.
    func write<Value>(_ body: (KeychainTransaction) throws -> Value) throws -> Value {
        try transact { try body(self.transaction($0, self.currentKey)) }
    }

    private var currentKey: EpochKey {
        get throws {
            guard let key = memory.withLock(\.key) else {
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
            // This doesn't count as a call of `lock()`: a task that unlocks the keychain again continues.
            memory.withLock { $0.key = nil }
            throw KeychainError(.locked, "The keychain's lock was changed by another program. Unlock it again.")
        }
        return KeychainTransaction(db: db, key: key)
    }

    private func transact<Value>(
        _ body: (Database) throws -> Value,
        onCommit: () -> Void = {}
    ) throws -> Value {
        try access { queue in
            var result: Value?
            try queue.inDatabase { db in
                // Immediate, so that two processes that read and then write wait for each other from the start of the transaction.
                try db.inTransaction(.immediate) {
                    result = try body(db)
                    try steps.reached("before a commit of the keychain")
                    return .commit
                }
                onCommit()
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
    /// Converts an error of a keychain's database.
    fileprivate init(database error: any Error, at url: URL) {
        if let error = error as? KeychainError {
            self = error
            return
        }
        switch (error as? DatabaseError)?.resultCode {
        case _ where (error as? DatabaseError)?.fault(ofDatabaseAt: url.path) == .reading:
            self.init(.cannotRead, DatabaseFault.unreadable("The keychain \(url.path)"), cause: error)
        case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT:
            self.init(.corrupt, "The keychain \(url.path) is damaged. Put it back from a backup.", cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.busy, "Another program is using the keychain \(url.path). Try again.", cause: error)
        case .SQLITE_ABORT, .SQLITE_INTERRUPT:
            self.init(
                .busy,
                "The keychain \(url.path) was closed because the app is being suspended. Try again when the app resumes.",
                cause: error
            )
        default:
            self.init(
                .cannotWrite,
                "The keychain \(url.path) can't be used. Check the permissions of its directory and the free space on the disk.",
                cause: error
            )
        }
    }
}
