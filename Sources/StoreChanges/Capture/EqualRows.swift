import HeapModule

/// Finds the rows with integer keys that a store and the state both have, although their numbers don't say so.
///
/// Rows are the same if all else is equal; a reference is equal if it leads to rows that are the same. What it finds is in
/// memory.
struct EqualRows {
    /// The rows of a table of the store whose counterparts aren't known (yet).
    private struct Table {
        /// The values outside the key, by number.
        var rows: [Int64: [StoredValue]] = [:]
        /// The rows of the state without a counterpart, by their encoded cells.
        var candidates: [[UInt8]: [RowName]] = [:]

        /// Takes one of the candidates that have an image: of several, the given one if it's among them.
        mutating func takeCandidate(_ image: [UInt8], preferring row: RowName?) -> RowName? {
            guard let last = candidates[image]?.indices.last else { return nil }
            let index = row.flatMap { candidates[image]?.lastIndex(of: $0) } ?? last
            return candidates[image]?.remove(at: index)
        }
    }

    /// A row of the store.
    private struct Row: Hashable, Comparable {
        var table: String
        var number: Int64

        static func < (lhs: Row, rhs: Row) -> Bool {
            lhs.table == rhs.table ? lhs.number < rhs.number : lhs.table.precedes(rhs.table)
        }
    }

    /// An attempt to find a row's counterpart.
    ///
    /// A row that refers to another one is found after that one: in the same pass over all rows if it comes after it, else
    /// in the next pass. So which of several equal rows gets which counterpart depends on nothing but the rows.
    private struct Attempt: Comparable {
        var pass = 0
        var row: Row

        static func < (lhs: Attempt, rhs: Attempt) -> Bool {
            lhs.pass == rhs.pass ? lhs.row < rhs.row : lhs.pass < rhs.pass
        }
    }

    private let store: SQLConnection
    private let state: ReplicaState
    private let numbers: ReplicaNumbers
    /// Whether a row that has a number here is the store's row of that number.
    private let keepsNumbers: Bool
    private var tables: [String: Table] = [:]
    private var storeTables: [String: StoreTable] = [:]
    /// The rows that have a counterpart, by table and the store's number.
    private var found: [String: [Int64: RowName]] = [:]
    /// The rows that refer to a row whose counterpart isn't known yet.
    private var waiting: [Row: [Row]] = [:]

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
    /// Unless numbers are kept, those without a counterpart belong to no row afterwards, and neither do those of deleted rows.
    mutating func match() throws {
        let names = state.schema.tables.keys.filter {
            state.schema.hasIntegerKey($0) && state.schema.numberedTable($0) == $0
        }
        let sorted = names.sorted { $0.precedes($1) }
        for name in sorted { tables[name] = try read(name) }
        var attempts = Heap(
            tables.flatMap { name, table in table.rows.keys.map { Attempt(row: Row(table: name, number: $0)) } }
        )
        while let attempt = attempts.popMin() { attempts.insert(contentsOf: try match(attempt)) }
        for name in sorted {
            if !keepsNumbers {
                for number in (tables[name]?.rows ?? [:]).keys.sorted() { try numbers.release(number, in: name) }
                try numbers.releaseMissing(in: name)
            }
            for (number, row) in (found[name] ?? [:]).sorted(by: { $0.key < $1.key }) {
                try numbers.setNumber(number, of: RowReference(name, row))
            }
        }
    }

    private func read(_ name: String) throws -> Table {
        var table = Table()
        let schema = try state.schema.table(name).schema
        let columns = (schema.key.columns + schema.valueColumns).map(\.quotedName)
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

    /// Finds the counterpart of a row; returns the attempts of the rows that waited for it.
    private mutating func match(_ attempt: Attempt) throws -> [Attempt] {
        let row = attempt.row
        guard let cells = try cells(of: attempt.row) else { return [] }
        let image = try state.schema.table(row.table).encode(cells)
        let known = try numbers.name(of: row.number, in: row.table)
        guard let counterpart = tables[row.table]?.takeCandidate(image, preferring: known) else { return [] }
        found[row.table, default: [:]][row.number] = counterpart
        tables[row.table]?.rows[row.number] = nil
        let rows = waiting.removeValue(forKey: row) ?? []
        return rows.map { Attempt(pass: row < $0 ? attempt.pass : attempt.pass + 1, row: $0) }
    }

    /// The cells of a row as the state has them; `nil` if it has to wait for the counterpart of a row to which it refers.
    private mutating func cells(of row: Row) throws -> [String: Cell]? {
        let table = try state.schema.table(row.table)
        guard let values = tables[row.table]?.rows[row.number] else { return nil }
        var cells: [String: Cell] = [:]
        for (column, value) in zip(table.schema.valueColumns, values) {
            cells[column] = .value(value)
            guard let parent = state.schema.rowTable(of: column, in: row.table),
                let number = value.rowNumber(in: table.affinity(of: column)),
                try storeTable(parent).exists(number)
            else { continue }
            let parentRow = Row(table: state.schema.numberedTable(parent), number: number)
            guard let counterpart = try counterpart(of: parentRow) else {
                waiting[parentRow, default: []].append(row)
                return nil
            }
            cells[column] = .row(counterpart)
        }
        return cells
    }

    /// The state's row that is a row of the store; `nil` if it isn't known (yet).
    private func counterpart(of row: Row) throws -> RowName? {
        if let counterpart = found[row.table]?[row.number] { return counterpart }
        return keepsNumbers ? try numbers.name(of: row.number, in: row.table) : nil
    }

    private mutating func storeTable(_ name: String) throws -> StoreTable {
        if let known = storeTables[name] { return known }
        let table = try StoreTable(name, in: store, state)
        storeTables[name] = table
        return table
    }
}
