package import FileSupport
package import Foundation
import GRDB
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
        /// This device.
        package var client: ClientID

        package init(document: String, client: ClientID) {
            self.document = document
            self.client = client
        }
    }

    /// How a store is synchronized.
    package struct Options: Sendable {
        /// What the store's schema doesn't say.
        package var rules: SyncRules
        /// Observes the steps `captured` and `written`, before and after the store changes.
        package var observer: StepObserver

        package init(rules: SyncRules = .none, observer: StepObserver = .none) {
            self.rules = rules
            self.observer = observer
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
    }

    private let url: URL
    private let store: DatabaseQueue
    let replicaDatabase: DatabaseQueue
    let replica: Replica
    private let lock: OpenFile
    private let observer: StepObserver
    /// How often a write starts over because an app wrote meanwhile, until it keeps the app from writing.
    private static let maximumAttempts = 3

    /// Opens a store and its replica, which is created if there is none.
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
        observer = options.observer
        let schema = try StoreSchema(storeAt: url, rules: options.rules)
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
        do {
            store = try DatabaseQueue(path: url.path, configuration: Self.configuration)
            replicaDatabase = try DatabaseQueue(path: replicaURL.path, configuration: Self.configuration)
            replica = try replicaDatabase.write { db in
                try Replica(db, schema, client: identity.client, document: identity.document)
            }
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
    }

    static var configuration: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL") }
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

    /// Captures what the user changed, without writing to the store.
    ///
    /// Blocks.
    ///
    /// - Parameter allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: The new set; `nil` if nothing changed.
    /// - Throws: ``StoreChangesError``.
    package func recordChanges(allowsDeletions: Bool = false) throws -> SyncChangeSet? {
        try locked {
            try replicaDatabase.write { _ in
                try store.read { try replica.recover($0) }
                return try store.read { try capture($0, allowsDeletions) }
            }
        }
    }

    /// Integrates sets, captures what the user changed, and writes what merging changed into the store.
    ///
    /// The store changes in one transaction. If this process dies at any time, the next call completes what it began.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - sets: Sets of other devices, in any order.
    ///   - news: What the storage says besides sets.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: What happened.
    /// - Throws: ``StoreChangesError``.
    package func synchronize(
        with sets: [SyncChangeSet],
        news: LogNews = LogNews(),
        allowsDeletions: Bool = false
    ) throws -> Outcome {
        try locked {
            var outcome = Outcome()
            try replicaDatabase.write { _ in
                try store.read { try replica.recover($0) }
                try replica.integrate(sets)
                try replica.remember(news)
            }
            try refuseLostIdentity()
            try replicaDatabase.write { _ in
                let time = UInt64(max(0, Date.now.timeIntervalSince1970 * 1000))
                outcome.captured += try replica.captureVoidSetsAgain(at: time)
                outcome.needsNewerSchema = try replica.needsNewerSchema()
            }
            for _ in 1..<Self.maximumAttempts {
                if try attempt(&outcome, allowsDeletions) { return outcome }
            }
            try writeWhileNoAppWrites(&outcome, allowsDeletions)
            return outcome
        }
    }

    /// Captures and writes, unless an app writes between the two.
    ///
    /// The capture of a large store takes long, and an app must not wait for it.
    private func attempt(_ outcome: inout Outcome, _ allowsDeletions: Bool) throws -> Bool {
        var captured: SyncChangeSet?
        let version = try replicaDatabase.write { _ in
            try store.read { db in
                let version = try Self.version(db)
                captured = try capture(db, allowsDeletions)
                try replica.prepare(db)
                return version
            }
        }
        if let captured { outcome.captured.append(captured) }
        try observer.reached("captured")
        let written = try replicaDatabase.read { _ -> [String: ChangeCounts]? in
            try store.writeWithoutTransaction { db in
                var written: [String: ChangeCounts]?
                try db.inTransaction(.immediate) {
                    guard try Self.version(db) == version else { return .rollback }
                    written = try replica.write(to: db)
                    return .commit
                }
                return written
            }
        }
        guard let written else { return false }
        try observer.reached("written")
        try replicaDatabase.write { _ in try replica.finish() }
        outcome.written = written
        return true
    }

    /// Captures and writes in one transaction, for an app that writes all the time.
    private func writeWhileNoAppWrites(_ outcome: inout Outcome, _ allowsDeletions: Bool) throws {
        try store.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) {
                if let captured = try replicaDatabase.write({ _ in try capture(db, allowsDeletions) }) {
                    outcome.captured.append(captured)
                }
                try replicaDatabase.write { _ in try replica.prepare(db) }
                try observer.reached("captured")
                outcome.written = try replicaDatabase.read { _ in try replica.write(to: db) }
                return .commit
            }
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

    /// Changes whenever another connection commits.
    private static func version(_ db: Database) throws -> Int {
        // A transaction sees the version of its snapshot once it has read something.
        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema")
        return try Int.fetchOne(db, sql: "PRAGMA data_version") ?? 0
    }

    private func capture(_ db: Database, _ allowsDeletions: Bool) throws -> SyncChangeSet? {
        // In WAL mode only the log changes until the next checkpoint.
        let modified = [url.path, url.path + "-wal"].compactMap { path in
            try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }.max()
        let time = min(modified ?? .now, .now).timeIntervalSince1970 * 1000
        return try replica.capture(db, at: UInt64(max(0, time)), allowsDeletions: allowsDeletions)
    }

    func locked<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            _ = try lock.lock(waits: true)
            defer { lock.unlock() }
            return try body()
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
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

    /// Everything that merging overwrote or left out, the oldest first.
    package func conflicts() throws -> [LoggedConflict] {
        try locked { try replicaDatabase.read { _ in try replica.conflicts() } }
    }

    /// Writes into the store what a conflict lost, as an edit of the user: the next synchronization captures it.
    ///
    /// - Parameter number: The number of the entry.
    /// - Throws: ``StoreChangesError``, with `cannotRestore` if the store's constraints refuse the row.
    package func restore(_ number: Int64) throws {
        try locked {
            try replicaDatabase.read { _ in
                try store.writeWithoutTransaction { db in
                    try db.execute(sql: "PRAGMA foreign_keys = ON")
                    defer { try? db.execute(sql: "PRAGMA foreign_keys = OFF") }
                    do {
                        try db.inTransaction(.immediate) {
                            try replica.restore(number, in: db)
                            return .commit
                        }
                    } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                        throw StoreChangesError(
                            .cannotRestore,
                            """
                            Conflict \(number) can't be restored as it is: \(error.message ?? "a constraint refuses it"). \
                            Change what is in its way, then restore it again.
                            """,
                            cause: error
                        )
                    }
                }
            }
        }
    }
}
