/// The entries of the conflict log.
extension ReplicaLog {
    /// Adds an entry to the conflict log.
    func insert(_ conflict: Conflict, _ stamp: Stamp, _ other: ChangeAuthor?) throws {
        try insert(values(of: conflict)[...], of: conflict.set, stamp, other)
    }

    private func insert(
        _ content: ArraySlice<StoredValue>,
        of set: SetID,
        _ stamp: Stamp,
        _ other: ChangeAuthor?
    ) throws {
        try state.db.execute(
            """
            INSERT INTO conflicts
            (client, sequence, stamp, rule, tbl, name, lost, kept, other_client, other_sequence, other_stamp)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            set.values + [.integer(Int64(stamp.rawValue))] + content + values(of: other)
        )
    }

    /// Makes these the entries of a set.
    ///
    /// Entries that the set had before keep their numbers, by which the user knows them. What was lost with another set of
    /// its number stays.
    func setConflicts(_ conflicts: [(Conflict, other: ChangeAuthor?)], of set: SyncChangeSet.Header) throws {
        let former = try db.all(
            """
            SELECT number, rule, tbl, name, lost, kept FROM conflicts
            WHERE client = ?1 AND sequence = ?2 AND (
                rule NOT IN (?4, ?5) OR stamp = ?3 AND NOT EXISTS (
                    SELECT 1 FROM sets WHERE client = ?1 AND sequence = ?2 AND stamp = ?3 AND \(Status.isVoid)
                )
            ) ORDER BY number
            """,
            set.id.values + [.integer(Int64(set.stamp.rawValue))]
                + Conflict.Rule.ofVoidSets.map { .text($0.rawValue) }
        )
        var numbers = Dictionary(grouping: former) { $0.dropFirst() }.mapValues { $0.map { $0[0] } }
        for (conflict, other) in conflicts {
            let content = try values(of: conflict)[...]
            if let number = numbers[content]?.first {
                numbers[content]?.removeFirst()
                try db.execute(
                    """
                    UPDATE conflicts SET stamp = ?, other_client = ?, other_sequence = ?, other_stamp = ?
                    WHERE number = ?
                    """,
                    [.integer(Int64(set.stamp.rawValue))] + values(of: other) + [number]
                )
            } else {
                try insert(content, of: conflict.set, set.stamp, other)
            }
        }
        for number in numbers.values.joined() { try db.execute("DELETE FROM conflicts WHERE number = ?", [number]) }
    }

    /// The greatest number that an entry ever had.
    func lastConflictNumber() throws -> Int64 {
        try db.first("SELECT seq FROM sqlite_sequence WHERE name = 'conflicts'")?.integer(0) ?? 0
    }

    /// Gives all entries other numbers; a new entry gets a number after `last`.
    func setConflictNumbers(_ numbers: [(former: Int64, present: Int64)], last: Int64) throws {
        // So that no entry gets a number that another one still has.
        try db.execute("UPDATE conflicts SET number = -number")
        for (former, present) in numbers {
            try db.execute("UPDATE conflicts SET number = ? WHERE number = -?", [.integer(present), .integer(former)])
        }
        try db.execute("DELETE FROM sqlite_sequence WHERE name = 'conflicts'")
        try db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('conflicts', ?)", [.integer(last)])
    }

    /// Rule, table, name, and what was lost and kept.
    private func values(of conflict: Conflict) throws -> [StoredValue] {
        [
            .text(conflict.rule.rawValue), try state.table(conflict.row.table), .blob(conflict.row.row.encoded),
            .blob(conflict.lost.encoded), .blob(conflict.kept.encoded),
        ]
    }

    private func values(of author: ChangeAuthor?) -> [StoredValue] {
        guard let author else { return [.null, .null, .null] }
        return author.set.values + [.integer(Int64(author.time.rawValue))]
    }
}
