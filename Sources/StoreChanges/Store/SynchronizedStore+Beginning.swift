import FileSupport
package import Foundation
package import GRDB
import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

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
    /// Blocks.
    ///
    /// - Parameters:
    ///   - replicaURL: Where the replica will be; its directory exists.
    ///   - beginning: The store with which the device begins.
    ///   - identity: What the replica belongs to.
    ///   - complete: Adds what is known besides, in the same transaction.
    /// - Throws: ``StoreChangesError``.
    package static func createReplica(
        at replicaURL: URL,
        from beginning: Beginning,
        _ identity: Identity,
        completing complete: (Replica) throws -> Void = { _ in }
    ) throws {
        let building = replicaURL.appendingPathExtension("building")
        do {
            for suffix in ["", "-journal"] { try? FileManager.default.removeItem(atPath: building.path + suffix) }
            if let checkpoint = beginning.checkpoint { try copy(checkpoint, to: building) }
            // Opening a store that doesn't exist would create it.
            try StoreSchema.requireStore(at: beginning.store)
            let store = try DatabaseQueue(path: beginning.store.path, configuration: configuration)
            let schema = try store.read { try StoreSchema($0, rules: identity.rules) }
            let database = try DatabaseQueue(path: building.path, configuration: replicaConfiguration)
            try database.write { db in
                let replica = try Replica(db, schema, identity)
                try store.read { store in
                    if beginning.checkpoint == nil {
                        try replica.begin(with: store)
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
            try install(building, at: replicaURL)
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: beginning.store, replicaAt: replicaURL)
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
        guard access(replicaURL.path, F_OK) == 0 else { return }
        do {
            let database = try DatabaseQueue(path: replicaURL.path, configuration: replicaConfiguration)
            try database.write { db in
                let replica = SQLConnection(db)
                guard try Replica.exists(in: replica) else { throw DatabaseError(resultCode: .SQLITE_CORRUPT) }
                guard try ReplicaFact.token.read(replica) == nil else { return }
                try ReplicaFact.token.write(StoreToken.random().bytes, replica)
            }
            try database.close()
        } catch let error as DatabaseError where error.isOfDamage {
            throw StoreChangesError(error, damagedReplica: replicaURL.path, ofStoreAt: store)
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

    /// Gives a replica that is complete its place, from which it replaces a former one.
    static func install(_ replica: URL, at url: URL) throws {
        do {
            // SQLite would apply the journal of a damaged replica to this one.
            if unlink(url.path + "-journal") != 0, errno != ENOENT { throw Errno(rawValue: errno) }
            guard rename(replica.path, url.path) == 0 else { throw Errno(rawValue: errno) }
            // The store's token says that there is a replica, so the replica's name is on the disk before the token is.
            try OpenFile(path: url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY).synchronize()
        } catch let error as Errno {
            throw StoreChangesError(.cannotWrite, "\(url.path) can't be written: \(error).", cause: error)
        }
    }
}
