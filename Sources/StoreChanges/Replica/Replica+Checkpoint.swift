import DatabaseSupport
package import GRDB

/// What a device that joins gets of another device's replica.
///
/// A *checkpoint* is a replica without what belongs to its device, and without the rows that the store holds as the state
/// does. A copy of the store, as it was last captured, travels with it, and gives these rows again.
extension Replica {
    /// Turns a copy of a replica into a checkpoint.
    ///
    /// - Parameters:
    ///   - database: The copy, in a write transaction.
    ///   - client: The device whose replica it is.
    /// - Throws: `DatabaseError`.
    package static func makeCheckpoint(of database: Database, by client: ClientID) throws {
        let db = SQLConnection(database)
        try noteStoreSeen(db, by: client)
        let ownFacts: [ReplicaFact] = [
            .client, .document, .origin, .rules, .token, .preparedToken, .counter, .status, .migrated, .updatedFrom,
            .addedAgain, .pages, .names,
        ]
        for fact in ownFacts { try fact.write(nil, db) }
        for table in ["replaced", "pages", "refusals"] { try db.execute("DELETE FROM \(table)") }
        try keepNewestConflicts(db)
        // A device that gets the checkpoint would choose between these and others of their numbers.
        try db.execute(
            "DELETE FROM sets WHERE NOT \(ReplicaLog.Origin.isShared) AND \(ReplicaLog.Status.isNotIntegrated)"
        )
        try db.execute("UPDATE sets SET origin = \(ReplicaLog.Origin.otherDevice.rawValue)")
        try db.execute("UPDATE sets SET bytes = NULL WHERE \(ReplicaLog.Status.isStable)")
        if let stable = try ReplicaKnowledge(db).read().stable {
            // They never count again, and only the device that captured them captures them again.
            try db.execute(
                "UPDATE sets SET bytes = NULL WHERE \(ReplicaLog.Status.isVoid) AND \(SetPosition.isUpTo)",
                stable.position.values
            )
        }
        func isIn(_ pending: String, _ row: String) -> String {
            "EXISTS (SELECT 1 FROM \(pending) p WHERE p.tbl = \(row).tbl AND p.name = \(row).name)"
        }
        // No image is an integer.
        try db.execute("UPDATE rows SET image = 0 WHERE NOT \(isIn("pending", "rows"))")
        try db.execute("DELETE FROM counts WHERE NOT \(isIn("pending_counts", "counts"))")
        let isPending = "\(isIn("pending", "lookups")) OR \(isIn("pending_counts", "lookups"))"
        try db.execute("DELETE FROM lookups WHERE NOT (\(isPending))")
    }

    /// How many bytes of conflicts a checkpoint has at most.
    ///
    /// Older ones stay in the replicas of the devices that merged these edits, but no device that joins later gets them:
    /// the log would make every baseline larger for good.
    package static let maximumConflictBytes = 16 << 20

    private static func keepNewestConflicts(_ db: SQLConnection) throws {
        try db.execute(
            """
            DELETE FROM conflicts WHERE number <= (
                SELECT max(number) FROM (
                    SELECT number, sum(length(lost) + length(kept)) OVER (ORDER BY number DESC) AS bytes FROM conflicts
                ) WHERE bytes > ?
            )
            """,
            [.integer(Int64(maximumConflictBytes))]
        )
    }

    /// Notes which sets are in the store, the maker's own among them: for the device that joins they are another device's.
    private static func noteStoreSeen(_ db: SQLConnection, by client: ClientID) throws {
        var seen = try ReplicaFact.seen.read(db).map { try [ClientID: SeenSet](decoding: $0) } ?? [:]
        seen[client] = try ReplicaLog.knownSets(db, where: ReplicaLog.Status.isIntegrated)[client]
        try ReplicaFact.seen.write(seen.encoded, db)
    }

