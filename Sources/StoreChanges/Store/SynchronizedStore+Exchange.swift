package import Foundation
import GRDB

/// What devices exchange: the store with which they begin, and change sets.
extension SynchronizedStore {
    /// Creates the replica of a store that is the baseline, or was edited since.
    ///
    /// If this process dies, there is no replica, and the next call creates it.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - replicaURL: Where the replica will be; its directory exists.
    ///   - baseline: A copy of the store with which all devices begin.
    ///   - origin: The document's origin.
    ///   - identity: What the replica belongs to.
    ///   - rules: What the store's schema doesn't say.
    /// - Throws: ``StoreChangesError``.
    package static func createReplica(
        at replicaURL: URL,
        from baseline: URL,
        origin: ClientID,
        _ identity: Identity,
        rules: SyncRules = .none
    ) throws {
        let building = replicaURL.appendingPathExtension("building")
        do {
            for suffix in ["", "-journal"] { try? FileManager.default.removeItem(atPath: building.path + suffix) }
            let schema = try StoreSchema(storeAt: baseline, rules: rules)
            let store = try DatabaseQueue(path: baseline.path, configuration: configuration)
            let database = try DatabaseQueue(path: building.path, configuration: configuration)
            try database.write { db in
                let schema = try FoldSchema(schema, evaluator: ScratchEvaluator(schema))
                let replica = try Replica(db, schema, client: identity.client, document: identity.document)
                try store.read { try replica.adopt($0, origin: origin) }
            }
            try store.close()
            try database.close()
            try FileManager.default.moveItem(at: building, to: replicaURL)
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: baseline)
        }
    }

    /// The last set of each client that this device has, its own among them.
    package func knownSets() throws -> [ClientID: UInt64] {
        try locked { try replicaDatabase.read { _ in try replica.knownSets() } }
    }

    /// What this device has to publish.
    package struct Publication: Sendable {
        /// The last sets whose effect is in the store, by client; the device's own among them.
        package var seen: [ClientID: SeenSet]
        /// The device's own sets after those that were published, in order.
        package var sets: [SyncChangeSet]
    }

    /// Returns this device's own sets after a number, and what its store has seen.
    package func publication(after sequence: UInt64) throws -> Publication {
        try locked { try replicaDatabase.read { _ in try replica.publication(after: sequence) } }
    }

    /// The clients whose sets wait for sets that have not arrived.
    package func waitingClients() throws -> [ClientID] {
        try locked { try replicaDatabase.read { _ in try replica.waitingClients() } }
    }
}

extension Replica {
    fileprivate func knownSets() throws -> [ClientID: UInt64] {
        try db.all("SELECT client, max(sequence) FROM sets GROUP BY client").reduce(into: [:]) { known, values in
            known[ClientID(rawValue: values.text(0) ?? "")] = UInt64(values.integer(1) ?? 0)
        }
    }

    fileprivate func publication(after sequence: UInt64) throws -> SynchronizedStore.Publication {
        let rows = try db.all(
            "SELECT sequence, digest, bytes FROM sets WHERE client = ? ORDER BY sequence",
            [.text(client.rawValue)]
        )
        // The effect of this device's own sets is in its store from the start.
        var seen = try storeSeen().filter { $0.key != client }
        var sets: [SyncChangeSet] = []
        for values in rows {
            guard let number = values.integer(0).map(UInt64.init), let digest = values.bytes(1) else { continue }
            seen[client] = SeenSet(number, SetDigest(rawValue: digest))
            if number > sequence { sets.append(try SyncChangeSet(decoding: values.bytes(2) ?? [])) }
        }
        return SynchronizedStore.Publication(seen: seen, sets: sets)
    }

    fileprivate func waitingClients() throws -> [ClientID] {
        try db.all("SELECT DISTINCT client FROM sets WHERE undo IS NULL ORDER BY client").map {
            ClientID(rawValue: $0.text(0) ?? "")
        }
    }
}
