// Rules 1 and 3: updates write their columns, unless the row is deleted.

extension SetFold {
    /// Writes the cells of updates; the other cells of the rows stay.
    ///
    /// Example: One device changed a note's title, another one its color, and neither knew of the other's edit: the
    /// note has both. If both changed the title, the later set counts, and the former title is logged.
    mutating func update(_ changes: [ResolvedChange]) throws {
        for change in changes {
            guard case .update(let cells) = change.edit, !cells.isEmpty else { continue }
            if let state = try work.row(change.row), !schema.isCounted(change.row) {
                try write(cells, to: change.row, state)
            } else {
                log(.editOfDeleted, change.row, lost: cells.mapValues(\.new))
            }
        }
    }

    private mutating func write(_ cells: [String: UpdatedCell], to row: RowReference, _ state: RowState) throws {
        try trace(row)
        var changed = state
        var (lost, kept): ([String: Cell], [String: Cell]) = ([:], [:])
        var written: Set<String> = []
        for (column, cell) in cells {
            guard let current = state.cells[column] else { continue }
            let isKnown = OldCell(current) == cell.old && !cell.putsBack
            if current != cell.new, !isKnown { (lost[column], kept[column]) = (current, cell.new) }
            changed.cells[column] = cell.new
            written.insert(column)
            if cell.isDangling { traces[row]?.dangling.insert(column) }
        }
        if !lost.isEmpty { log(.overwritten, row, lost: lost, kept: kept) }
        let aliases = try aliasesOfFormerValues(row, from: state, to: changed)
        try put(row, changed, writing: written)
        traces[row]?.updated.formUnion(written)
        for key in aliases { try work.write(key, Alias(row: row.row, maker: header.id)) }
    }

    /// The former values of unique columns to which references lead.
    private func aliasesOfFormerValues(
        _ row: RowReference,
        from former: RowState,
        to present: RowState
    ) throws -> [AliasKey] {
        try schema.table(row.table).referencedColumns.compactMap { columns in
            let key = valueKey(columns, of: row, former)
            return key == valueKey(columns, of: row, present) ? nil : key
        }
    }

    // MARK: References to changed values

    /// A reference that follows a value that the set changes.
    struct Following {
        var child: Child
        var key: LookupKey
        var parent: RowReference
    }

    /// The rows that refer to values which the set changes, as they are before the set.
    ///
    /// They must be found before the first change: two rows may exchange their values.
    mutating func referencesToChangedValues(_ changes: [ResolvedChange]) throws -> [Following] {
        var following: [Following] = []
        for change in changes {
            guard case .update(let cells) = change.edit, let state = try work.row(change.row) else { continue }
            for id in try schema.table(change.row.table).incoming {
                guard let reference = schema.tables[id.table]?.references[id.index],
                    reference.key.parentColumns.contains(where: { cells[$0] != nil }),
                    let key = schema.childKey(id, leadingTo: change.row, state)
                else { continue }
                for child in try work.rows(with: key) {
                    following.append(Following(child: Child(row: child, reference: id), key: key, parent: change.row))
                }
            }
        }
        return following
    }

    /// Lets references follow the values that the set changed, if the set didn't write them itself.
    mutating func follow(_ following: [Following]) throws {
        for item in following {
            guard let child = try work.row(item.child.row), let parent = try work.row(item.parent),
                schema.childKey(item.child.reference, of: item.child.row, child) == item.key,
                schema.childKey(item.child.reference, leadingTo: item.parent, parent) != item.key,
                let reference = schema.tables[item.child.reference.table]?.references[item.child.reference.index],
                traces[item.child.row]?.written.isDisjoint(with: reference.key.columns) ?? true
            else { continue }
            try repoint(item.child, to: item.parent, parent)
        }
    }
}
