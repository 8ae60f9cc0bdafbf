import DatabaseSupport
package import Foundation
import GRDB

/// Finding the replicas of a store by the tokens in the store, which doesn't depend on the store's path.
extension SynchronizedStore {
    /// The replicas that this device has of a store.
    package struct Replicas {
        /// To how many documents the store belongs, or has belonged.
        package let documentCount: Int
        /// One for each document.
        package var found: [(url: URL, identity: Identity)] = []
        /// Replicas that can't be read, of any store.
        package var damaged: [URL] = []
    }

    /// Finds the replicas of a store.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - replicas: Replicas.
    /// - Returns: The replicas of this store, and the damaged ones.
    /// - Throws: ``StoreChangesError``.
    package static func replicas(ofStoreAt store: URL, among replicas: [URL]) throws -> Replicas {
        try StoreSchema.requireStore(at: store)
        do {
            let database = try DatabaseQueue(path: store.path, configuration: reading)
            let tokens = try database.read { try StoreToken.all(SQLConnection($0)) }
            var all = Replicas(documentCount: tokens.count)
            for url in replicas {
                do {
                    if let identity = try identity(ofReplicaAt: url, tokens) { all.found.append((url, identity)) }
                } catch let error as DatabaseError {
                    let fault = error.fault(ofDatabaseAt: url.path)
                    guard fault == .damage || error.resultCode == .SQLITE_ERROR else {
                        throw fault == .reading ? StoreChangesError(unreadable: url.path, error) : error
                    }
                    all.damaged.append(url)
                }
            }
            return all
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: store)
        }
    }

    /// What a replica belongs to, if it's the replica of a store with these tokens; else `nil`.
    private static func identity(ofReplicaAt url: URL, _ tokens: [StoreToken]) throws -> Identity? {
        func identity(_ configuration: Configuration) throws -> Identity? {
            let replica = try DatabaseQueue(path: url.path, configuration: configuration)
            return try replica.read { try Replica.identity(SQLConnection($0), ofStoreWith: tokens) }
        }
        do {
            return try identity(reading)
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_READONLY {
            // A process died while it wrote the replica, and SQLite first has to roll that back.
            return try identity(configuration)
        }
    }

    private static var reading: Configuration {
        var configuration = configuration
        configuration.readonly = true
        return configuration
    }
}

extension Replica {
    /// Records what the replica belongs to.
    func write(_ identity: SynchronizedStore.Identity) throws {
        try ReplicaFact.client.write(Array(identity.client.rawValue.utf8), db)
        try ReplicaFact.document.write(Array(identity.document.utf8), db)
        try ReplicaFact.origin.write(Array(identity.origin.utf8), db)
        try ReplicaFact.rules.write(identity.rules == .none ? nil : Array(identity.rules.encoded), db)
    }

    /// What a replica belongs to, if it's the replica of a store; else `nil`.
    ///
    /// - Parameters:
    ///   - replica: The replica's database.
    ///   - tokens: The store's tokens.
    /// - Returns: The identity.
    /// - Throws: `DatabaseError`.
    fileprivate static func identity(
        _ replica: SQLConnection,
        ofStoreWith tokens: [StoreToken]
    ) throws -> SynchronizedStore.Identity? {
        let own = [try ReplicaFact.token.read(replica), try ReplicaFact.preparedToken.read(replica)]
        guard tokens.contains(where: { own.contains($0.bytes) }), let client = try ReplicaFact.client.text(replica),
            let document = try ReplicaFact.document.text(replica), let origin = try ReplicaFact.origin.text(replica)
        else { return nil }
        let rules = try ReplicaFact.rules.read(replica).map { try SyncRules(decoding: $0) }
        return SynchronizedStore.Identity(
            document: document,
            origin: origin,
            client: ClientID(rawValue: client),
            rules: rules ?? .none
        )
    }
}
