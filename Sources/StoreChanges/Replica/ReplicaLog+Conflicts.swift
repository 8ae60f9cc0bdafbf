/// The entries of the conflict log.
extension ReplicaLog {
    /// Whether the conflict log has an entry.
    func contains(_ conflict: Conflict) throws -> Bool {
        try state.db.first(
            """
            SELECT 1 FROM conflicts
            WHERE client = ? AND sequence = ? AND rule = ? AND tbl = ? AND name = ? AND lost = ? AND kept = ?
            """,
            [
                .text(conflict.set.client.rawValue), .integer(Int64(conflict.set.sequence)),
                .text(conflict.rule.rawValue), try state.table(conflict.row.table),
                .blob(conflict.row.row.encoded), .blob(conflict.lost.encoded), .blob(conflict.kept.encoded),
            ]
        ) != nil
    }

    /// Adds an entry to the conflict log.
    func insert(_ conflict: Conflict, _ stamp: Stamp, _ other: ChangeAuthor?) throws {
        try state.db.execute(
            """
            INSERT INTO conflicts
            (client, sequence, stamp, rule, tbl, name, lost, kept, other_client, other_sequence, other_stamp)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                .text(conflict.set.client.rawValue), .integer(Int64(conflict.set.sequence)),
                .integer(Int64(stamp.rawValue)), .text(conflict.rule.rawValue), try state.table(conflict.row.table),
                .blob(conflict.row.row.encoded), .blob(conflict.lost.encoded), .blob(conflict.kept.encoded),
                other.map { .text($0.set.client.rawValue) } ?? .null,
                other.map { .integer(Int64($0.set.sequence)) } ?? .null,
                other.map { .integer(Int64($0.time.rawValue)) } ?? .null,
            ]
        )
    }

    /// Removes the entries of a set that is undone, or integrated again.
    func forgetConflicts(of set: SetID) throws {
        try state.db.execute(
            "DELETE FROM conflicts WHERE client = ? AND sequence = ?",
            [.text(set.client.rawValue), .integer(Int64(set.sequence))]
        )
    }
}
