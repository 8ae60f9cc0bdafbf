import DatabaseSupport
package import FileSupport
public import Foundation
import GRDB
import Keychain
import Operations
import SyncCryptography
import ThreadSupport

/// This device's memory: its client identifiers, what it has seen, and its pending work.
///
/// Two state directories are two devices.
///
/// It holds a database with the memory, the keychains of applications with the secret that opens them, the replicas of
/// synchronized stores, and lock files. Losing it costs a new client identifier, the memory of rollbacks, and the keys of
/// encrypted applications, which their passwords give back. It also costs keychain items that are on this device alone, and the
/// log of conflicts. It never costs a store. Without it, the device can't tell which edits of a synchronized store aren't published:
/// ``SynchronizationRequest/takenSide`` has to say what counts.
///
/// Methods that aren't `async` block, so operations call them on an executor for blocking calls.
public final class StateDirectory: Sendable {
    let url: URL
    /// The directory's path, in which no symbolic link occurs.
    var path: LocalPath { LocalPath(url.path.canonicalPath ?? url.path) }
    private let database: DatabaseQueue
    /// Observes this device's changes: each one of the state directory, before and after its commit, and each step in which a
    /// download replaces a store.
    let steps: StepObserver
    /// Creates the identifiers of clients.
    private let newIdentifier: @Sendable () -> UUID
    /// Returns this device's time, which may be wrong.
    let now: @Sendable () -> Date
    /// The keychain, which is opened at its first use.
    let openKeychain = Locked<FileKeychain?>(nil)
    /// This device's identifiers in applications, as last read or written.
    let knownClients = Locked<[ApplicationKey: String]>([:])
    /// The uploads that operations of this process may have published.
    let begunUploads = BegunUploads()
    /// How long a file on the remote may take to arrive, in seconds.
    private static let longestArrival: TimeInterval = 30 * 24 * 3600
    /// Files on the remote that haven't changed since this time have arrived, or never will.
    var startOfArrivals: Date { now() - Self.longestArrival }
    /// The observers to call when an operation detects that this device isn't registered any more.
    let deregistrations = DeregistrationObservers()

    /// Opens a state directory, and creates it with mode 0700 if it doesn't exist.
    ///
    /// On Apple platforms it's excluded from backups: a restored state directory would make two devices of one. If it was copied
    /// from another device, whose system's keychain has its secret, it continues as another client, without the keys.
    ///
    /// Blocks while another process opens the directory, and while its database is migrated: don't call it on the main actor,
    /// where ``open(at:root:)`` doesn't block.
    ///
    /// - Parameters:
    ///   - url: The directory.
    ///   - root: A directory above the stores whose path may change, such as the home directory of an app's container, which has
    ///     another path after an update of the app. When it isn't at its former path any more, stores in it are recognized under
    ///     the new one. `nil` if paths stay.
    /// - Throws: ``StoreSyncError`` with code `cannotWrite`, `corrupt`, or `unsupportedFormat` if a newer version wrote it.
    public convenience init(url: URL, root: URL? = nil) throws {
        try self.init(url: url, steps: .none)
        if let root { try moveStores(toRoot: root) }
    }

    /// Opens a state directory as ``init(url:root:)`` does, on a thread for blocking calls.
    ///
    /// ```swift
    /// let state = try await StateDirectory.open(at: support.appending(path: "sync"))
    /// ```
    ///
    /// Cancelling the task doesn't end the wait.
    ///
    /// - Parameters:
    ///   - url: The directory, which is created if it doesn't exist.
    ///   - root: A directory above the stores whose path may change; `nil` if paths stay.
    /// - Returns: The state directory.
    /// - Throws: ``StoreSyncError``, as ``init(url:root:)`` does.
    public static func open(at url: URL, root: URL? = nil) async throws -> StateDirectory {
        try await runBlocking { try StateDirectory(url: url, root: root) }
    }

