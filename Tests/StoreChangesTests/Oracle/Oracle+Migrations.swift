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
        if !pairs.isEmpty { forgetEqualLosses() }
    }

    // "What then holds only another name of a row that was merged isn't lost."
    private mutating func forgetEqualLosses() {
        conflicts = conflicts.filter { entry in
            guard entry.rule == .migratedValue || entry.rule == .merged else { return true }
            return led(entry.lost, of: table(entry.row.table), except: traces[entry.row]?.marked ?? []) != entry.kept
        }
    }

    // "A marked insert or delete of a row without a key counts once, if another client's migration to the same schema made it
    // too, and its author hadn't seen that one: in tables where that client both inserted and deleted such rows."
    func withoutRepeatedCounts() -> [Change] {
        guard set.header.isMigration else { return set.changes }
        var changes = set.changes
        let clients = Set(migrations.map(\.header.id.client))
        for change in Set(set.changes) where table(change.table).isCounted(change.row) {
            let others = clients.map { client in
                let counted = migrations.filter { $0.header.id.client == client }.flatMap(\.changes).filter {
                    $0.table == change.table && table($0.table).isCounted($0.row)
                }
                let deletes = counted.filter { if case .delete = $0.edit { true } else { false } }
                return deletes.isEmpty || deletes.count == counted.count
                    ? 0 : counted.filter { isSame($0, change) }.count
            }
            for _ in 0..<(others.max() ?? 0) {
                guard let index = changes.firstIndex(where: { isSame($0, change) }) else { break }
                changes.remove(at: index)
            }
        }
        return changes
    }

    /// Whether two changes of rows without a key insert, or delete, equal rows.
    private func isSame(_ first: Change, _ second: Change) -> Bool {
        guard first.table == second.table, first.row == second.row else { return false }
        return switch (first.edit, second.edit) {
        case (.insert, .insert), (.delete, .delete): true
        default: false
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
