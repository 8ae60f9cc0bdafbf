// Merging two rows into one, and references that move to another row or value.

extension SetFold {
    /// Merges a row into another one, which stays with all of its cells.
    ///
    /// The row's name becomes an alias, and references and inserters move.
    ///
    /// Example: Two devices each inserted a contact with the same unique address: the contact that was there first
    /// stays, the other one is logged, and the calls of both belong to the contact that stays.
    mutating func merge(_ loser: RowReference, into winner: RowReference) throws {
        guard let lost = try work.row(loser) else { return }
        try merge(loser, into: winner, referredToAs: lost)
    }

    /// Merges a row that others still know as `former`, because its reference has moved already.
    private mutating func merge(
        _ loser: RowReference,
        into winner: RowReference,
        referredToAs former: StoredRow
    ) throws {
        guard let lost = try work.row(loser), var state = try work.row(winner) else { return }
        log(.merged, loser, lost: lost.cells, kept: state.cells)
        try work.write(loser, nil)
        traces[loser] = nil
        state.inserters.formUnion(lost.inserters)
        try put(winner, state, writing: [])
        traces[winner]?.mergedInserters.formUnion(lost.inserters)
        try moveAliases(from: loser, to: winner)
        try leaveAliases(of: loser, former, at: winner)
        try moveReferences(from: loser, former, to: winner)
    }

    // MARK: References

    /// Leads every reference that had the former values of a row, and leads nowhere now, to a row's present values.
    ///
    /// - Parameters:
    ///   - former: The name that the row had.
    ///   - formerState: The cells that it had.
    ///   - row: The row to which the references lead from now on.
    /// - Throws: What the state throws.
    mutating func moveReferences(
        from former: RowReference,
        _ formerState: StoredRow,
        to row: RowReference
    ) throws {
        let present = try work.row(row)
        for id in try schema.table(row.table).incoming {
            if former == row, let present, isKept(id, present, formerState) { continue }
            guard let key = schema.childKey(id, leadingTo: former, formerState) else { continue }
            // A row that has these values still keeps its references; there may be very many of them.
            if let present, schema.childKey(id, leadingTo: row, present) == key { continue }
            for child in try work.rows(with: key) {
                guard let state = try work.row(child), !isMarked(id, child),
                    let cells = try movedCells(id, child, state, to: row)
                else { continue }
                try move(child, cells)
            }
            for child in try work.tombs(with: key) { try moveTomb(child, id, to: row) }
        }
    }

    /// Whether a row has the same values as before where a reference leads.
    private func isKept(_ id: FoldSchema.ReferenceID, _ state: StoredRow, _ former: StoredRow) -> Bool {
        schema.tables[id.table]?.references[id.index].key.parentColumns.allSatisfy {
            state.holdsSame($0, as: former)
        } ?? false
    }

    /// The cells of a reference that leads nowhere as they are when it leads to a row.
    ///
    /// `nil` if the row has `NULL` there: the reference has lost its parent.
    private mutating func movedCells(
        _ id: FoldSchema.ReferenceID,
        _ child: RowReference,
        _ state: StoredRow,
        to row: RowReference
    ) throws -> [String: Cell]? {
        guard try missingParent(id, of: child, state) != nil, let parent = try work.row(row),
            let reference = schema.tables[id.table]?.references[id.index]
        else { return nil }
        let cells = reference.key.parentColumns.map { schema.cell($0, of: row, parent) }
        return cells.contains(.null) ? nil : Dictionary(zip(reference.key.columns, cells)) { first, _ in first }
    }

    /// Gives a row other cells, maybe in its key, because its reference or its position in a list has changed.
    mutating func move(_ row: RowReference, _ cells: [String: Cell]) throws {
        guard let former = try work.row(row) else { return }
        if schema.isCounted(row) { return try renameCounted(row, cells) }
        try trace(row)
        traces[row]?.isMoved = true
        let table = try schema.table(row.table)
        let all = schema.cells(of: row, former).merging(cells) { $1 }
        let name = RowReference(row.table, schema.name(of: all, in: row))
        let state = StoredRow(table, all, inserters: former.inserters)
        queue.insert(name)
        if name == row {
            try put(row, state, writing: Set(cells.keys))
            try moveReferences(from: row, former, to: row)
        } else if try work.row(name) == nil {
            try rename(row, to: name, state, writing: Set(cells.keys))
        } else {
            try work.write(row, state)
            traces[row]?.written.formUnion(cells.keys)
            try unite(row, with: name, referredToAs: former)
        }
    }

