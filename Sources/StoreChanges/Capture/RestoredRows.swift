/// Rows that this device inserted before it was restored from a backup, and that came back from the storage.
///
/// If the backup was made before these rows were captured, its store has them already: under the numbers that they had.
struct RestoredRows {
    private let state: ReplicaState
    private let numbers: ReplicaNumbers
    /// The names of the rows that the store didn't have when it was last seen, by table and number.
    private var names: [String: [Int64: RowName]] = [:]

    /// Finds the rows.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - client: This device.
    /// - Throws: `DatabaseError`.
    init(_ state: ReplicaState, insertedBy client: ClientID) throws {
        self.state = state
        numbers = ReplicaNumbers(state)
        try state.db.forEach(
            """
            SELECT p.tbl, p.name, n.wish FROM pending p
            JOIN rows r ON r.tbl = p.tbl AND r.name = p.name JOIN numbers n ON n.tbl = p.tbl AND n.name = p.name
            WHERE p.image IS NULL AND n.number IS NULL AND n.wish IS NOT NULL
            """
        ) { values in
            let name = try values.rowName(1)
            guard case .numbered(client, _) = name, let wish = values.integer(2) else { return }
            names[state.tableName(values.integer(0)), default: [:]][wish] = name
        }
    }

    /// Returns the name of a row of the store, if it is such a row and holds exactly what the state has of it.
    ///
    /// From then on the store has the row.
    func takeName(of number: Int64, in table: String, of store: SQLConnection) throws -> RowName? {
        guard let name = names[table]?[number], let row = try state.row(RowReference(table, name)) else { return nil }
        let schema = try state.schema.table(table).schema
        guard case .integer(let key) = schema.key else { return nil }
        let columns = schema.valueColumns
        let list = (columns + [key]).map(\.quotedName).joined(separator: ", ")
        let sql = "SELECT \(list) FROM \(table.quotedName) WHERE \(key.quotedName) = ?"
        let expected = try columns.map { try value(row.cells[$0] ?? .null, of: $0, in: table) } + [.integer(number)]
        guard try store.first(sql, [.integer(number)]) == expected else { return nil }
        let reference = RowReference(table, name)
        try numbers.setNumber(number, of: reference)
        try ReplicaPending(state).changeBase(reference, row.image)
        return name
    }

    /// What a cell was in this device's store.
    private func value(_ cell: Cell, of column: String, in table: String) throws -> StoredValue {
        switch cell {
        case .value(let value): return value
        case .row(let name):
            guard let parent = state.schema.rowTable(of: column, in: table) else { return .null }
            let row = RowReference(parent, name)
            guard let number = try numbers.number(of: row) ?? numbers.wish(of: row) else { return .null }
            return StoredValue(rowNumber: number, in: try state.schema.table(table).affinity(of: column))
        }
    }
}
