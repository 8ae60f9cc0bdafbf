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
            if row.row != change.row { queue.insert(row) }
            return ResolvedChange(row: row, wentThroughAlias: wentThroughAlias, edit: change.edit)
        }
    }

    /// The values by which references find the row that a change makes.
    private mutating func ownKeys(of change: Change) throws -> [LookupKey] {
        let table = try schema.table(change.table)
        guard !table.incoming.isEmpty else { return [] }
        switch change.edit {
        case .delete: return []
        case .insert(let inserted):
            let row = try lead(RowReference(change.table, change.row)).0
            return schema.parentKeys(of: row, StoredRow(table, inserted.cells))
        case .update(let cells):
            // References find a row by its name, and by values that it keeps, without this.
            guard table.referencedColumns.contains(where: { $0.contains { cells[$0] != nil } }) else { return [] }
            let row = try lead(RowReference(change.table, change.row)).0
            guard var state = try work.row(row) else { return [] }
            state.write(cells.mapValues(\.new))
            return schema.parentKeys(of: row, state)
        }
    }
}

extension [Change] {
    /// The changes in the order of their tables' and rows' names, each name encoded once.
    fileprivate var inOrderOfApplication: [Change] {
        let names = map(\.row.encoded)
        return indices.sorted { first, second in
            self[first].table == self[second].table
                ? names[first].lexicographicallyPrecedes(names[second])
                : self[first].table.precedes(self[second].table)
        }.map { self[$0] }
    }
}

extension Edit {
    var isDelete: Bool { if case .delete = self { true } else { false } }
}
