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
/// Every call takes the replica's lock, so that two synchronizations of one store wait for each other, in one process or
/// in two.
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
        package var captured: [SyncChangeSet] = []
        /// How many rows of the store changed, by table.
        package var written: [String: ChangeCounts] = [:]
        /// Whether sets of other devices wait until this device's app is updated.
        package var needsNewerSchema = false
        /// The rows that the store's constraints refuse, by table: they wait until the store takes them.
        package var refusals: [RefusalSummary] = []
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
    private let observer: StepObserver
    let rules: SyncRules
    let largestReread: Int64
    let now: @Sendable () -> Date
    /// How often a synchronization starts over because an app wrote meanwhile.
    private static let maximumAttempts = 2
    /// How long a capture may have taken that keeps an app from writing: less than the shortest usual busy timeout.
    private static let longestWait = Duration.seconds(1)

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
        largestReread = options.largestReread
        now = options.now
        let (schema, token): (StoreSchema, StoreToken?)
        do {
            store = try StoreConnection(storeAt: url, through: options.app)
            (schema, token) = try store.read { store in
                let schema = try options.schemas.schema(of: store, identity.rules)
                return (schema, try StoreToken.read(SQLConnection(store), origin: identity.origin))
            }
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
        let lock: OpenFile
        do {
            lock = try OpenFile(path: replicaURL.path + ".lock", O_RDWR | O_CREAT)
            _ = try lock.lock(waits: true)
        } catch {
            throw StoreChangesError(
                .cannotWrite,
                "\(replicaURL.path) can't be locked. Check the permissions of its directory.",
                cause: error
            )
        }
        self.lock = lock
        defer { lock.unlock() }
        let isNew = access(replicaURL.path, F_OK) != 0
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
                guard try isNew || Replica.exists(in: connection) else {
                    throw DatabaseError(resultCode: .SQLITE_CORRUPT)
                }
                try Replica.refuseOtherSchema(
                    schema,
                    ofStoreWith: token,
                    in: connection,
                    unlessTaken: options.takesOtherStore
                )
                return try Replica(db, schema, identity)
            }
        } catch let error as DatabaseError
            where [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode.primaryResultCode)
        {
            throw StoreChangesError(
                .corrupt,
                """
                \(replicaURL.path), this device's record of \(identity.document), is damaged. Synchronize with \
                --rebuild to build it again.
                """,
                cause: error
            )
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
    }

    /// How long a connection waits for another one, in seconds.
    static let busyTimeout = 5.0

    static var configuration: Configuration {
        var configuration = Configuration.ofThisPackage
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        return configuration
    }

    static var replicaConfiguration: Configuration {
        var configuration = configuration
        // Changes are scattered over the file, so pages are needed again soon. SQLite keeps 2 MB of them otherwise.
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA cache_size = -12288") }
        return configuration
    }

    /// Takes the store as the document's first baseline, or as an equal copy of it: its rows aren't edits of this device.
    ///
    /// Blocks.
    ///
    /// - Throws: ``StoreChangesError``, with `storeReplaced` if the replica has a store already.
    package func begin() throws {
        try locked {
            try replicaDatabase.write { _ in try store.read { try replica.begin(with: $0) } }
        }
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
    /// - Returns: What happened.
    /// - Throws: ``StoreChangesError``.
    package func synchronize(
        with sets: [SyncChangeSet],
        news: LogNews = LogNews(),
        allowsDeletions: Bool = false,
        taking side: TakenSide? = nil
    ) throws -> Outcome {
        try locked {
            var outcome = Outcome()
            let side = try replicaDatabase.write { _ in
                let side = try recover(taking: side)
                try replica.integrate(sets)
                try replica.remember(news)
                return side
            }
            try refuseLostIdentity()
            do {
                try captureAndWrite(&outcome, allowsDeletions, taking: side)
                outcome.refusals = try replicaDatabase.read { _ in try replica.refusals() }
            } catch let error as MissingSets {
                outcome.missing = error
            }
            return outcome
        }
    }

    private func captureAndWrite(
        _ outcome: inout Outcome,
        _ allowsDeletions: Bool,
        taking side: TakenSide?
    ) throws {
        var side = side
        outcome.needsNewerSchema = try replicaDatabase.read { _ in try replica.needsNewerSchema() }
        outcome.captured += try replicaDatabase.write { _ in
            try replica.captureVoidSetsAgain(at: now().millisecondsSince1970)
        }
        let clock = ContinuousClock()
        var duration = Duration.zero
        for _ in 0..<Self.maximumAttempts {
            let start = clock.now
            if try attempt(&outcome, allowsDeletions, taking: side) { return }
            // From then on the store is the replica's, and differences are edits.
            side = nil
            duration = clock.now - start
        }
        if duration < Self.longestWait { try writeWhileNoAppWrites(&outcome, allowsDeletions) }
    }

    /// Captures and writes in one transaction, for an app that writes all the time.
    private func writeWhileNoAppWrites(_ outcome: inout Outcome, _ allowsDeletions: Bool) throws {
        do {
            try store.write { db in
                try replicaDatabase.read { _ in try replica.refuseOtherStore(db) }
                let time = time(ofEditsUntil: StoreStatus(ofStoreAt: url.path).modified)
                outcome.captured += try replicaDatabase.write { _ in
                    try replica.capture(db, at: time, allowsDeletions: allowsDeletions, since: nil)
                }
                try replicaDatabase.write { _ in try replica.prepare(db) }
                try observer.reached("captured")
                outcome.written = try replicaDatabase.read { _ in try replica.write(to: db) }
                return .commit
            }
        } catch let error as RefusedRows {
            // The next synchronization writes the others.
            return try replicaDatabase.write { _ in try replica.refuse(error) }
        }
        try observer.reached("written")
        try replicaDatabase.write { _ in try replica.finish() }
    }

    /// Refuses to capture under an identity whose sets don't count any more.
    private func refuseLostIdentity() throws {
        guard try replicaDatabase.read({ _ in try replica.hasLostIdentity() }) else { return }
        throw StoreChangesError(
            .identityTwice,
            """
            This device's last edits were captured under an identity that doesn't count any more: a copy of the device goes \
            on with it, or it was removed. Synchronize again as another client, and none of the edits is lost.
            """
        )
    }

    /// Captures and writes, unless an app writes the same rows between the two.
    ///
    /// The capture of a large store takes long, and an app must not wait for it.
    private func attempt(
        _ outcome: inout Outcome,
        _ allowsDeletions: Bool,
        taking side: TakenSide?
    ) throws -> Bool {
        var captured: [SyncChangeSet] = []
        let version = try replicaDatabase.write { _ -> Int? in
            if let version = try unchangedVersion(taking: side) {
                guard try replica.needsWrite() else { return nil }
                try store.read { try replica.prepare($0) }
                return version
            }
            return try captureSnapshot(readingPages: side == nil) { view in
                captured = try capture(view, allowsDeletions: allowsDeletions, taking: side)
                guard try !captured.isEmpty || side != nil || replica.needsWrite() else { return nil }
                try replica.prepare(view.db)
                return view.version
            }
        }
        outcome.captured += captured
        guard let version else { return true }
        try observer.reached("captured")
        guard let (written, leftState) = try writePrepared(unlessChangedSince: version) else { return false }
        try observer.reached("written")
        try replicaDatabase.write { _ in try replica.finish() }
        outcome.written = written
        guard let leftState, let status = settledStatus(leftIn: leftState) else { return true }
        try replicaDatabase.write { _ in try replica.remember(status) }
        return true
    }

    /// Writes what was prepared, without the rows that the store's constraints refuse.
    private func writePrepared(
        unlessChangedSince version: Int
    ) throws -> (counts: [String: ChangeCounts], StoreConnection.LeftState?)? {
        while true {
            do {
                return try replicaDatabase.read { _ in try write(unlessChangedSince: version) }
            } catch let error as RefusedRows {
                try replicaDatabase.write { _ in try replica.refuse(error) }
            }
        }
    }

    /// Writes what was prepared; `nil` if that would overwrite what an app wrote since the capture.
    ///
    /// The second value is the state in which the store is left; `nil` if an app wrote other rows since the capture, which
    /// the next synchronization has to capture.
    private func write(
        unlessChangedSince version: Int
    ) throws -> (counts: [String: ChangeCounts], StoreConnection.LeftState?)? {
        var written: [String: ChangeCounts]?
        var isChanged = false
        let leftState = try store.write { db in
            try replica.refuseOtherStore(db)
            isChanged = try store.version(beforeWriting: db) != version
            guard try !isChanged || replica.canWrite(to: db) else { return .rollback }
            do {
                written = try replica.write(to: db)
            } catch is RefusedRows where isChanged {
                return .rollback
            } catch let error as DatabaseError where isChanged && error.resultCode == .SQLITE_CONSTRAINT {
                return .rollback
            }
            return .commit
        }
        return written.map { ($0, isChanged ? nil : leftState) }
    }

    func locked<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            _ = try lock.lock(waits: true)
            defer { lock.unlock() }
            return try body()
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
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

    // MARK: Inspecting

    /// All of the state, for tests and small documents.
    package func content() throws -> StateContent {
        try locked { try replicaDatabase.read { _ in try replica.content() } }
    }
}
