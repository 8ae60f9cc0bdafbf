import StoreChanges

extension Oracle.Integration {
    // "A marked insert equal to another of the same schema in all but an integer key is its alias, if its author hadn't seen
    // the other one."
    mutating func mergeMigratedRows(_ changes: [ResolvedChange]) {
        let own = changes.filter { isNumberedInsert($0.change) }.map(\.target)
        var pairs: [RowReference: RowReference] = [:]
        while let (row, other) = equalRows(own, pairs) {
            pairs[row] = other
            let entry = conflicts.count
            merge(row, into: other)
            conflicts.remove(at: entry)
        }
    }

    /// The first of the set's rows that equals a row of an earlier migration, with the first of these.
    private func equalRows(
        _ own: [RowReference],
        _ pairs: [RowReference: RowReference]
    ) -> (RowReference, RowReference)? {
        for row in own where pairs[row] == nil {
            for set in migrations.sorted(by: { $0.header.position < $1.header.position }) {
                for change in set.changes where isNumberedInsert(change) && change.table == row.table {
                    let other = RowReference(change.table, leading(change))
                    guard !own.contains(other), !pairs.values.contains(other), let state = content.rows[row] else {
                        continue
                    }
                    if content.rows[other]?.cells == state.cells { return (row, other) }
                }
            }
        }
        return nil
    }

    /// The row to which an insert's name leads by now.
    private func leading(_ change: Change) -> RowName {
        guard case .integer(let column) = table(change.table).key,
            content.rows[RowReference(change.table, change.row)] == nil
        else { return change.row }
        let key = AliasKey(table: change.table, columns: [column], cells: [.row(change.row)])
        return content.aliases[key]?.row ?? change.row
    }

    private func isNumberedInsert(_ change: Change) -> Bool {
        if case .insert = change.edit, case .numbered = change.row { true } else { false }
    }
}
