// Rule 0: names and references lead through aliases to the rows that are meant.

/// A change whose name leads to a row as it is now called.
struct ResolvedChange {
    var row: RowReference
    /// Whether the row's own name, and not only a reference in its key, was a former one.
    var wentThroughAlias: Bool
    var edit: Edit
}

extension SetFold {
    /// Finds the rows that the changes of a set mean, in the order in which the changes are applied.
    ///
    /// Example: A device merged the tags #7 and #9, which it inserted both, into #7. A set of another device that hadn't
    /// seen the merge puts #9 on a note: it puts #7 on the note.
    mutating func resolve(_ changes: [Change]) throws -> [ResolvedChange] {
        let sorted = changes.inOrderOfApplication
        for change in sorted { try schema.check(change) }
        try endKnownAliases(sorted)
        // The rows that the set makes decide which references are led, and with them which rows it makes.
        for _ in 0..<2 {
            var keys: Set<LookupKey> = []
            for change in sorted { keys.formUnion(try ownKeys(of: change)) }
            ownKeys = keys
        }
        return try sorted.map { change in
            let (row, wentThroughAlias) = try lead(RowReference(change.table, change.row))
            return ResolvedChange(row: row, wentThroughAlias: wentThroughAlias, edit: change.edit)
        }
    }

    /// The values by which references find the row that a change makes.
    private mutating func ownKeys(of change: Change) throws -> [LookupKey] {
        guard !(try schema.table(change.table).incoming.isEmpty) else { return [] }
        let row = try lead(RowReference(change.table, change.row)).0
        switch change.edit {
        case .delete: return []
        case .insert(let inserted):
            return schema.parentKeys(of: row, RowState(cells: inserted.cells, inserters: []))
        case .update(let cells):
            guard var state = try work.row(row) else { return [] }
            state.cells.merge(cells.mapValues(\.new)) { $1 }
            return schema.parentKeys(of: row, state)
        }
    }
}

extension [Change] {
    /// The changes in the order of their tables' and rows' names, each name encoded once.
    fileprivate var inOrderOfApplication: [Change] {
        map { (change: $0, name: $0.row.encoded) }.sorted {
            $0.change.table == $1.change.table
                ? $0.name.lexicographicallyPrecedes($1.name) : $0.change.table.precedes($1.change.table)
        }.map(\.change)
    }
}

extension Edit {
    var isDelete: Bool { if case .delete = self { true } else { false } }
}
