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
}