    /// Refuses a checkpoint with numbers or digests that no replica has: it comes from another device.
    ///
    /// The other values are checked as they are decoded.
    ///
    /// - Parameter db: The checkpoint.
    /// - Throws: `DatabaseError`.
    static func refuseDamage(inCheckpoint db: SQLConnection) throws {
        let maximum = Int64(SetID.maximumSequence)
        func lacks(_ column: String, from least: Int64 = 0, to greatest: Int64 = maximum) -> String {
            "(typeof(\(column)) <> 'integer' OR \(column) NOT BETWEEN \(least) AND \(greatest))"
        }
        let bits = ReplicaState.identifierBits
        let isStrayRow = "typeof(tbl) <> 'integer' OR id >> \(bits) <> tbl"
        let noDigest = "length(digest) <> \(SetDigest.byteCount)"
        let hasOther = "other_client IS NOT NULL"
        let damages = [
            // More tables than any store has; far greater numbers leave no room for the identifiers of rows.
            ("tables", lacks("id", from: 1, to: 1 << 20)),
            ("rows", isStrayRow),
            ("counts", "\(isStrayRow) OR \(lacks("count", from: 1, to: 1 << bits))"),
            ("pending_counts", lacks("count", to: 1 << bits)),
            ("sets", "\(lacks("sequence", from: 1)) OR \(lacks("stamp")) OR \(noDigest)"),
            ("removals", lacks("sequence", to: .max)),
            ("schemas", "\(lacks("number")) OR \(noDigest)"),
            ("conflicts", "\(lacks("number", from: 1)) OR \(lacks("sequence")) OR \(lacks("stamp"))"),
            ("conflicts", "\(hasOther) AND (\(lacks("other_sequence")) OR \(lacks("other_stamp")))"),
            ("sqlite_sequence", lacks("seq")),
            // The last byte is the most significant.
            ("facts", "name = '\(ReplicaFact.clock.rawValue)' AND (length(value) <> 8 OR substr(value, 8) > x'40')"),
        ]
        for (table, condition) in damages {
            guard try db.first("SELECT 1 FROM \(table) WHERE \(condition) LIMIT 1") == nil else {
                throw DatabaseError.ofContent("a number or a digest in \(table) is out of range")
            }
        }
    }

    /// Completes a checkpoint, which this replica was opened from.
    ///
    /// - Parameter store: The store that belongs to the checkpoint, in a read transaction.
    /// - Throws: `DatabaseError`; ``StoreChangesError`` with `corrupt` if they don't belong together.
    package func join(with store: Database) throws {
        let connection = SQLConnection(store)
        try Baseline(of: connection, state, RowNames(in: connection, state, by: client)).fill()
        let isLeftOut = try db.first("SELECT 1 FROM rows WHERE typeof(image) = 'integer' LIMIT 1") != nil
        guard !isLeftOut else { throw StoreChangesError.unfitCheckpoint }
        // A client that lost its replica never gives a name again.
        var counter: Int64 = 0
        try db.forEach("SELECT name FROM numbers") { values in
            guard case .numbered(client, let number) = try values.rowName(0),
                RowName.counter(in: number) <= RowName.greatestCounter
            else { return }
            counter = max(counter, RowName.counter(in: number))
        }
        try ReplicaNumbers(state).skipNames(to: counter)
        // The maker has taken sets out that only it knew.
        try log.markUnjudged()
    }
}

extension StoreChangesError {
    /// The error of a checkpoint that SQLite can't read, or whose content no replica has.
    static func unreadableCheckpoint(_ cause: DatabaseError) -> StoreChangesError {
        StoreChangesError(
            .corrupt,
            """
            The record of a baseline of the document can't be read. Try again. If the error stays, run storesync vacuum on a \
            device that has the document: it writes another baseline.
            """,
            cause: cause
        )
    }

    /// The error of a checkpoint whose store isn't its own.
    static let unfitCheckpoint = StoreChangesError(
        .corrupt,
        """
        A baseline of the document is damaged: its store doesn't have the rows that its record names. Remove its files \
        from the remote, or synchronize on a device that has the document: its storesync vacuum writes another baseline.
        """
    )
}
