/// Which rows of the store refer to which.
extension StoreTable {
    /// The integer keys of the rows in which a column has one of these numbers.
    func numbers(ofRowsWhere column: String, isOneOf numbers: [Int64]) throws -> [Int64] {
        guard let key = integerKey else { return [] }
        return try values(of: key, where: column, isOneOf: numbers).compactMap {
            if case .integer(let number) = $0 { number } else { nil }
        }
    }

    /// Whether a column has one of these numbers in any row.
    func refers(_ column: String, toOneOf numbers: [Int64]) throws -> Bool {
        try !values(of: column, where: column, isOneOf: numbers).isEmpty
    }

    private func values(of result: String, where column: String, isOneOf numbers: [Int64]) throws -> [StoredValue] {
        // SQLite searches the table once for a list of numbers, or by an index if there is one.
        try stride(from: 0, to: numbers.count, by: 10_000).flatMap { start in
            let list = numbers[start..<min(start + 10_000, numbers.count)].map(String.init).joined(separator: ", ")
            let sql = "SELECT \(result.quotedName) FROM \(name.quotedName) WHERE \(column.quotedName) IN (\(list))"
            var values: [StoredValue] = []
            try store.forEach(sql) { values.append($0[0]) }
            return values
        }
    }

    /// The columns of a row whose references lead to no row of the store, of the references that have some columns.
    func danglingColumns(_ row: RowReference, _ stored: StoredRow, among columns: Set<String>) throws -> Set<String> {
        var dangling: Set<String> = []
        for reference in table.references where !columns.isDisjoint(with: reference.key.columns) {
            let cells = reference.key.columns.map { state.schema.cell($0, of: row, stored) }
            guard !cells.contains(.null) else { continue }
            let values = try zip(cells, reference.key.columns).map { try value($0, of: $1) }
            let conditions = reference.key.parentColumns.map { "\($0.quotedName) = ?" }.joined(separator: " AND ")
            let sql = "SELECT 1 FROM \(reference.parent.quotedName) WHERE \(conditions)"
            if try store.first(sql, values) == nil { dangling.formUnion(reference.key.columns) }
        }
        return dangling
    }

    /// The rows that the store doesn't have and to which a row would refer, of the references that have some columns.
    ///
    /// A number leads to the row that it names, and not to a newer row that has got it.
    ///
    /// - Parameters:
    ///   - row: The row, which need not be there.
    ///   - stored: What it will hold.
    ///   - columns: The columns.
    /// - Returns: The rows, and for each a column that refers to it.
    /// - Throws: `DatabaseError`.
    func missingParents(
        of row: RowReference,
        _ stored: StoredRow,
        among columns: Set<String>
    ) throws -> [(column: String, parent: RowReference)] {
        let dangling = try danglingColumns(row, stored, among: columns)
        let numbers = ReplicaNumbers(state)
        var missing: [(column: String, parent: RowReference)] = []
        for reference in table.references where !columns.isDisjoint(with: reference.key.columns) {
            let cells = reference.key.columns.map { state.schema.cell($0, of: row, stored) }
            guard let column = reference.key.columns.first, !cells.contains(.null),
                let parent = try state.schema.row(reference, cells), parent != row
            else { continue }
            if case .numbered = parent.row {
                if try ReplicaPending(state).base(parent) == nil { missing.append((column, parent)) }
            } else if dangling.contains(column) {
                missing.append((column, parent))
            }
        }
        // Also of a reference that has other columns besides: the value would be `NULL`.
        for column in columns.sorted(by: { $0.precedes($1) }) {
            guard let table = state.schema.rowTable(of: column, in: name),
                case .row(let name) = state.schema.cell(column, of: row, stored),
                case let parent = RowReference(table, name), parent != row,
                try dangling.contains(column) || numbers.number(of: parent) == nil
            else { continue }
            missing.append((column, parent))
        }
        return missing
    }
}

extension FoldSchema {
    /// The row to which a reference leads by its key; `nil` if it leads to other columns.
    func row(_ reference: Reference, _ cells: [Cell]) throws -> RowReference? {
        let values = Dictionary(zip(reference.key.parentColumns, cells)) { first, _ in first }
        let key = try table(reference.parent).schema.key.columns
        guard !key.isEmpty, Set(key) == Set(values.keys) else { return nil }
        guard !hasIntegerKey(reference.parent) else {
            // Any other cell is no row's number, as 0 for none.
            guard case .row(let name) = cells[0] else { return nil }
            return RowReference(reference.parent, name)
        }
        return RowReference(reference.parent, .key(key.compactMap { values[$0] }))
    }
}
