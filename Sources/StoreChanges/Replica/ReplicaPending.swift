/// The rows of the store that aren't at the state, and with them what the store held when it was last seen.
///
/// A row that isn't pending is in the store as it is in the state. So no copy of the store is needed to tell what the
/// user changed.
struct ReplicaPending {
    private let state: ReplicaState
    private var db: SQLConnection { state.db }

    init(_ state: ReplicaState) { self.state = state }

    /// What the store held for a row: the pending image, else the state.
    func base(_ row: RowReference) throws -> [String: Cell]? {
        if let pending = try image(row) { return pending.cells }
        return try state.row(row)?.cells
    }

    /// The encoded name of the row that had a number in the store when it was last seen; `nil` if none had.
    func name(of number: Int64, in table: String) throws -> [UInt8]? {
        try db.first(
            """
            SELECT name FROM numbers n WHERE tbl = ?1 AND number = ?2 AND ifnull(
                (SELECT image IS NOT NULL FROM pending p WHERE p.tbl = ?1 AND p.name = n.name),
                EXISTS (SELECT 1 FROM rows r WHERE r.tbl = ?1 AND r.name = n.name)
            )
            """,
            [state.table(table), .integer(number)]
        )?.bytes(0)
    }

    /// How often the store had a row without a key.
    func baseCount(_ row: RowReference) throws -> Int {
        let values = try db.first("SELECT count FROM pending_counts WHERE tbl = ? AND name = ?", try state.key(row))
        if let count = values?.integer(0) { return Int(count) }
        return try state.count(row) ?? 0
    }

    /// What the store has for a pending row; `cells` are `nil` where it has none.
    struct Image {
        var cells: [String: Cell]?
    }

    /// Returns `nil` if the row isn't pending.
    func image(_ row: RowReference) throws -> Image? {
        guard let values = try db.first("SELECT image FROM pending WHERE tbl = ? AND name = ?", try state.key(row))
        else { return nil }
        return Image(cells: try values.bytes(0).map { try state.schema.cells(decoding: $0, of: row.table) })
    }

    /// Records what the store holds for a row.
    func setBase(_ row: RowReference, _ cells: [String: Cell]?) throws {
        let image = cells.map { StoredValue.blob(state.schema.encode($0, of: row.table)) } ?? .null
        try db.execute(
            "INSERT OR REPLACE INTO pending (tbl, name, image) VALUES (?, ?, ?)",
            try state.key(row) + [image]
        )
    }

    func setBaseCount(_ row: RowReference, _ count: Int) throws {
        try db.execute(
            "INSERT OR REPLACE INTO pending_counts (tbl, name, count) VALUES (?, ?, ?)",
            try state.key(row) + [.integer(Int64(count))]
        )
    }

    /// Keeps what the store holds for a row that changes in the state; a row that is in the store as it will be in the
    /// state isn't pending.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - before: Its encoded cells in the state until now; `nil` if the state doesn't have it.
    ///   - after: Its encoded cells in the state from now on.
    /// - Throws: `DatabaseError`.
    func keep(_ row: [StoredValue], _ before: [UInt8]?, _ after: [UInt8]?) throws {
        let pending = try db.first("SELECT image FROM pending WHERE tbl = ? AND name = ?", row)
        guard let pending else {
            guard before != after else { return }
            let image = before.map { StoredValue.blob($0) } ?? .null
            return try db.execute("INSERT INTO pending (tbl, name, image) VALUES (?, ?, ?)", row + [image])
        }
        guard pending.bytes(0) == after else { return }
        try db.execute("DELETE FROM pending WHERE tbl = ? AND name = ?", row)
    }

    /// Removes a row that is in the store as it is in the state.
    func settle(_ row: RowReference) throws {
        if let image = try image(row), try image.cells == state.row(row)?.cells {
            try db.execute("DELETE FROM pending WHERE tbl = ? AND name = ?", try state.key(row))
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

    /// A row that is in the store as it was, and in the state as it will be; `nil` where there is none.
    struct Difference {
        var row: RowReference
        var former: [String: Cell]?
        var present: [String: Cell]?
    }

    /// What the store has of the pending rows, and what it will have.
    func differences() throws -> [Difference] {
        let sql = """
            SELECT p.tbl, p.name, p.image, r.image FROM pending p
            LEFT JOIN rows r ON r.tbl = p.tbl AND r.name = p.name ORDER BY p.tbl, p.name
            """
        return try db.all(sql).map { values in
            let table = state.tableName(values.integer(0))
            return Difference(
                row: RowReference(table, try RowName(decoding: values.bytes(1) ?? [])),
                former: try values.bytes(2).map { try state.schema.cells(decoding: $0, of: table) },
                present: try values.bytes(3).map { try state.schema.cells(decoding: $0, of: table) }
            )
        }
    }

    /// The pending rows, of tables with a key.
    var rows: [RowReference] { get throws { try references("pending") } }
    /// The pending rows without a key.
    var counted: [RowReference] { get throws { try references("pending_counts") } }

    private func references(_ table: String) throws -> [RowReference] {
        try db.all("SELECT tbl, name FROM \(table)").map {
            RowReference(state.tableName($0.integer(0)), try RowName(decoding: $0.bytes(1) ?? []))
        }
    }
}
