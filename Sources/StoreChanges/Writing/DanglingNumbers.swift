/// The numbers in references that are no row's, as 0 or -1 for none: they would lead to the row that gets such a number.
///
/// References to deleted rows have names, and each such name keeps its number while ``refer(to:)`` finds one.
struct DanglingNumbers {
    private let state: ReplicaState
    /// For each table that numbers rows, all such numbers: one search for all new rows, and not one for each.
    private var known: [String: Set<Int64>] = [:]

    /// Prepares to search a state whose rows don't change meanwhile.
    init(_ state: ReplicaState) { self.state = state }

    /// Whether references to rows that a table numbers hold a number of no row.
    mutating func contain(_ number: Int64, in table: String) throws -> Bool { try all(in: table).contains(number) }

    /// All such numbers in references to rows that a table numbers.
    mutating func all(in table: String) throws -> Set<Int64> {
        if let numbers = known[table] { return numbers }
        var numbers: Set<Int64> = []
        try forEachColumn(leadingTo: table) { child, kind, position in
            // Mostly a reference has one column, and then only the keys with values are read.
            let bounds = position == 0 ? LookupKey.boundsOfValues(of: kind) : LookupKey.bounds(of: kind)
            try forEachCell(at: position, of: kind, in: child, bounds) { cell in
                // A parent's column may have made text of the number.
                if case .value(let value) = cell, let number = value.rowNumber(in: .text) { numbers.insert(number) }
            }
        }
        known[table] = numbers
        return numbers
    }

    /// Whether references have the name of a row, which may be deleted.
    func refer(to row: RowReference) throws -> Bool {
        var isFound = false
        try forEachColumn(leadingTo: row.table) { child, kind, position in
            guard !isFound else { return }
            let bounds = LookupKey.bounds(of: kind, beginningWith: position == 0 ? [.row(row.row)] : [])
            try forEachCell(at: position, of: kind, in: child, bounds) { isFound = isFound || $0 == .row(row.row) }
        }
        return isFound
    }

    /// Calls `body` with each column of a reference that leads to rows which a table numbers: the table that has the reference,
    /// the reference's keys, and the column's position in them.
    private func forEachColumn(leadingTo table: String, _ body: (String, LookupKey.Kind, Int) throws -> Void) throws {
        for (name, child) in state.schema.tables {
            for (index, reference) in child.references.enumerated() {
                for (position, column) in reference.key.columns.enumerated()
                where state.schema.rowTable(of: column, in: name) == table {
                    try body(name, .child(index), position)
                }
            }
        }
    }

    /// Calls `body` with the cells that keys have at a position.
    private func forEachCell(
        at position: Int,
        of kind: LookupKey.Kind,
        in table: String,
        _ bounds: [StoredValue],
        _ body: (Cell) throws -> Void
    ) throws {
        let prefix = LookupKey(table: table, kind: kind, cells: []).encoded
        try state.db.forEach(
            "SELECT DISTINCT key FROM lookups WHERE tbl = ? AND key >= ? AND key < ?",
            [try state.table(table)] + bounds
        ) { row in
            var parser = ByteParser((row.bytes(0) ?? []).dropFirst(prefix.count))
            for _ in 0..<position { _ = try parser.cell("a key") }
            try body(parser.cell("a key"))
        }
    }
}
