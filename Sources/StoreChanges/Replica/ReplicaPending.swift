/// The rows of the store that aren't at the state, and with them what the store held when it was last seen.
///
/// A row that isn't pending is in the store as it is in the state. So no copy of the store is needed to tell what the
/// user changed.
struct ReplicaPending {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// What the store held for a row: the pending image, else the state's.
    func base(_ row: RowReference) throws -> [UInt8]? {
        if let pending = try image(state.rowKey(row)) { return pending }
        return try state.row(row)?.image
    }

    /// The encoded name of the row that has a number or had it last, and whether the store had the row when it was last seen;
    /// `nil` if no row ever had the number.
    func holder(of number: Int64, in table: String) throws -> (name: [UInt8], isInStore: Bool)? {
        let row = try db.first(
            """
            SELECT name, ifnull(
                (SELECT image IS NOT NULL FROM pending p WHERE p.tbl = ?1 AND p.name = n.name),
                EXISTS (SELECT 1 FROM rows r WHERE r.tbl = ?1 AND r.name = n.name)
            ) FROM numbers n WHERE tbl = ?1 AND number = ?2
            """,
            [state.table(table), .integer(number)]
        )
        return row.map { ($0.bytes(0) ?? [], $0.integer(1) == 1) }
    }

    /// How often the store had a row without a key.
    func baseCount(_ row: RowReference) throws -> Int {
        let values = try db.first("SELECT count FROM pending_counts WHERE tbl = ? AND name = ?", try state.key(row))
        if let count = values?.integer(0) { return Int(count) }
        return try state.count(row) ?? 0
    }

    /// What the store has for a pending row, `nil` where it has none; `nil` if the row isn't pending.
    func image(_ key: RowKey) throws -> [UInt8]?? {
        let statement = try state.statements.pending.bind(key)
        defer { statement.reset() }
        return try statement.step() ? .some(statement.blob(0)) : .none
    }

    /// Records what the store holds for a row.
    func setBase(_ row: RowReference, _ image: [UInt8]?) throws {
        let key = try state.rowKey(row)
        try state.statements.deletePending.bind(key).run()
        try insert(key, image)
    }

    /// Records what the store holds for a row, which isn't pending if that is as in the state.
    func changeBase(_ row: RowReference, _ image: [UInt8]?) throws {
        let key = try state.rowKey(row)
        try state.statements.deletePending.bind(key).run()
        if try image != state.row(row)?.image { try insert(key, image) }
    }

    private func insert(_ key: RowKey, _ image: [UInt8]?) throws {
        let statement = try state.statements.insertPending.bind(key)
        try statement.bind(image, at: 3)
        try statement.run()
    }

    func setBaseCount(_ row: RowReference, _ count: Int) throws {
        try db.execute(
            "INSERT OR REPLACE INTO pending_counts (tbl, name, count) VALUES (?, ?, ?)",
            try state.key(row) + [.integer(Int64(count))]
        )
    }

    /// Records how often the store has a row without a key, which isn't pending if that is as in the state.
    func changeBaseCount(_ row: RowReference, _ count: Int) throws {
        try setBaseCount(row, count)
        try settleCount(row)
    }

    /// Keeps what the store holds for a row that changes in the state; a row that is in the store as it will be in the
    /// state isn't pending.
    ///
    /// - Parameters:
    ///   - key: The row.
    ///   - before: Its encoded cells in the state until now; `nil` if the state doesn't have it.
    ///   - after: Its encoded cells in the state from now on.
    /// - Throws: `DatabaseError`.
    func keep(_ key: RowKey, _ before: [UInt8]?, _ after: [UInt8]?) throws {
        if let pending = try image(key) {
            if pending == after { try state.statements.deletePending.bind(key).run() }
        } else if before != after {
            try insert(key, before)
        }
    }

    func keepCount(_ row: RowReference) throws { try setBaseCount(row, try baseCount(row)) }

    /// Removes a row without a key that is in the store as often as it is in the state.
    func settleCount(_ row: RowReference) throws {
        if try baseCount(row) == state.count(row) ?? 0 {
            try db.execute("DELETE FROM pending_counts WHERE tbl = ? AND name = ?", try state.key(row))
        }
    }

    /// Whether the store is at the state.
    var isEmpty: Bool {
        get throws {
            try db.first("SELECT 1 FROM pending UNION ALL SELECT 1 FROM pending_counts LIMIT 1") == nil
        }
    }

    /// Whether there are rows that the store doesn't refuse.
    var isWritable: Bool {
        get throws {
            let rows = ["pending", "pending_counts"].map { "SELECT 1 FROM \($0) AS p WHERE NOT \(Self.isRefused)" }
            return try db.first(rows.joined(separator: " UNION ALL ") + " LIMIT 1") != nil
        }
    }

    /// The tables of the rows with a key that the store doesn't refuse.
    var writableTables: [String] {
        get throws {
            try db.all("SELECT DISTINCT tbl FROM pending AS p WHERE NOT \(Self.isRefused)").map {
                state.tableName($0.integer(0))
            }
        }
    }

    private static let isRefused = "EXISTS (SELECT 1 FROM refusals r WHERE r.tbl = p.tbl AND r.name = p.name)"

