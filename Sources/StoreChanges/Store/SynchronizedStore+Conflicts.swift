import GRDB

/// The conflict log, and putting back what it has.
extension SynchronizedStore {
    /// Everything that merging overwrote or left out, the oldest first.
    package func conflicts(after number: Int64 = 0) throws -> [LoggedConflict] {
        try readReplica { try $0.conflicts(after: number) }
    }

    /// The number of the last entry of the conflict log; 0 if it has none.
    package func lastConflict() throws -> Int64 {
        try readReplica { try $0.lastConflict() }
    }

    /// How many entries the conflict log has after one of them.
    package func conflictCount(after number: Int64) throws -> Int {
        try readReplica { try $0.conflictCount(after: number) }
    }

    /// Writes into the store what a conflict lost, and captures it as an edit of the user.
    ///
    /// What the user changed before is captured first. A row that is inserted again keeps the name by which all devices know
    /// it, so rows that refer to it can be restored too, and two devices that restore it have one row.
    ///
    /// - Parameter number: The number of the entry.
    /// - Returns: The new sets.
    /// - Throws: ``StoreChangesError``. `conflictNotFound`: there is no such entry, or it lost nothing. `cannotRestore`: the
    ///   store's constraints or indexes refuse the row, or it has no table, column or parent row for it any more.
    ///   `massDeletion`: more than half of a table's rows are gone. `setsMissing`: edits are missing on which other devices
    ///   have built.
    @discardableResult
    package func restore(_ number: Int64) throws -> [OwnSet] {
        try locked {
            // A new row may have got the number of a row that was deleted since the last capture.
            let edits = try recordChangesLocked(allowsDeletions: false)
            let row = try write(number)
            return try edits + recordChangesLocked(allowsDeletions: false, writtenAgain: row)
        }
    }

    /// Writes into the store what a conflict lost, and returns the row.
    private func write(_ number: Int64) throws -> RowWrittenAgain? {
        try replicaDatabase.write { _ in
            do {
                var row: RowWrittenAgain?
                try store.write(foreignKeys: true) { db in
                    try refuseOtherStore(db)
                    row = try replica.restore(number, in: db, at: now().millisecondsSince1970)
                    return .commit
                }
                return row
            } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_NOTNULL {
                // SQLite's message ends with the column.
                let column = error.message?.split(separator: " ").last ?? "a column"
                let reason = "\(column) may not be empty, and the entry has no value for it"
                throw StoreChangesError(cannotRestore: number, reason, cause: error)
            } catch let error as DatabaseError where error.isOfRow && !isMigrated(error) {
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
