// Rules 4 and 6: inserts, and the counts of rows without a key.

extension SetFold {
    /// Adds the inserted rows.
    ///
    /// Example: Two devices added the tag "home", whose name is its key: there is one tag, inserted by both. Where their
    /// colors differ, the later set's counts, and the other one is logged.
    mutating func insert(_ changes: [ResolvedChange]) throws {
        for change in changes {
            guard case .insert(let row) = change.edit else { continue }
            if schema.isCounted(change.row) {
                try count(change.row, 1)
                traces[change.row]?.dangling.formUnion(row.dangling)
            } else if let state = try work.row(change.row) {
                try join(row, to: change.row, state)
            } else {
                try trace(change.row)
                traces[change.row]?.standing = .inserted
                traces[change.row]?.dangling.formUnion(row.dangling)
                let state = RowState(cells: row.cells, inserters: [header.id])
                try put(change.row, state, writing: allColumns(change.row.table))
            }
        }
    }

    /// Writes an inserted row over one that exists, as an update would.
    private mutating func join(_ inserted: InsertedRow, to row: RowReference, _ state: RowState) throws {
        try trace(row)
        var joined = state
        joined.inserters.insert(header.id)
        var (lost, kept): ([String: Cell], [String: Cell]) = ([:], [:])
        var written: Set<String> = []
        for (column, cell) in inserted.cells where state.cells[column] != cell {
            if let current = state.cells[column] { (lost[column], kept[column]) = (current, cell) }
            joined.cells[column] = cell
            written.insert(column)
        }
        if !lost.isEmpty { log(.overwritten, row, lost: lost, kept: kept) }
        try put(row, joined, writing: written)
        traces[row]?.updated.formUnion(written)
        traces[row]?.dangling.formUnion(inserted.dangling.intersection(written))
    }

    // MARK: Rows without a key

    /// Changes how often a row occurs; a row can't occur less than never.
    mutating func count(_ row: RowReference, _ difference: Int) throws {
        try trace(row)
        let count = try work.count(row) + difference
        guard count >= 0 else { return log(.countBelowZero, row) }
        if count == 0 { return try remove(row) }
        let isNew = try work.count(row) == 0
        try work.setCount(row, count)
        guard isNew else { return }
        traces[row]?.standing = .inserted
        let columns = allColumns(row.table)
        traces[row]?.written = columns
        try queue(row, columns)
    }
}