    package init(
        url: URL,
        steps: StepObserver,
        newIdentifier: @escaping @Sendable () -> UUID = { UUID() },
        now: @escaping @Sendable () -> Date = { .now }
    ) throws {
        self.url = url
        self.steps = steps
        self.newIdentifier = newIdentifier
        self.now = now
        try Self.makeDirectory(at: url)
        let file = url.appending(path: "state.sqlite").path
        var configuration = Configuration.ofThisPackage
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            // A rollback journal, not a WAL: the closed database is one file and an empty journal, and can be copied.
            // Ending the journal commits. A power cut may undo the journal's deletion, and the commit with it, since
            // SQLite doesn't sync the directory afterwards. SQLite does sync the journal's truncation.
            try db.execute(sql: "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL")
        }
        do {
            // One process at a time creates the tables.
            let opening = try FileLock(waitingAt: url.appending(path: "locks/opening"))
            defer { opening.release() }
            // Only SQLite opens the file, since closing another descriptor would drop this process's locks on it.
            database = try DatabaseQueue(path: file, configuration: configuration)
            guard chmod(file, 0o600) == 0 else { throw StoreSyncError(writing: file, errno: errno) }
            try StateSchema.migrate(database)
            try becomeAnotherClientIfCopied()
            let clients = try database.read { try StateSchema.fetchClients($0) }
            knownClients.withLock { $0 = clients }
        } catch {
            throw StoreSyncError(state: error, at: url)
        }
    }

    // MARK: Access

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        do {
            return try database.read(body)
        } catch let error as DatabaseError {
            throw StoreSyncError(state: error, at: url)
        }
    }

    /// Changes the database in one transaction, which is on disk when this returns.
    @discardableResult
    func write<Value>(_ change: String, _ body: (Database) throws -> Value) throws -> Value {
        try steps.reached("before \(change)")
        let value: Value
        do {
            value = try database.barrierWriteWithoutTransaction { db in
                var result: Value?
                // Immediate, so that two processes that read and then write wait for each other from the start.
                try db.inTransaction(.immediate) {
                    result = try body(db)
                    return .commit
                }
                guard let result else { preconditionFailure("a transaction that committed has a result") }
                return result
            }
        } catch let error as DatabaseError {
            throw StoreSyncError(state: error, at: url)
        }
        try steps.reached("after \(change)")
        return value
    }

    // MARK: Locks

    /// Takes a lock for an operation, or throws ``StoreSyncError/Code/busy`` at once if another operation holds it.
    nonisolated(nonsending) func lock(
        _ subject: FileLock.Subject,
        _ mode: FileLock.Mode,
        for context: OperationContext
    ) async throws -> FileLock {
        try await context.blocking { try lock(subject, mode, by: context.name) }
    }

    /// Takes a lock, or throws ``StoreSyncError/Code/busy`` at once if another operation holds it.
    ///
    /// The error names the holder.
    func lock(
        _ subject: FileLock.Subject,
        _ mode: FileLock.Mode,
        by holder: String = "another operation"
    ) throws -> FileLock {
        // Lock files are numbered, since a name may contain any character of a path.
        let number: Int64
        do {
            number = try database.write { db in
                try db.execute(sql: "INSERT OR IGNORE INTO lockName (name) VALUES (?)", arguments: [subject.name])
                return try Int64.fetchOne(db, sql: "SELECT id FROM lockName WHERE name = ?", arguments: [subject.name])
                    ?? 0
            }
        } catch {
            throw StoreSyncError(state: error, at: url)
        }
        return try FileLock(at: url.appending(path: "locks/\(number)"), subject, mode, by: holder)
    }

    // MARK: The applied sets of local stores

    /// The directory that holds the applied sets of a local store.
    func appliedSets(for path: LocalPath, in document: DocumentKey) -> AppliedSetsDirectory {
        AppliedSetsDirectory(appliedURL, path: path, document: document)
    }

    /// The directory that holds those of all stores.
    var appliedURL: URL { url.appending(path: "applied", directoryHint: .isDirectory) }
}

// MARK: - Applications

extension StateDirectory {
    /// This device's identifier in an application, if it has one.
    func peekClientIdentifier(for key: ApplicationKey) throws -> String? {
        let client = try read { try Self.client($0, key) }
        noteClient(client, of: key)
        return client
    }

    /// This device's identifier in an application as this process knows it, for logs; doesn't block.
    func knownClient(of key: ApplicationKey) -> String? { knownClients.withLock { $0[key] } }

    func noteClient(_ client: String?, of key: ApplicationKey) {
        knownClients.withLock { $0[key] = client }
    }

    /// This device's identifier in an application; if it has none, exactly one process creates it.
    func clientIdentifier(for key: ApplicationKey) throws -> String {
        if let client = try peekClientIdentifier(for: key) { return client }
        let client = try write("client identifier") { db in
            if let client = try Self.client(db, key) { return client }
            return try makeClient(db, key)
        }
        noteClient(client, of: key)
        return client
    }

    /// Creates a new identifier in an application; the former one isn't used again.
    func replaceClientIdentifier(for key: ApplicationKey) throws -> String {
        let client = try write("new client identifier") { try makeClient($0, key) }
        noteClient(client, of: key)
        return client
    }

    private static func client(_ db: Database, _ key: ApplicationKey) throws -> String? {
        try String.fetchOne(
            db,
            sql: "SELECT client FROM client WHERE remote = ? AND application = ?",
            arguments: [key.remote, key.application]
        )
    }

    private func makeClient(_ db: Database, _ key: ApplicationKey) throws -> String {
        let client = newIdentifier().uuidString
        try StateSchema.save(client: client, db, key)
        return client
    }

