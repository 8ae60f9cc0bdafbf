// Rules 4 and 6: inserts, and the counts of rows without a key.

extension SetFold {
    /// Adds the inserted rows.
    ///
    /// Example: Two devices added the tag "home", whose name is its key: there is one tag, inserted by both. Where their
    /// colors differ, the later set's counts, and the other one is logged.
    mutating func insert(_ changes: [ResolvedChange]) throws {
        for change in changes {
            guard case .insert(let inserted) = change.edit else { continue }
            if schema.isCounted(change.row) {
                try count(change.row, 1)
                traces[change.row]?.dangling.formUnion(inserted.dangling)
                continue
            }
            let table = try schema.table(change.row.table)
            var state = StoredRow(table, inserted.cells, inserters: [header.id])
            if try work.leadsReferences(of: table) {
                let given = schema.cells(of: change.row, state)
                var cells = given
                try lead(&cells, in: change.row.table, except: inserted.dangling)
                if cells != given { queue.insert(change.row) }
                state.cells = cells
            }
            if let present = try work.row(change.row) {
                try join(state, to: change.row, present, dangling: inserted.dangling)
            } else {
                traces[change.row] = Trace(origin: .inserted, dangling: inserted.dangling, firstWrites: state.cells)
                try put(change.row, state, writing: allColumns(change.row.table))
            }
        }
    }

    /// Writes an inserted row over a row that exists, as an update would.
    private mutating func join(
        _ inserted: StoredRow,
        to row: RowReference,
        _ present: StoredRow,
        dangling: Set<String>
    ) throws {
        var writes: [String: Write] = [:]
        for (column, cell) in inserted.cells {
            writes[column] = Write(cell: cell, isKnown: false, isDangling: dangling.contains(column))
        }
        try write(writes, to: row, present)
        guard var state = try work.row(row) else { return }
        state.inserters.insert(header.id)
        try put(row, state, writing: [])
    }

    // MARK: Rows without a key

    /// Changes how often a row occurs; a row can't occur less than never.
    mutating func count(_ row: RowReference, _ difference: Int) throws {
        let count = try work.count(row) + difference
        guard count >= 0 else { return log(.countBelowZero, row) }
        try trace(row)
        if count == 0 { return try remove(row) }
        try work.setCount(row, count)
        guard difference > 0 else { return }
        traces[row]?.origin = .inserted
        let columns = allColumns(row.table)
        traces[row]?.written = columns
        try queue(row, columns)
    }
}
