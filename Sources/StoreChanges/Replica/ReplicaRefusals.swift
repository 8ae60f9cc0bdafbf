/// The pending rows that the store's constraints refuse: they are in the state, and wait until the store takes them.
///
/// Such rows are rare: other devices have other constraints, or an app of another version changed one. All other rows are
/// written, and this device's edits are published.
struct ReplicaRefusals {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// Records rows that the store refuses.
    ///
    /// A new row gives its number back, which the app may use meanwhile.
    func insert(_ refused: RefusedRows) throws {
        let (pending, numbers) = (ReplicaPending(state), ReplicaNumbers(state))
        for (row, reason) in refused.reasons {
            let isNumbered = state.schema.hasIntegerKey(row.table) && state.schema.numberedTable(row.table) == row.table
            if isNumbered, try pending.isAbsent(row), let number = try numbers.number(of: row) {
                try numbers.release(number, in: row.table)
            }
            try db.execute(
                "INSERT OR REPLACE INTO refusals (tbl, name, reason) VALUES (?, ?, ?)",
                try state.key(row) + [.text(reason)]
            )
        }
    }

    /// Whether the store refuses to delete rows that it has, so that the app still shows them.
    var keepDeletedRows: Bool {
        get throws {
            try db.first(
                """
                SELECT 1 FROM refusals r JOIN pending p ON p.tbl = r.tbl AND p.name = r.name
                WHERE p.image IS NOT NULL AND NOT EXISTS (SELECT 1 FROM rows s WHERE s.tbl = r.tbl AND s.name = r.name)
                """
            ) != nil
        }
    }

    /// Lets the next write try all rows again.
    func removeAll() throws { try db.execute("DELETE FROM refusals") }

    /// Forgets the rows that aren't pending any more.
    func removeSettled() throws {
        try db.execute(
            """
            DELETE FROM refusals AS r WHERE NOT EXISTS (SELECT 1 FROM pending p WHERE p.tbl = r.tbl AND p.name = r.name)
            AND NOT EXISTS (SELECT 1 FROM pending_counts p WHERE p.tbl = r.tbl AND p.name = r.name)
            """
        )
    }

    /// The names of a table's refused rows.
    func names(of table: String) throws -> Set<RowName> {
        let names = try db.all("SELECT name FROM refusals WHERE tbl = ?", [state.table(table)])
        return Set(try names.map { try $0.rowName(0) })
    }

    /// How many rows of each table are refused, and why the first of them is.
    func summaries() throws -> [RefusalSummary] {
        try db.all(
            """
            SELECT tbl, count(*), min(reason) FROM refusals
            WHERE (tbl, name) IN (SELECT tbl, name FROM pending UNION ALL SELECT tbl, name FROM pending_counts)
            GROUP BY tbl
            """
        ).map {
            RefusalSummary(
                table: state.tableName($0.integer(0)),
                count: Int($0.integer(1) ?? 0),
                reason: $0.text(2) ?? ""
            )
        }
    }
}

/// Rows of a table that the store's constraints refuse.
package struct RefusalSummary: Hashable, Sendable {
    package var table: String
    package var count: Int
    /// Why one of them is refused, as SQLite says it.
    package var reason: String
}

/// The error of a write with rows that the store's constraints refuse: nothing is written.
struct RefusedRows: Error {
    var reasons: [RowReference: String]
}
