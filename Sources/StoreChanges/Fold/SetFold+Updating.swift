// Rules 1 and 3: updates write their columns, unless the row is deleted.

extension SetFold {
    /// Writes the cells of updates; the other cells of the rows stay.
    ///
    /// Example: One device changed a note's title, another one its color, and neither knew of the other's edit: the
    /// note has both. If both changed the title, the later set counts, and the former title is logged.
    mutating func update(_ changes: [ResolvedChange]) throws {
        for change in changes {
            guard case .update(let cells) = change.edit else { continue }
            guard let state = try work.row(change.row), !schema.isCounted(change.row) else {
                log(.editOfDeleted, change.row, lost: cells.mapValues(\.new))
                continue
            }
            try write(try writes(of: cells, change.row, state), to: change.row)
        }
    }

    /// A cell that a change writes.
    struct Write {
        var cell: Cell
        /// Whether the author knew the value that goes.
        var isKnown: Bool
        var isDangling = false
    }

    private mutating func writes(
        of cells: [String: UpdatedCell],
        _ row: RowReference,
        _ state: RowState
    ) throws -> [String: Write] {
        let current = schema.cells(of: row, state)
        var new = current.merging(cells.mapValues(\.new)) { $1 }
        try lead(&new, in: row.table, except: Set(cells.filter(\.value.isDangling).keys))
        var old = current.merging(cells.compactMapValues(\.old.cell)) { $1 }
        try lead(&old, in: row.table)
        var writes: [String: Write] = [:]
        for (column, goes) in state.cells {
            let written = new[column] ?? .null
            guard let cell = cells[column] else {
                // A reference of several columns can be led away in columns that the change doesn't have.
                if written != goes { writes[column] = Write(cell: written, isKnown: true) }
                continue
            }
            let isKnown = OldCell(goes) == cell.old || cell.old.cell != nil && old[column] == goes
            writes[column] = Write(cell: written, isKnown: isKnown && !cell.putsBack, isDangling: cell.isDangling)
        }
        return writes
    }

    /// Writes cells of a change; of two changes of a set that write one cell differently, the first counts.
    mutating func write(_ writes: [String: Write], to row: RowReference) throws {
        guard var state = try work.row(row) else { return }
        try trace(row)
        let former = state
        var (lost, kept): ([String: Cell], [String: Cell]) = ([:], [:])
        var (second, first): ([String: Cell], [String: Cell]) = ([:], [:])
        var (outdated, present): ([String: Cell], [String: Cell]) = ([:], [:])
        for (column, write) in writes {
            if let earlier = traces[row]?.firstWrites[column] {
                if earlier != write.cell { (second[column], first[column]) = (write.cell, earlier) }
                continue
            }
            traces[row]?.firstWrites[column] = write.cell
            traces[row]?.updated.insert(column)
            traces[row]?.written.insert(column)
            if write.isDangling { traces[row]?.dangling.insert(column) } else { traces[row]?.dangling.remove(column) }
            guard let goes = state.cells[column], goes != write.cell else { continue }
            if header.isMigration, !write.isKnown {
                (outdated[column], present[column]) = (write.cell, goes)
                continue
            }
            state.cells[column] = write.cell
            if !write.isKnown { (lost[column], kept[column]) = (goes, write.cell) }
        }
        if !second.isEmpty { log(.sameCellTwice, row, lost: second, kept: first) }
        if !outdated.isEmpty { log(.migratedValue, row, lost: outdated, kept: present) }
        if !lost.isEmpty { log(.overwritten, row, lost: lost, kept: kept) }
        formerRows.append((row, former))
        try put(row, state, writing: [])
    }

    /// Lets references follow the values that the set changed.
    ///
    /// Only after all edits: two rows may have exchanged their values.
    mutating func followChangedValues() throws {
        for (row, state) in formerRows { try moveReferences(from: row, state, to: row) }
        formerRows = []
    }
}

extension OldCell {
    /// The cell, unless it's known only by its digest.
    fileprivate var cell: Cell? { if case .cell(let cell) = self { cell } else { nil } }
}
