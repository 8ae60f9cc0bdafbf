// Merging two rows into one, and what follows for the rows that refer to them.

extension SetFold {
    /// Merges a row into another one, which stays with all of its cells.
    ///
    /// The row's name becomes an alias, and references and inserters move.
    ///
    /// Example: Two devices each inserted a contact with the same unique address: the contact that was there first
    /// stays, the other one is logged, and the calls of both belong to the one that stays.
    mutating func merge(_ loser: RowReference, into winner: RowReference) throws {
        guard let lost = try work.row(loser), var state = try work.row(winner) else { return }
        log(.merged, loser, lost: lost.cells, kept: state.cells)
        let children = try children(of: loser, lost)
        try trace(loser)
        try work.write(loser, nil)
        state.inserters.formUnion(lost.inserters)
        try put(winner, state, writing: [])
        try moveAliases(from: loser, to: winner)
        for columns in try schema.table(loser.table).referencedColumns {
            guard let key = valueKey(columns, of: loser, lost), key != valueKey(columns, of: winner, state) else {
                continue
            }
            try work.write(key, Alias(row: winner.row, maker: header.id))
        }
        for child in children where child.row != loser { try repoint(child, to: winner, state) }
    }

    /// Lets a row's name, and all that led to it, lead to another row.
    private mutating func moveAliases(from former: RowReference, to row: RowReference) throws {
        let own = schema.aliasKey(of: row)
        for key in try work.aliases(leadingTo: former) where key != own {
            guard let alias = try work.alias(key) else { continue }
            try work.write(key, Alias(row: row.row, maker: alias.maker))
        }
        try work.write(own, nil)
        try work.write(schema.aliasKey(of: former), Alias(row: row.row, maker: header.id))
    }

    // MARK: References

    /// Lets a row refer to another parent.
    mutating func repoint(_ child: Child, to parent: RowReference, _ state: RowState) throws {
        guard let reference = schema.tables[child.reference.table]?.references[child.reference.index] else { return }
        var cells: [String: Cell] = [:]
        for (column, parentColumn) in zip(reference.key.columns, reference.key.parentColumns) {
            cells[column] = schema.cell(parentColumn, of: parent, state)
        }
        try rewrite(child.row, cells)
    }

    /// Writes cells as a repair; if they belong to the key, the row gets another name.
    mutating func rewrite(_ row: RowReference, _ cells: [String: Cell]) throws {
        guard var state = try work.row(row) else { return }
        let changed = cells.filter { schema.cell($0.key, of: row, state) != $0.value }
        guard !changed.isEmpty else { return }
        try trace(row)
        let table = try schema.table(row.table)
        if schema.isCounted(row) {
            try rename(counted: row, changed)
        } else if table.keyColumns.isDisjoint(with: changed.keys) {
            state.cells.merge(changed) { $1 }
            try put(row, state, writing: Set(changed.keys))
            if traces[row]?.standing == .standing { traces[row]?.standing = .moved }
            queue.insert(row)
        } else {
            let name = RowName.key(table.schema.key.columns.map { changed[$0] ?? schema.cell($0, of: row, state) })
            state.cells.merge(changed.filter { !table.keyColumns.contains($0.key) }) { $1 }
            try rename(row, RowReference(row.table, name), state, Set(changed.keys))
        }
    }

    private mutating func rename(counted row: RowReference, _ cells: [String: Cell]) throws {
        let table = try schema.table(row.table)
        let name = RowName.key(table.columns.map { cells[$0] ?? schema.cell($0, of: row, .counted) })
        let renamed = RowReference(row.table, name)
        let count = try work.count(row)
        try work.setCount(row, 0)
        try trace(renamed)
        try work.setCount(renamed, try work.count(renamed) + count)
        traces[renamed]?.written.formUnion(cells.keys)
        try queue(renamed, Set(cells.keys))
        queue.insert(renamed)
    }

    /// Gives a row another name, under which there may be a row already: then both are merged.
    private mutating func rename(
        _ row: RowReference,
        _ renamed: RowReference,
        _ state: RowState,
        _ columns: Set<String>
    ) throws {
        guard let former = try work.row(row) else { return }
        try trace(row)
        let children = try children(of: row, former)
        let existing = try work.row(renamed)
        try trace(renamed)
        let standing = max(traces[row]?.standing ?? .standing, .moved)
        var state = state
        var written = columns
        try work.write(row, nil)
        if let existing {
            let stays = (traces[renamed]?.standing ?? .standing) <= standing
            let (winner, loser) = stays ? (existing, state) : (state, existing)
            log(.merged, row, lost: loser.cells, kept: winner.cells)
            state = RowState(cells: winner.cells, inserters: existing.inserters.union(state.inserters))
            written = stays ? [] : allColumns(row.table)
        } else {
            traces[renamed] = traces[row]
            traces[renamed]?.standing = standing
            written.formUnion(traces[row]?.written ?? [])
        }
        try put(renamed, state, writing: written)
        queue.insert(renamed)
        try moveAliases(from: row, to: renamed)
        for child in children where child.row != row { try repoint(child, to: renamed, state) }
    }
}