    private mutating func rename(
        _ row: RowReference,
        to name: RowReference,
        _ state: StoredRow,
        writing columns: Set<String>
    ) throws {
        guard let former = try work.row(row) else { return }
        try work.write(row, nil)
        var trace = traces.removeValue(forKey: row)
        if trace?.formerName == nil { trace?.formerName = row.row }
        traces[name] = trace
        try put(name, state, writing: columns)
        try queueRenamed(name)
        try moveAliases(from: row, to: name)
        try leaveAliases(of: row, former, at: name)
        try moveReferences(from: row, former, to: name)
    }

    /// Merges a row with the row whose name it would get; the cells of the earlier row stay.
    private mutating func unite(
        _ row: RowReference,
        with name: RowReference,
        referredToAs former: StoredRow
    ) throws {
        guard precedes(row, name), let state = try work.row(row), let other = try work.row(name) else {
            return try merge(row, into: name, referredToAs: former)
        }
        log(.merged, name, lost: other.cells, kept: state.cells)
        let inserters = state.inserters.union(other.inserters)
        try work.write(row, former)
        try work.write(name, nil)
        let united = StoredRow(state.table, state.image, inserters: inserters)
        try rename(row, to: name, united, writing: allColumns(row.table))
        traces[name]?.mergedInserters.formUnion(other.inserters)
        try leaveAliases(of: name, other, at: name)
        try moveReferences(from: name, other, to: name)
    }

    /// Leads a reference of a deleted row too, so that the row is found, and comes back with its parent.
    private mutating func moveTomb(
        _ child: RowReference,
        _ id: FoldSchema.ReferenceID,
        to row: RowReference
    ) throws {
        guard let tomb = try work.tomb(child), let cells = try movedCells(id, child, tomb.row, to: row) else { return }
        let all = schema.cells(of: child, tomb.row).merging(cells) { $1 }
        let name = RowReference(child.table, schema.name(of: all, in: child))
        var moved = tomb
        moved.row.cells = all
        try work.write(child, tomb: nil)
        if try work.row(name) == nil {
            // A row that the set's author knew as deleted counts as absent: other replicas may have forgotten it.
            if name != child, let other = try work.tomb(name), !hasSeen(other) {
                moved = other
                if !hasSeen(tomb) {
                    moved.row.inserters.formUnion(tomb.row.inserters)
                    moved.deleters.formUnion(tomb.deleters)
                }
            }
            try work.write(name, tomb: moved)
        }
        guard name != child else { return }
        try moveAliases(from: child, to: name)
        try moveReferences(from: child, tomb.row, to: name)
    }

    // MARK: Writes of repairs

    /// Writes cells outside the key as a repair; references to them follow.
    mutating func rewrite(_ row: RowReference, _ cells: [String: Cell]) throws {
        guard var state = try work.row(row) else { return }
        if schema.isCounted(row) { return try renameCounted(row, cells) }
        let former = state
        let changed = cells.filter { state.cell($0.key) != $0.value }
        state.write(changed)
        try trace(row)
        traces[row]?.updated.formUnion(changed.keys)
        traces[row]?.dangling.subtract(changed.keys)
        queue.insert(row)
        try put(row, state, writing: Set(changed.keys))
        try moveReferences(from: row, former, to: row)
    }

    /// Gives equal rows without a key another content, under which there may be others.
    private mutating func renameCounted(_ row: RowReference, _ cells: [String: Cell]) throws {
        let table = try schema.table(row.table)
        let name = RowName.key(
            table.columns.map { cells[$0] ?? schema.cell($0, of: row, StoredRow(countedIn: table)) }
        )
        let renamed = RowReference(row.table, name)
        guard renamed != row else { return }
        let count = try work.count(row)
        let former = traces[row]
        try work.setCount(row, 0)
        try trace(renamed)
        try work.setCount(renamed, try work.count(renamed) + count)
        traces[renamed]?.isMoved = true
        traces[renamed]?.written.formUnion(former?.written.union(cells.keys) ?? Set(cells.keys))
        traces[renamed]?.repairs.merge(former?.repairs ?? [:]) { max($0, $1) }
        traces[renamed]?.dangling.formUnion(former?.dangling ?? [])
        traces[renamed]?.dangling.subtract(cells.keys)
        queue.insert(renamed)
        try queueRenamed(renamed)
    }

    /// Queues what the set wrote of a row with a new name, and all of its references: a parent may have gone in this set.
    private mutating func queueRenamed(_ row: RowReference) throws {
        try queue(row, traces[row]?.written ?? [])
        for index in try schema.table(row.table).references.indices {
            queueReference(row, FoldSchema.ReferenceID(table: row.table, index: index))
        }
    }
}