    /// What this device knows of an application; `nil` if it hasn't registered with it.
    func pin(for key: ApplicationKey) throws -> ApplicationPin? {
        try read { try StateSchema.fetch(ApplicationPin.self, $0, "pin", key) }
    }

    /// Remembers what this device knows of an application.
    func setPin(_ pin: ApplicationPin, for key: ApplicationKey) throws {
        let known = try self.pin(for: key)
        guard known != pin else { return }
        if let known, known.epoch != pin.epoch {
            try remove(replicas(of: key))
            try removeTransferFiles(of: key)
        }
        try write("pin") { db in
            var pin = pin
            if let former = try StateSchema.fetch(ApplicationPin.self, db, "pin", key) {
                if former.epoch == pin.epoch {
                    // Another process may have seen a later password in the meantime.
                    if former.passwordVersion ?? 0 > pin.passwordVersion ?? 0 {
                        (pin.passwordVersion, pin.passwordDigest) = (former.passwordVersion, former.passwordDigest)
                    }
                } else {
                    try forgetDocuments(of: key, db)
                }
            } else {
                // A completed removal says nothing about an application that this device registers with afterwards. Nor does
                // what an operation has recorded that outlasted the removal.
                try StateSchema.delete("fact", where: "(name = 'removal' OR document != '')", db, key)
                for table in ["store", "upload"] { try StateSchema.delete(table, db, key) }
            }
            try StateSchema.save(pin, db, "pin", key)
        }
    }

    /// Discards what is known of the former application's documents, and marks their stores for replacement.
    ///
    /// The user has set up this device with another application of the same name.
    private func forgetDocuments(of key: ApplicationKey, _ db: Database) throws {
        let stores = try StateSchema.fetchStores(db, key)
        // The facts that are deleted name the applied sets of stores that were moved.
        for document in Set(stores.map(\.document)) { try settleMoves(of: document, db) }
        for var store in stores {
            store.mustReplace = true
            try StateSchema.save(store, db)
        }
        try StateSchema.delete("fact", where: "document != ''", db, key)
    }

    /// Remembers the newest key file of an application, if this device knows the application in this epoch.
    func noteKeyFile(_ keyFile: KeyFile, for key: ApplicationKey) throws {
        try write("password version") { db in
            guard var pin = try StateSchema.fetch(ApplicationPin.self, db, "pin", key), pin.isEncrypted,
                pin.epoch.flatMap(UUID.init(uuidString:)) == keyFile.epoch,
                pin.passwordVersion ?? 0 <= keyFile.passwordVersion
            else { return }
            pin.note(keyFile)
            try StateSchema.save(pin, db, "pin", key)
        }
    }

    /// What this device has read of the clients' keychain files.
    func keychainMemory(for key: ApplicationKey) throws -> KeychainFileMemory {
        try read { try StateSchema.fetch(KeychainFileMemory.self, $0, "keychainMemory", key) ?? KeychainFileMemory() }
    }

    /// Remembers what was read of the clients' keychain files.
    func setKeychainMemory(_ memory: KeychainFileMemory, for key: ApplicationKey) throws {
        guard try keychainMemory(for: key) != memory else { return }
        try write("keychain memory") { try StateSchema.save(memory, $0, "keychainMemory", key) }
    }

    /// The epoch of the application that this device began to create in place, if there is one.
    func begunEpoch(for key: ApplicationKey) throws -> String? {
        try read { try StateSchema.fetch(String.self, $0, "begunEpoch", key) }
    }

    /// Remembers the epoch of an application that is about to be created in place.
    func noteBegun(epoch: String, for key: ApplicationKey) throws {
        try write("begun epoch") { try StateSchema.save(epoch, $0, "begunEpoch", key) }
    }

    /// The names of staging directories that were neither moved into place nor removed yet.
    func stagings(for key: ApplicationKey) throws -> [String] {
        try read { db in
            try String.fetchAll(
                db,
                sql: "SELECT name FROM staging WHERE remote = ? AND application = ? ORDER BY name",
                arguments: [key.remote, key.application]
            )
        }
    }

    /// Remembers a staging directory's name before anything is written there.
    func recordStaging(name: String, for key: ApplicationKey) throws {
        try write("staging") { db in
            try db.execute(
                sql: "INSERT INTO staging (remote, application, name) VALUES (?, ?, ?)",
                arguments: [key.remote, key.application, name]
            )
        }
    }

    /// Forgets the name of a staging directory that doesn't exist any more.
    func forgetStaging(name: String, for key: ApplicationKey) throws {
        try write("staging removed") { db in
            try db.execute(
                sql: "DELETE FROM staging WHERE remote = ? AND application = ? AND name = ?",
                arguments: [key.remote, key.application, name]
            )
        }
    }
}
