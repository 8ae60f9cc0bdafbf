import DatabaseSupport
import FileSupport
package import Foundation
package import GRDB
import SystemPackage

extension SynchronizedStore {
    /// Checks that a store can be written, before all devices of a document depend on that.
    ///
    /// Blocks. Nothing is written.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - app: The app's connection to it; `nil` for a connection of its own.
    /// - Throws: ``StoreChangesError``.
    package static func requireWritable(storeAt url: URL, through app: (any DatabaseWriter)?) throws {
        do {
            _ = try StoreConnection(storeAt: url, through: app).write { db in
                // The first statement that changes a page creates the journal.
                let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
                try db.execute(sql: "PRAGMA user_version = \(version)")
                return .rollback
            }
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: url)
        }
    }

    /// The store with which a device begins to synchronize a document.
    package struct Beginning: Sendable {
        /// A copy of the store.
        package var store: URL
        /// The replica that another device had of that store; `nil` for the document's first store.
        package var checkpoint: URL?
        /// Whether the local store isn't known to descend from this one, so that it isn't captured before the user has
        /// said what counts.
        package var isOfOtherStore = false

        package init(store: URL, checkpoint: URL? = nil) {
            self.store = store
            self.checkpoint = checkpoint
        }
    }

    /// Creates a replica: under another name first, so that there is none if this process dies, and the next call creates it.
    ///
    /// A replica that exists isn't replaced: only it has what isn't published.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - replicaURL: Where the replica will be; its directory exists.
    ///   - beginning: The store with which the device begins.
    ///   - identity: What the replica belongs to.
    ///   - complete: Adds what is known besides, in the same transaction.
    /// - Throws: ``StoreChangesError``, with `busy` if there is a replica.
    package static func createReplica(
        at replicaURL: URL,
        from beginning: Beginning,
        _ identity: Identity,
        completing complete: (Replica) throws -> Void = { _ in }
    ) throws {
        let building = replicaURL.appendingPathExtension("building")
        defer { try? remove(building) }
        do {
            try? remove(building)
            if let checkpoint = beginning.checkpoint { try copy(checkpoint, to: building) }
            // Opening a store that doesn't exist would create it.
            try StoreSchema.requireStore(at: beginning.store)
            let store = try DatabaseQueue(path: beginning.store.path, configuration: configuration)
            let schema = try store.read { try StoreSchema($0, rules: identity.rules) }
            let database = try DatabaseQueue(path: building.path, configuration: replicaConfiguration)
            try database.write { db in
                if beginning.checkpoint != nil {
                    let checkpoint = SQLConnection(db)
                    guard try Replica.exists(in: checkpoint) else { throw DatabaseError.noReplica }
                    try Replica.refuseDamage(inCheckpoint: checkpoint)
                }
                let replica = try Replica(db, schema, identity)
                try store.read { store in
                    if beginning.checkpoint == nil {
                        try begin(replica, with: store)
                    } else {
                        try replica.join(with: store)
                    }
                }
                try replica.write(identity)
                if beginning.isOfOtherStore { try ReplicaFact.token.write(StoreToken.random().bytes, replica.db) }
                try complete(replica)
            }
            try store.close()
            try database.close()
            try add(building, at: replicaURL)
        } catch let error as DatabaseError {
            if beginning.checkpoint != nil, error.fault(ofDatabaseAt: building.path) == .damage {
                throw StoreChangesError.unreadableCheckpoint(error)
            }
            throw StoreChangesError(error, storeAt: beginning.store, replicaAt: replicaURL)
        }
    }

    private static func begin(_ replica: Replica, with store: Database) throws {
        do {
            try replica.begin(with: store)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            // Only damage explains two rows of one key. Such a store has rows that its index lacks.
            throw DatabaseError(resultCode: .SQLITE_CORRUPT_INDEX, message: error.message)
        }
    }

    /// Lets a replica know no store if it has no token of its store yet.
    ///
    /// Whatever store is there next, it isn't captured before the user has said what counts: ``TakenSide``.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - replicaURL: The replica; nothing happens if there is none.
    /// - Throws: ``StoreChangesError``.
    package static func forgetStore(_ store: URL, ofReplicaAt replicaURL: URL) throws {
        let lock = try lock(replicaURL)
        defer { lock.unlock() }
        guard try exists(replicaURL.path) else { return }
        do {
            let database = try DatabaseQueue(path: replicaURL.path, configuration: replicaConfiguration)
            try database.write { db in
                let replica = SQLConnection(db)
                guard try Replica.exists(in: replica) else { throw DatabaseError.noReplica }
                guard try ReplicaFact.token.read(replica) == nil else { return }
                try ReplicaFact.token.write(StoreToken.random().bytes, replica)
            }
            try database.close()
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: store, replicaAt: replicaURL)
        }
    }

    private static func copy(_ checkpoint: URL, to url: URL) throws {
        do {
            try FileManager.default.copyItem(at: checkpoint, to: url)
        } catch {
            throw StoreChangesError(.cannotWrite, "\(url.path) can't be written.", cause: error)
        }
    }

    /// Renames a replica that is complete to its name, which no replica may have.
    private static func add(_ replica: URL, at url: URL) throws {
        let created = StoreChangesError(
            .busy,
            "\(url.path), this device's record of a store, was created meanwhile. Synchronize again."
        )
        // No process opens or creates a replica meanwhile: without one, a journal at its path is left over.
        let lock = try lock(url)
        defer { lock.unlock() }
        guard try !exists(url.path) else { throw created }
        do {
            try install(at: url) { directory throws(Errno) in
                try directory.renameExclusively(replica.lastPathComponent, url.lastPathComponent)
            }
        } catch let error as StoreChangesError where error.cause as? Errno == .fileExists {
            throw created
        }
    }

    /// Replaces a replica by a rebuilt one.
    static func replace(_ replica: URL, at url: URL) throws {
        try install(at: url) { directory throws(Errno) in
            try directory.rename(replica.lastPathComponent, to: directory, url.lastPathComponent)
        }
    }

    /// Gives a replica its name by a rename, durably.
    private static func install(at url: URL, by rename: (Directory) throws(Errno) -> Void) throws {
        do throws(Errno) {
            let directory = try Directory(path: url.deletingLastPathComponent().path)
            // SQLite would apply the journal of a damaged replica to this one.
            try directory.unlink(url.lastPathComponent + "-journal")
            try rename(directory)
            // The store's token says that there is a replica, so the replica's name is on the disk before the token is.
            try directory.synchronize()
        } catch {
            throw StoreChangesError(.cannotWrite, "\(url.path) can't be written: \(error).", cause: error)
        }
    }
}

extension DatabaseError {
    /// The error of a file that should be a replica, and is another database or an empty one.
    static let noReplica = DatabaseError.ofContent("it isn't a replica")
}