    /// A row that is in the store as it was, and in the state as it will be; `nil` where there is none.
    struct Difference {
        var row: RowReference
        /// Its integer key in the store; `nil` if it has none yet, or if the state doesn't have it.
        var number: Int64?
        var former: StoredRow?
        var present: StoredRow?
    }

    /// How many rows are read before they are passed on, and how large their images are together, in bytes: a larger row is
    /// the last one.
    private static let maximumRun = (count: 500, size: 256 << 10)

    /// Calls `body` with what the store has of each pending row that it doesn't refuse, and what it will have: mostly in
    /// the order of the store.
    func forEachDifference(_ body: (Difference) throws -> Void) throws {
        let rows = try db.prepareApart("\(Self.selectDifferences) AND p.id > ? ORDER BY p.id")
        var last: Int64 = 0
        var isAtEnd = false
        while !isAtEnd {
            var (run, size): ([Difference], Int) = ([], 0)
            try rows.bind([.integer(last)])
            while !isAtEnd, run.count < Self.maximumRun.count, size < Self.maximumRun.size {
                isAtEnd = try !rows.step()
                guard !isAtEnd, let difference = try difference(rows) else { continue }
                run.append(difference)
                size += (difference.former?.image.count ?? 0) + (difference.present?.image.count ?? 0)
                last = rows.integer(5) ?? last
            }
            // So that SQLite doesn't keep its own copies of a row's images while the row is written.
            rows.reset()
            for difference in run { try body(difference) }
        }
    }

    /// Returns what the store has of a row with a key, and what it will have; `nil` if the row isn't pending, or the store
    /// refuses it.
    func difference(of row: RowReference) throws -> Difference? {
        let rows = try db.prepare("\(Self.selectDifferences) AND p.tbl = ? AND p.name = ?")
        try rows.bind(state.key(row))
        defer { rows.reset() }
        return try rows.step() ? difference(rows) : nil
    }

    private static let selectDifferences = """
        SELECT p.tbl, p.name, p.image, r.image, r.number, p.id FROM pending p
        LEFT JOIN rows r ON r.tbl = p.tbl AND r.name = p.name WHERE NOT \(isRefused)
        """

    /// The difference that a statement has read; `nil` if the schema doesn't have its table.
    private func difference(_ rows: SQLStatement) throws -> Difference? {
        guard let id = rows.integer(0), let table = state.schema.tables[state.tableName(id)] else { return nil }
        return Difference(
            row: RowReference(table.schema.name, try RowName(decoding: rows.blob(1) ?? [])),
            number: rows.integer(4),
            former: try rows.blob(2).map { try StoredRow(checking: $0, in: table) },
            present: try rows.blob(3).map { try StoredRow(checking: $0, in: table) }
        )
    }

    /// Whether a row is pending and isn't in the store.
    func isAbsent(_ row: RowReference) throws -> Bool { try image(state.rowKey(row)) == .some(nil) }

    /// Whether a row is pending and will be in the store.
    func isWritten(_ row: RowReference) throws -> Bool {
        try image(state.rowKey(row)) != nil && state.row(row) != nil
    }

    /// Calls `body`, which may number it, with each row that isn't in the store yet and will need an integer key.
    func forEachUnnumbered(_ body: (RowReference) throws -> Void) throws {
        var last: Int64 = 0
        while true {
            let rows = try db.all(
                """
                SELECT p.tbl, p.name, p.id FROM pending p JOIN rows r ON r.tbl = p.tbl AND r.name = p.name
                WHERE p.image IS NULL AND r.number IS NULL AND p.id > ? ORDER BY p.id LIMIT 1000
                """,
                [.integer(last)]
            )
            guard let end = rows.last?.integer(2) else { return }
            for row in rows {
                let table = state.tableName(row.integer(0))
                guard state.schema.hasIntegerKey(table) else { continue }
                try body(RowReference(table, row.rowName(1)))
            }
            last = end
        }
    }

    /// The pending rows without a key that the store doesn't refuse.
    var counted: [RowReference] {
        get throws {
            try db.all("SELECT tbl, name FROM pending_counts AS p WHERE NOT \(Self.isRefused)").map {
                RowReference(state.tableName($0.integer(0)), try $0.rowName(1))
            }
        }
    }

    // MARK: Afterwards

    /// Records that the store is at the state, but for what it refuses: what it held until now is replaced.
    func finish() throws {
        try replaceRows()
        try db.execute("DELETE FROM pending_counts WHERE (tbl, name) NOT IN (SELECT tbl, name FROM refusals)")
    }

    /// Lets the pending rows be the replaced ones, but for what the store refuses.
    private func replaceRows() throws {
        guard try db.first("SELECT 1 FROM pending UNION ALL SELECT 1 FROM replaced") != nil else { return }
        guard let table = try db.first("SELECT sql FROM sqlite_schema WHERE name = 'pending'")?.text(0) else { return }
        try db.execute("DROP TABLE replaced")
        try db.execute("ALTER TABLE pending RENAME TO replaced")
        try db.execute(table)
        let isRefused = "(tbl, name) IN (SELECT tbl, name FROM refusals)"
        try db.execute(
            "INSERT INTO pending (tbl, name, image) SELECT tbl, name, image FROM replaced WHERE \(isRefused)"
        )
        try db.execute("DELETE FROM replaced WHERE \(isRefused)")
    }
}
