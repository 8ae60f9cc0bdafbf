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
                return try captureSnapshot { view in
                    _ = try capture(view, allowsDeletions: false)
                    try copy(view.db, to: storeCopy)
                    return try replica.log.integrated()
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
            try emptyExcludedTables(of: SQLConnection(destination))
        }
        try copy.close()
    }

    /// Empties the tables that the document's rules keep on their device, but none to which a row that stays may refer.
    private func emptyExcludedTables(of store: SQLConnection) throws {
        _ = try store.set(.triggers, enabled: false)
        let references = try store.all(
            """
            SELECT child.name, parent."table"
            FROM sqlite_schema AS child, pragma_foreign_key_list(child.name) AS parent WHERE child.type = 'table'
            """
        ).map { (child: $0.text(0)?.sqlName ?? "", parent: $0.text(1)?.sqlName ?? "") }
        var emptied = Set(rules.excludedTables.map(\.sqlName))
        while let kept = references.first(where: { emptied.contains($0.parent) && !emptied.contains($0.child) }) {
            emptied.remove(kept.parent)
        }
        let tables = try store.all(
            "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') ORDER BY type"
        )
        for table in tables {
            guard let name = table.text(0), emptied.contains(name.sqlName) else { continue }
            // A full-text table may have the content of a table that is empty by now, and can't delete by it.
            let command = "INSERT INTO \(name.quotedName) (\(name.quotedName)) VALUES ('delete-all')"
            if table.text(1) == "virtual", (try? store.execute(command)) != nil { continue }
            try store.execute("DELETE FROM \(name.quotedName)")
        }
    }

    /// The sets whose bytes a checkpoint has: all that some device may not have seen when it was made.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - url: The checkpoint.
    ///   - known: The number of the last set of each client that isn't needed.
    ///   - inbox: Where the sets go.
    /// - Returns: The sets after these.
    /// - Throws: ``StoreChangesError``.
    package static func sets(
        inCheckpoint url: URL,
        after known: [ClientID: UInt64],
        into inbox: ChangeSetInbox
    ) throws -> [ReceivedSet] {
        try reading(checkpoint: url) { checkpoint in
            var sets: [ReceivedSet] = []
            try checkpoint.forEach(
                "SELECT bytes FROM sets WHERE bytes IS NOT NULL ORDER BY stamp, client, sequence"
            ) {
                let set = try EncodedChangeSet(decoding: $0.bytes(0) ?? [])
                guard set.header.id.sequence > known[set.header.id.client] ?? 0 else { return }
                sets.append(try inbox.add(set))
            }
            return sets
        }
    }

    /// The last set of each client that a checkpoint has.
    ///
    /// Blocks.
    package static func knownSets(inCheckpoint url: URL) throws -> [ClientID: SeenSet] {
        try reading(checkpoint: url) { try ReplicaLog.knownSets($0) }
    }

    private static func reading<Result>(checkpoint url: URL, _ body: (SQLConnection) throws -> Result) throws -> Result
    {
        do {
            let database = try DatabaseQueue(path: url.path, configuration: discardable)
            return try database.read { db in
                let checkpoint = SQLConnection(db)
                try Replica.refuseDamage(inCheckpoint: checkpoint)
                return try body(checkpoint)
            }
        } catch let error as DatabaseError {
            throw StoreChangesError.unreadableCheckpoint(error)
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
