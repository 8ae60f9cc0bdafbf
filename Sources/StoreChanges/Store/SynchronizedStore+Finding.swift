package import Foundation
import GRDB

/// Finding the replica of a store by the tokens in the store, which doesn't depend on the store's path.
extension SynchronizedStore {
    /// Returns the replica of a store; `nil` if it's none of these.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - replicas: Replicas.
    /// - Returns: The replica, and what it belongs to.
    /// - Throws: ``StoreChangesError``.
    package static func replica(
        ofStoreAt store: URL,
        among replicas: [URL]
    ) throws -> (url: URL, identity: Identity)? {
        try StoreSchema.requireStore(at: store)
        do {
            let database = try DatabaseQueue(path: store.path, configuration: reading)
            for url in replicas {
                let replica = try DatabaseQueue(path: url.path, configuration: reading)
                let identity = try replica.read { db in
                    try database.read { try Replica.identity(SQLConnection(db), ofStore: SQLConnection($0)) }
                }
                if let identity { return (url, identity) }
            }
            return nil
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: store)
        }
    }

    private static var reading: Configuration {
        var configuration = configuration
        configuration.readonly = true
        return configuration
    }

    /// The integer key that a row has in this device's store; `nil` if it has none.
    package func number(of row: RowReference) throws -> Int64? {
        try locked { try replicaDatabase.read { _ in try ReplicaNumbers(replica.state).number(of: row) } }
    }
}

extension Replica {
    /// Records what the replica belongs to.
    func write(_ identity: SynchronizedStore.Identity) throws {
        try ReplicaFact.client.write(Array(identity.client.rawValue.utf8), db)
        try ReplicaFact.document.write(Array(identity.document.utf8), db)
        try ReplicaFact.rules.write(identity.rules == .none ? nil : Array(identity.rules.encoded), db)
    }

    /// What a replica belongs to, if a store is the replica's; else `nil`.
    fileprivate static func identity(
        _ replica: SQLConnection,
        ofStore store: SQLConnection
    ) throws -> SynchronizedStore.Identity? {
        guard let document = try ReplicaFact.document.read(replica), let client = try ReplicaFact.client.read(replica)
        else { return nil }
        let name = String(decoding: document, as: UTF8.self)
        guard let token = try StoreToken.read(store, document: name)?.bytes else { return nil }
        let tokens = [try ReplicaFact.token.read(replica), try ReplicaFact.preparedToken.read(replica)]
        guard tokens.contains(token) else { return nil }
        let id = ClientID(rawValue: String(decoding: client, as: UTF8.self))
        let rules = try ReplicaFact.rules.read(replica).map { try SyncRules(decoding: $0) }
        return SynchronizedStore.Identity(document: name, client: id, rules: rules ?? .none)
    }
}
