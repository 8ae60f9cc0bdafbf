/// Finds the rows with integer keys that a store and the state both have, although their numbers don't say so.
///
/// Rows are the same if all else is equal; a reference is equal if it leads to rows that are the same. What it finds is in
/// memory.
struct EqualRows {
    /// The rows of a table of the store whose counterparts aren't known (yet).
    private struct Table {
        var table: FoldSchema.Table
        /// The values outside the key, by number.
        var rows: [Int64: [StoredValue]] = [:]
        /// The rows of the state without a counterpart, by their encoded cells.
        var candidates: [[UInt8]: [RowName]] = [:]
    }

    private let store: SQLConnection
    private let state: ReplicaState
    private let numbers: ReplicaNumbers
    /// Whether a row that has a number here is the store's row of that number.
    private let keepsNumbers: Bool
    private var tables: [String: Table] = [:]
    /// The rows that have a counterpart, by table and the store's number.
    private var found: [String: [Int64: RowName]] = [:]

    /// Prepares a search.
    ///
    /// - Parameters:
    ///   - store: A connection in a read transaction.
    ///   - state: The replica, in a write transaction; nothing is pending.
    ///   - keepsNumbers: Whether a row that has a number here is the store's row of that number.
    init(in store: SQLConnection, _ state: ReplicaState, keepsNumbers: Bool) {
        self.store = store
        self.state = state
        self.keepsNumbers = keepsNumbers
        numbers = ReplicaNumbers(state)
    }

    /// Gives the rows of the state the numbers that their counterparts have in the store.
    ///
    /// Unless numbers are kept, those without a counterpart belong to no row afterwards.
    mutating func match() throws {
        let names = state.schema.tables.keys.filter {
            state.schema.hasIntegerKey($0) && state.schema.numberedTable($0) == $0
        }
        let sorted = names.sorted { $0.precedes($1) }
        for name in sorted { tables[name] = try read(name) }
        // A row that refers to another one is found after that one.
        while try sorted.reduce(false, { try match($1) || $0 }) {}
        for name in sorted {
            if !keepsNumbers {
                for number in (tables[name]?.rows ?? [:]).keys.sorted() { try numbers.release(number, in: name) }
            }
            for (number, row) in (found[name] ?? [:]).sorted(by: { $0.key < $1.key }) {
                try numbers.setNumber(number, of: RowReference(name, row))
            }
        }
    }

    private func read(_ name: String) throws -> Table {
        var table = Table(table: try state.schema.table(name))
        let columns = (table.table.schema.key.columns + table.table.schema.valueColumns).map(\.quotedName)
        try store.forEach("SELECT \(columns.joined(separator: ", ")) FROM \(name.quotedName)") { values in
            guard let number = values.integer(0), try !keepsNumbers || numbers.name(of: number, in: name) == nil else {
                return
            }
            table.rows[number] = Array(values.dropFirst())
        }
        let condition = keepsNumbers ? "AND number IS NULL" : ""
        let sql = "SELECT name, image FROM rows WHERE tbl = ? \(condition) ORDER BY name DESC"
        try state.db.forEach(sql, [try state.table(name)]) { values in
            let row = try RowName(decoding: values.bytes(0) ?? [])
            table.candidates[values.bytes(1) ?? [], default: []].append(row)
        }
        return table
    }

    /// Finds counterparts of a table's rows; returns whether there were any.
    private mutating func match(_ name: String) throws -> Bool {
        guard var table = tables[name] else { return false }
        let former = table.rows.count
        for (number, values) in table.rows.sorted(by: { $0.key < $1.key }) {
            guard let cells = try cells(values, of: table.table) else { continue }
            let image = table.table.encode(cells)
            guard var rows = table.candidates[image], !rows.isEmpty else { continue }
            // Of several, the row that has this number already.
            let index = try numbers.name(of: number, in: name).flatMap(rows.firstIndex) ?? rows.count - 1
            found[name, default: [:]][number] = rows.remove(at: index)
            table.candidates[image] = rows
            table.rows[number] = nil
        }
        tables[name] = table
        return table.rows.count < former
    }

    /// The cells as the state has them; `nil` if they refer to a row whose counterpart isn't known.
    private func cells(_ values: [StoredValue], of table: FoldSchema.Table) throws -> [String: Cell]? {
        var cells: [String: Cell] = [:]
        for (column, value) in zip(table.schema.valueColumns, values) {
            cells[column] = .value(value)
            guard let parent = state.schema.rowTable(of: column, in: table.schema.name),
                let number = value.rowNumber(in: table.affinity(of: column)),
                try StoreTable(parent, in: store, state).exists(number)
            else { continue }
            guard let row = try counterpart(of: number, in: state.schema.numberedTable(parent)) else { return nil }
            cells[column] = .row(row)
        }
        return cells
    }

    /// The state's row that is the store's row of a number; `nil` if it isn't known (yet).
    private func counterpart(of number: Int64, in table: String) throws -> RowName? {
        if let row = found[table]?[number] { return row }
        return keepsNumbers ? try numbers.name(of: number, in: table) : nil
    }
}
