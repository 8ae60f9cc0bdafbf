import DatabaseSupport
package import FileSupport
package import Foundation
package import GRDB
import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A store on this device, and the replica by which its edits and those of other devices are told apart.
///
/// Every call takes the replica's lock, and waits while another call holds it, in this process or in another one. Only single
/// calls wait for each other: a synchronization that finds another one of its document fails with `busy`, by its own lock.
package final class SynchronizedStore {
    /// What a replica belongs to.
    package struct Identity: Sendable {
        /// The document's name.
        package var document: String
        /// The document's origin: a store may belong to several documents, also of one name at two remotes.
        package var origin: String
        /// This device.
        package var client: ClientID
        /// What the store's schema doesn't say.
        package var rules: SyncRules

        package init(document: String, origin: String? = nil, client: ClientID, rules: SyncRules = .none) {
            self.document = document
            self.origin = origin ?? document
            self.client = client
            self.rules = rules
        }
    }

    /// How a store is synchronized.
    package struct Options: Sendable {
        /// The app's connection, through which the store is written; `nil` for a connection of its own.
        package var app: (any DatabaseWriter)?
        /// Whether the replica must exist: a removal of its document may have removed it meanwhile.
        package var requiresReplica: Bool
        /// Whether a store is taken that isn't the last synchronized one, because the user has said what counts.
        package var takesOtherStore: Bool
        /// Whether a store is taken that has an older schema than the replica, because the user has said that the app took
        /// a change of its schema back.
        var takesOlderSchema = false
        /// Whether the replica is being built again: the store with which it begins may have had another schema.
        var isRebuilding = false
        /// The size of the largest store that is read again after it was written, and whose log is left as it is, in bytes:
        /// reading it takes little time.
        package var largestReread: Int64
        /// Remembers the store's schema, for the next time that it's opened.
        package var schemas: SchemaMemory
        /// Observes the steps `captured` and `written`, before and after the store changes.
        package var observer: StepObserver
        /// Returns the time.
        package var now: @Sendable () -> Date

        package init(
            app: (any DatabaseWriter)? = nil,
            requiresReplica: Bool = false,
            takesOtherStore: Bool = false,
            largestReread: Int64 = 32 << 20,
            schemas: SchemaMemory = SchemaMemory(),
            observer: StepObserver = .none,
            now: @escaping @Sendable () -> Date = { .now }
        ) {
            self.app = app
            self.requiresReplica = requiresReplica
            self.takesOtherStore = takesOtherStore
            self.largestReread = largestReread
            self.schemas = schemas
            self.observer = observer
            self.now = now
        }
    }

    /// What a synchronization did.
    package struct Outcome: Sendable {
        /// The sets of this device that are new: what the user changed.
        package var captured: [OwnSet] = []
        /// How many rows of the store changed, by table.
        package var written: [String: ChangeCounts] = [:]
        /// The virtual tables that are out of date: they can't be rebuilt here, or the triggers that fill them didn't run.
        package var staleSearchIndexes: [String] = []
        /// Whether sets of other devices wait until this device's app is updated.
        package var needsNewerSchema = false
        /// The rows that the store's constraints refuse, by table: they wait until the store takes them.
        package var refusals: [RefusalSummary] = []
        /// The tables and columns that an update of the app has added again, after an earlier one had removed them.
        ///
        /// They stay until ``SynchronizedStore/forgetNamesAddedAgain()``.
        package var addedAgain: String?
        /// Sets that have to arrive before this device's edits can be captured; until then the store stays as it is.
        package var missing: MissingSets?
    }

    let url: URL
    /// Where a copy of a store with a rollback journal is, while it's captured.
    let copyURL: URL
    let store: StoreConnection
    let replicaDatabase: DatabaseQueue
    let replica: Replica
    private let lock: OpenFile
    /// The replica's file: a rebuilt replica is another one at its path.
    private let replicaFile: Stat?
    let observer: StepObserver
    let rules: SyncRules
    /// The tables whose definitions keep their rows from synchronizing.
    package let unsuitableTables: [String]
    /// The tables whose rows no key identifies in another document: every device numbers or counts them by itself.
    package let tablesWithoutNaturalKey: [String]
    private let schemas: SchemaMemory
    let largestReread: Int64
    let now: @Sendable () -> Date

    /// Opens a store and its replica, which is created if there is none, unless it must exist.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - replicaURL: The replica's database, in a directory that exists.
    ///   - identity: What the replica belongs to.
    ///   - options: How the store is synchronized.
    /// - Throws: ``StoreChangesError``.
    package init(
        storeAt url: URL,
        replicaAt replicaURL: URL,
        _ identity: Identity,
        options: Options = Options()
    ) throws {
        self.url = url
        copyURL = URL(filePath: replicaURL.path + ".copy")
        observer = options.observer
        rules = identity.rules
        schemas = options.schemas
        largestReread = options.largestReread
        now = options.now
        let (schema, token): (StoreSchema, StoreToken?)
        do {
            store = try StoreConnection(storeAt: url, ofReplicaAt: replicaURL, through: options.app)
            (schema, token) = try store.read { store in
                let schema = try options.schemas.schema(of: store, identity.rules)
                return (schema, try StoreToken.read(SQLConnection(store), origin: identity.origin))
            }
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
        unsuitableTables = schema.reports.filter(\.isUnsuitable).map(\.table)
        tablesWithoutNaturalKey = schema.tables.filter(\.lacksNaturalKey).map(\.name)
        let lock = try Self.lock(replicaURL)
        self.lock = lock
        defer { lock.unlock() }
        let isNew = try !Self.exists(replicaURL.path)
        if isNew, options.requiresReplica {
            throw StoreChangesError(
                .busy,
                "\(identity.document) was removed on this device meanwhile. Synchronize again."
            )
        }
        do {
            replicaDatabase = try DatabaseQueue(path: replicaURL.path, configuration: Self.replicaConfiguration)
            replica = try replicaDatabase.write { db in
                let connection = SQLConnection(db)
                guard try isNew || Replica.exists(in: connection) else { throw DatabaseError.noReplica }
                if !options.isRebuilding {
                    let takesOther = options.takesOtherStore
                    try Replica.refuseOtherSchema(schema, ofStoreWith: token, in: connection, unlessTaken: takesOther)
                }
                return try Replica(db, schema, identity, takesOlderSchema: options.takesOlderSchema)
            }
            replicaFile = try? Stat(replicaURL.path)
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url, replicaAt: replicaURL)
        }
    }

    /// Whether a file exists.
    ///
    /// - Throws: ``StoreChangesError`` if the file system can't tell: what is taken for missing is created.
    static func exists(_ path: String) throws -> Bool {
        do throws(Errno) { return try path.fileExists } catch { throw StoreChangesError(unreachableFile: path, error) }
    }

    /// Waits until no other process uses a replica; none does until the file is unlocked.
    ///
    /// - Throws: ``StoreChangesError``, and `CancellationError` if the task is cancelled while it waits.
    static func lock(_ replica: URL) throws -> OpenFile {
        do {
            let lock = try OpenFile(path: replica.path + ".lock", O_RDWR | O_CREAT)
            try wait(for: lock)
            return lock
        } catch let error as Errno {
            throw StoreChangesError(
                .cannotWrite,
                "\(replica.path) can't be locked. Check the permissions of its directory.",
                cause: error
            )
        }
    }

    /// Waits for a lock as long as the task isn't cancelled: another process may hold the lock for minutes.
    private static func wait(for lock: OpenFile) throws {
        // Most holders need a lock for a few milliseconds only.
        var interval = 0.001
        while try !lock.lock() {
            try Task.checkCancellation()
            Thread.sleep(forTimeInterval: interval)
            interval = min(2 * interval, longestLockInterval)
        }
    }

    /// How long to wait at most until a lock is tried again, in seconds.
    private static let longestLockInterval = 0.02

    /// How long a connection waits for another one, in seconds.
    static let busyTimeout = 5.0

    static var configuration: Configuration {
        var configuration = Configuration.ofThisPackage
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        // With a rollback journal, deleting the journal commits. Only EXTRA syncs its directory: otherwise a power loss could
        // undo a commit of the store or of the replica, and not the other one's.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = EXTRA") }
        return configuration
    }

    static var replicaConfiguration: Configuration {
        var configuration = configuration
        // Changes are scattered over the file, so pages are needed again soon. SQLite keeps 2 MB of them otherwise.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA cache_size = -12288") }
        return configuration
    }

    /// Completes what a synchronization that died had begun.
    ///
    /// - Parameter side: What counts if another store was written last.
    /// - Returns: What counts, if it isn't.
    /// - Throws: ``StoreChangesError`` with `storeReplaced` if that wasn't said.
    func recover(taking side: TakenSide?) throws -> TakenSide? {
        let isOwn = try store.read { try replica.recover($0, acceptsOther: side != nil) }
        return isOwn ? nil : side
    }

    /// Integrates sets, captures what the user changed, and writes what merging changed into the store.
    ///
    /// The store changes in one transaction. If this process dies at any time, the next call completes what it began. If
    /// an app writes all the time to a large store with triggers, the rows wait for a later call.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - sets: Sets of other devices, in any order.
    ///   - news: What the storage says besides sets.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - side: What counts if another store was written last.
    ///   - keep: Keeps a copy of a store that doesn't count, read through a connection in a transaction.
    /// - Returns: What happened.
    /// - Throws: ``StoreChangesError``, and what `keep` throws.
    package func synchronize(
        with sets: [any ChangeSetSource],
        news: LogNews = LogNews(),
        allowsDeletions: Bool = false,
        taking side: TakenSide? = nil,
        keepingFormer keep: (Database) throws -> Void = { _ in }
    ) throws -> Outcome {
        try locked {
            var outcome = Outcome()
            let side = try replicaDatabase.write { _ in
                let side = try recover(taking: side)
                try replica.learn(sets, news)
                return side
            }
            try refuseLostIdentity()
            do {
                try captureAndWrite(&outcome, allowsDeletions, taking: side, keepingFormer: keep)
                (outcome.refusals, outcome.addedAgain) = try replicaDatabase.read { _ in
                    (try replica.refusals(), try ReplicaFact.addedAgain.text(replica.db))
                }
            } catch let error as MissingSets {
                outcome.missing = error
            }
            return outcome
        }
    }

    /// Forgets which names an update has added again, once the user is told of them.
    ///
    /// - Throws: ``StoreChangesError``.
    package func forgetNamesAddedAgain() throws {
        try writeReplica { try ReplicaFact.addedAgain.write(nil, $0.db) }
    }

    /// Refuses to capture under an identity whose sets don't count any more.
    private func refuseLostIdentity() throws {
        guard try replicaDatabase.read({ _ in try replica.hasLostIdentity() }) else { return }
        throw StoreChangesError(
            .identityTwice,
            """
            This device's last edits were captured under an identity that doesn't count any more: a copy of the device \
            continues with it, it was removed, or they were captured before edits had arrived that the other devices have settled. \
            Synchronize again as another client, and none of the edits is lost.
            """
        )
    }

    func locked<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            try Self.wait(for: lock)
            defer { lock.unlock() }
            guard let replicaFile, let present = try? Stat(replicaDatabase.path), present.isOfSameFile(as: replicaFile)
            else {
                throw StoreChangesError(
                    .busy,
                    "This device's record of \(url.lastPathComponent) was built again or removed meanwhile. Try again."
                )
            }
            return try body()
        } catch let error as DatabaseError {
            throw described(error)
        } catch let error as MissingSets {
            throw StoreChangesError(error)
        } catch let error as Errno {
            throw StoreChangesError(
                .cannotWrite,
                "The replica of \(url.lastPathComponent) can't be locked.",
                cause: error
            )
        }
    }

    /// Reads the replica, with its lock held.
    func readReplica<Result>(_ body: (Replica) throws -> Result) throws -> Result {
        try locked { try replicaDatabase.read { _ in try body(replica) } }
    }

    /// Writes to the replica in one transaction, with its lock held.
    func writeReplica<Result>(_ body: (Replica) throws -> Result) throws -> Result {
        try locked { try replicaDatabase.write { _ in try body(replica) } }
    }

    /// Describes what SQLite reported of the store or of the replica.
    private func described(_ error: DatabaseError) -> StoreChangesError {
        guard isMigrated(error) else {
            return StoreChangesError(error, storeAt: url, replicaAt: URL(filePath: replicaDatabase.path))
        }
        return StoreChangesError(
            .busy,
            "The app has changed the schema of \(url.lastPathComponent) during the synchronization. Synchronize again.",
            cause: error
        )
    }

    /// Whether a statement failed because the app has changed the schema since the store was opened.
    func isMigrated(_ error: DatabaseError) -> Bool {
        guard [.SQLITE_ERROR, .SQLITE_SCHEMA].contains(error.resultCode.primaryResultCode) else { return false }
        return (try? store.read { try schemas.isOutdated(for: $0) }) ?? false
    }

    // MARK: Inspecting

    /// All of the state, for tests and small documents.
    package func content() throws -> StateContent {
        try readReplica { try $0.content() }
    }

    /// The integer key that a row has in this device's store; `nil` if it has none.
    package func number(of row: RowReference) throws -> Int64? {
        try readReplica { try ReplicaNumbers($0.state).number(of: row) }
    }
}

extension TableSchema {
    /// Whether no key identifies the table's rows in another document.
    fileprivate var lacksNaturalKey: Bool {
        switch key {
        case .integer, .none: true
        case .meaningful, .natural: false
        }
    }
}
