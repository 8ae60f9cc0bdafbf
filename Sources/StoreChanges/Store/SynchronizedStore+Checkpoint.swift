package import Foundation
import GRDB

/// Copies of a store and its replica, with which other devices begin.
extension SynchronizedStore {
    /// Copies the store and its replica as they are at one moment, without what belongs to this device.
    ///
    /// What the user changed is captured first. An app may write to the store meanwhile.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - checkpoint: Where the checkpoint will be.
    ///   - storeCopy: Where the copy of the store will be.
    /// - Returns: The last set of each client that both contain.
    /// - Throws: ``StoreChangesError``.
    package func makeCheckpoint(
        at checkpoint: URL,
        withStoreAt storeCopy: URL
    ) throws -> [ClientID: SeenSet] {
        try locked {
            let vector = try replicaDatabase.write { _ in
                _ = try recover(taking: nil)
                return try withSnapshot { db, pages, _ in
                    _ = try capture(db, false, since: pages)
                    try copy(db, to: storeCopy)
                    return try replica.integratedSets()
                }
            }
            try replicaDatabase.writeWithoutTransaction { db in
                try db.execute(sql: "VACUUM INTO ?", arguments: [checkpoint.path])
            }
            let database = try DatabaseQueue(path: checkpoint.path, configuration: Self.discardable)
            try database.write { try Replica.makeCheckpoint(of: $0, by: replica.client) }
            try database.vacuum()
            try database.close()
            return vector
        }
    }

    private func copy(_ db: Database, to url: URL) throws {
        let copy = try DatabaseQueue(path: url.path, configuration: Self.discardable)
        try copy.writeWithoutTransaction { destination in
            try db.backup(to: destination)
            try destination.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA secure_delete = ON")
            try StoreToken.removeAll(SQLConnection(destination))
        }
        try copy.close()
    }

    /// The last set of each client that a checkpoint has.
    ///
    /// Blocks.
    package static func knownSets(inCheckpoint url: URL) throws -> [ClientID: SeenSet] {
        do {
            let database = try DatabaseQueue(path: url.path, configuration: discardable)
            return try database.read { try Replica.knownSets(SQLConnection($0)) }
        } catch let error as DatabaseError {
            throw StoreChangesError(.corrupt, "A checkpoint of the document can't be read.", cause: error)
        }
    }

    /// The configuration of a database that is discarded if this process dies.
    static var discardable: Configuration {
        var configuration = configuration
        configuration.prepareDatabase {
            try $0.execute(sql: "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        }
        return configuration
    }
}
