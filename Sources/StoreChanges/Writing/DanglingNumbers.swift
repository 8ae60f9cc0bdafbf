/// The numbers in references that are no row's, as 0 or -1 for none: they would lead to the row that gets such a number.
struct DanglingNumbers {
    private let state: ReplicaState
    /// For each table that numbers rows, all such numbers: one search for all new rows, and not one for each.
    private var known: [String: Set<Int64>] = [:]

    /// Prepares to search a state whose rows don't change meanwhile.
    init(_ state: ReplicaState) { self.state = state }

    /// Whether references to rows that a table numbers hold a number of no row.
    mutating func contain(_ number: Int64, in table: String) throws -> Bool {
        let numbers = try known[table] ?? numbers(in: table)
        known[table] = numbers
        return numbers.contains(number)
    }

    private func numbers(in table: String) throws -> Set<Int64> {
        var numbers: Set<Int64> = []
        for (name, child) in state.schema.tables {
            for (index, reference) in child.references.enumerated() {
                for (position, column) in reference.key.columns.enumerated()
                where state.schema.rowTable(of: column, in: name) == table {
                    try forEachValue(at: position, of: .child(index), in: name) { value in
                        // A parent's column may have made text of the number.
                        if let number = value.rowNumber(in: .text) { numbers.insert(number) }
                    }
                }
            }
        }
        return numbers
    }

    /// Calls `body` with the values that keys have at a position, the names of rows left out.
    private func forEachValue(
        at position: Int,
        of kind: LookupKey.Kind,
        in table: String,
        _ body: (StoredValue) throws -> Void
    ) throws {
        // Mostly a reference has one column, and then only the keys with values are read.
        let bounds = position == 0 ? LookupKey.boundsOfValues(of: kind) : LookupKey.bounds(of: kind)
        let prefix = LookupKey(table: table, kind: kind, cells: []).encoded
        try state.db.forEach(
            "SELECT DISTINCT key FROM lookups WHERE tbl = ? AND key >= ? AND key < ?",
            [try state.table(table)] + bounds
        ) { row in
            var parser = ByteParser((row.bytes(0) ?? []).dropFirst(prefix.count))
            for _ in 0..<position { _ = try parser.cell("a key") }
            if case .value(let value) = try parser.cell("a key") { try body(value) }
        }
    }
}
