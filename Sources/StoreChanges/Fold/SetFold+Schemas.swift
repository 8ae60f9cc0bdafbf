// Rule 8: sets that were captured in another schema.

extension SetFold {
    /// Returns the changes as this schema has them.
    ///
    /// Example: A device whose app has no column “color” yet inserts a tag. The tag has the color that the column has by
    /// default. An edit of a column that the schema doesn't have any more is logged.
    mutating func adapt(_ changes: [Change]) -> [Change] {
        guard let author else { return changes }
        return changes.compactMap { adapt($0, author) }
    }

    private mutating func adapt(_ change: Change, _ author: SchemaDescription) -> Change? {
        guard let table = schema.tables[change.table] else { return leaveOut(change) }
        var change = change
        let names = author.tables[change.table]?.columns.keys.sorted { $0.precedes($1) } ?? []
        if case .key(let cells) = change.row, cells.count == names.count,
            cells.count != table.keyColumns.count
                || table.keyColumns.isEmpty
        {
            // A row without a key is named by all of its cells.
            let named = Dictionary(zip(names, cells)) { first, _ in first }
            change.row = .key(table.columns.map { named[$0] ?? table.defaults[$0] ?? .null })
        }
        let row = RowReference(change.table, change.row)
        guard schema.has(row) else { return leaveOut(change) }
        let isCounted = schema.isCounted(row)
        func has(_ column: String) -> Bool { table.columns.contains(column) && !table.keyColumns.contains(column) }
        switch change.edit {
        case .delete: return change
        case .insert(var inserted):
            let lost = inserted.cells.filter { !has($0.key) }
            if !lost.isEmpty { log(.schemaChanged, row, lost: lost) }
            inserted.cells = inserted.cells.filter { has($0.key) }
            inserted.dangling.formIntersection(table.columns)
            for column in table.columns where !isCounted && has(column) && inserted.cells[column] == nil {
                inserted.cells[column] = table.defaults[column] ?? .null
            }
            change.edit = .insert(inserted)
        case .update(let cells):
            let lost = cells.filter { !has($0.key) }.mapValues(\.new)
            if !lost.isEmpty { log(.schemaChanged, row, lost: lost) }
            guard lost.count < cells.count else { return nil }
            change.edit = .update(cells.filter { has($0.key) })
        }
        return change
    }

    /// Logs a change of a table that this schema doesn't have, or not with such rows.
    private mutating func leaveOut(_ change: Change) -> Change? {
        let row = RowReference(change.table, change.row)
        switch change.edit {
        case .delete: break
        case .insert(let inserted): log(.schemaChanged, row, lost: inserted.cells)
        case .update(let cells): log(.schemaChanged, row, lost: cells.mapValues(\.new))
        }
        return nil
    }

    /// Merges each row that an update of the app inserted with the equal row that the same update inserted elsewhere.
    ///
    /// Example: An update adds a table of categories, and fills it on two devices: each category is there once.
    mutating func mergeMigratedRows(_ changes: [ResolvedChange], _ migrations: [SyncChangeSet]) throws {
        guard header.isMigration, !migrations.isEmpty else { return }
        var inserted = changes.filter { $0.edit.isInsert && $0.row.row.isNumbered }.map(\.row)
        let earlier = migrations.flatMap(\.changes).filter { $0.edit.isInsert && $0.row.isNumbered }
            .map { RowReference($0.table, $0.row) }.filter(schema.has)
        var others: [RowReference] = []
        for row in try earlier.map({ try lead($0).0 }) where !inserted.contains(row) && !others.contains(row) {
            others.append(row)
        }
        // Rows that refer to each other become equal one after the other.
        var isMerging = true
        while isMerging {
            isMerging = false
            for row in inserted {
                guard let state = try work.row(row),
                    let other = try others.first(where: {
                        try $0.table == row.table && work.row($0)?.image == state.image
                    })
                else { continue }
                inserted.removeAll { $0 == row }
                others.removeAll { $0 == other }
                let entry = conflicts.count
                try merge(row, into: other)
                // Nothing is lost of equal rows.
                conflicts.remove(at: entry)
                isMerging = true
            }
        }
    }

    /// The digest of a row as the set's author knew it: a column that its schema doesn't have is no edit while it holds
    /// its default.
    func imageDigest(of row: RowReference, _ state: StoredRow) -> SetDigest {
        guard let known = author?.tables[row.table]?.columns else { return schema.imageDigest(of: state) }
        let defaults = schema.tables[row.table]?.defaults ?? [:]
        let cells = state.cells.filter { column, cell in known[column] != nil || cell != defaults[column] ?? .null }
        return SetDigest(of: cells.sorted { $0.key.precedes($1.key) }.flatMap(\.value.encoded))
    }
}

extension Edit {
    fileprivate var isInsert: Bool { if case .insert = self { true } else { false } }
}

extension RowName {
    fileprivate var isNumbered: Bool { if case .numbered = self { true } else { false } }
}
