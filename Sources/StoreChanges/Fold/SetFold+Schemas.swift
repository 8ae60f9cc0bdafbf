// Rule 8: sets that were captured in another schema.

extension SetFold {
    /// Returns the changes as this schema has them.
    ///
    /// Example: A device whose app has no column “color” yet inserts a tag. The tag has the color that the column has by
    /// default. The device stores tags of that color that other devices insert, without the color.
    ///
    /// An edit of a column that the schema doesn't have any more is logged, and so is one of a column that was a reference
    /// and isn't any more, or has become one. A change of a row that has another key now is logged, too.
    mutating func adapt(_ changes: [Change]) -> [Change] {
        guard let author else { return changes }
        addedDefaults = schema.addedDefaults(of: author)
        let rowColumns = RowColumns(author)
        return changes.compactMap { adapt($0, author, rowColumns) }
    }

    private mutating func adapt(_ change: Change, _ author: SchemaDescription, _ rowColumns: RowColumns) -> Change? {
        guard let table = schema.tables[change.table], !hasOtherKey(change.table, author, rowColumns) else {
            return leaveOut(change, author)
        }
        let (name, lost) = adaptedName(of: change, table, author, rowColumns)
        let row = RowReference(change.table, name)
        guard schema.has(row) else { return leaveOut(change, author) }
        let edited = EditedRow(row: row, table: table, rowColumns: rowColumns)
        let edit: Edit? =
            switch change.edit {
            case .delete: isDeleted(edited, lost) ? change.edit : nil
            case .insert(let inserted): .insert(adapt(inserted, of: edited, lost))
            case .update(let cells): adapt(cells, of: edited).map { .update($0) }
            }
        guard let edit else { return nil }
        var change = change
        (change.row, change.edit) = (name, edit)
        return change
    }

    /// The row of an edit, as this schema names it.
    private struct EditedRow {
        var row: RowReference
        var table: FoldSchema.Table
        /// Which columns are references in the author's schema.
        var rowColumns: RowColumns
    }

    /// Returns the name of a change's row in this schema, and what the author's name of it holds that this one can't say.
    ///
    /// A row without a key is named by all of its cells.
    private func adaptedName(
        of change: Change,
        _ table: FoldSchema.Table,
        _ author: SchemaDescription,
        _ rowColumns: RowColumns
    ) -> (RowName, lost: [String: Cell]) {
        let authors = author.tables[change.table]
        let columns = authors?.columnNames ?? []
        guard case .key(let cells) = change.row, cells.count == columns.count,
            authors?.isCounted(cells) == true || table.keyColumns.isEmpty
        else { return (change.row, [:]) }
        let lost = Dictionary(zip(columns, cells)) { first, _ in first }
            .filter { !schema.hasSameMeaning($0.value, in: $0.key, of: change.table, since: rowColumns) }
        return (schema.nameOfCounted(cells, of: columns, in: table, since: rowColumns), lost)
    }

    /// Whether this schema has no value for a cell that an edit gives a row.
    private func isLost(_ column: String, _ cell: Cell, of edited: EditedRow) -> Bool {
        !edited.table.columns.contains(column) || edited.table.keyColumns.contains(column)
            || !schema.hasSameMeaning(cell, in: column, of: edited.row.table, since: edited.rowColumns)
    }

    /// Whether the row that an author deleted is this row; logs what isn't deleted otherwise.
    private mutating func isDeleted(_ edited: EditedRow, _ lost: [String: Cell]) -> Bool {
        let (name, rowColumns) = (edited.row.table, edited.rowColumns)
        // Once an earlier set has given the row a new value, a name with the column's default is another row's.
        let kept = lost.filter { column, _ in
            edited.table.columns.contains(column)
                && unseenRowColumns.contains {
                    $0.table(of: column, in: name) != rowColumns.table(of: column, in: name)
                }
        }
        if !kept.isEmpty { log(.schemaChanged, edited.row, kept: kept) }
        return kept.isEmpty
    }

    /// Returns what an insert gives a row in this schema; logs what it can't hold, and what its name lost.
    private mutating func adapt(
        _ inserted: InsertedRow,
        of edited: EditedRow,
        _ lostOfName: [String: Cell]
    ) -> InsertedRow {
        let (table, added) = (edited.table, addedDefaults[edited.row.table])
        var inserted = inserted
        let lost = lostOfName.merging(
            inserted.cells.filter { isLost($0, $1, of: edited) && added?[$0] != $1 }
        ) { $1 }
        if !lost.isEmpty { log(.schemaChanged, edited.row, lost: lost) }
        inserted.cells = inserted.cells.filter { !isLost($0.key, $0.value, of: edited) }
        inserted.dangling.formIntersection(table.columns)
        guard !schema.isCounted(edited.row) else { return inserted }
        for column in table.valueColumns {
            inserted.cells[column] = table.stored(
                inserted.cells[column] ?? table.defaults[column] ?? .null,
                in: column
            )
        }
        return inserted
    }

    /// Returns what an update changes in this schema, if anything; logs what it can't.
    private mutating func adapt(_ cells: [String: UpdatedCell], of edited: EditedRow) -> [String: UpdatedCell]? {
        let lost = cells.mapValues(\.new).filter { isLost($0, $1, of: edited) }
        if !lost.isEmpty { log(.schemaChanged, edited.row, lost: lost) }
        guard lost.count < cells.count else { return nil }
        let kept = cells.filter { lost[$0.key] == nil }.map { column, cell in
            var cell = cell
            cell.new = edited.table.stored(cell.new, in: column)
            return (column, cell)
        }
        return Dictionary(kept) { first, _ in first }
    }

    /// Whether a table's rows have other names than in the author's schema.
    ///
    /// A key whose former columns are all gone was renamed, and its names mean what they did.
    private func hasOtherKey(_ name: String, _ author: SchemaDescription, _ rowColumns: RowColumns) -> Bool {
        guard let table = schema.tables[name], let former = author.tables[name] else { return false }
        let refersElsewhere = zip(former.keyColumns, table.schema.key.columns).contains {
            rowColumns.table(of: $0, in: name) != schema.rowTable(of: $1, in: name)
        }
        if refersElsewhere { return true }
        guard former.keyKind == 3, case .natural = table.schema.key else { return false }
        return Set(former.keyColumns) != table.keyColumns && former.keyColumns.contains(where: table.columns.contains)
    }

    /// Logs a change of a table that this schema doesn't have, or not with such rows.
    ///
    /// A delete says by its author's key what isn't deleted.
    private mutating func leaveOut(_ change: Change, _ author: SchemaDescription) -> Change? {
        let row = RowReference(change.table, change.row)
        switch change.edit {
        case .delete: log(.schemaChanged, row, kept: author.tables[change.table]?.key(of: change.row) ?? [:])
        case .insert(let inserted): log(.schemaChanged, row, lost: inserted.cells)
        case .update(let cells): log(.schemaChanged, row, lost: cells.mapValues(\.new))
        }
        return nil
    }

    /// Returns the changes without those of rows without a key that the same update of the app made elsewhere.
    ///
    /// Example: An update fills a new column of a table without a key on two devices: each row is there once.
    func withoutRepeatedCounts(_ changes: [Change], _ migrations: [SyncChangeSet]) -> [Change] {
        guard header.isMigration, !migrations.isEmpty else { return changes }
        var repeated: [CountedChange: Int] = [:]
        for sets in Dictionary(grouping: migrations, by: \.header.id.client).values {
            let counts = sets.flatMap(\.changes).compactMap(counted).reduce(into: [:]) { $0[$1, default: 0] += 1 }
            // An update of the app changes a row by deleting and inserting it; what users only inserted, or deleted, counts.
            let tables = Set(counts.keys.filter(\.isInsert).map(\.row.table))
                .intersection(counts.keys.filter { !$0.isInsert }.map(\.row.table))
            repeated.merge(counts.filter { tables.contains($0.key.row.table) }) { max($0, $1) }
        }
        return changes.filter { change in
            guard let counted = counted(change), let count = repeated[counted], count > 0 else { return true }
            repeated[counted] = count - 1
            return false
        }
    }

    /// The insert or the delete of one of several equal rows.
    private struct CountedChange: Hashable {
        var row: RowReference
        var isInsert: Bool
    }

    private func counted(_ change: Change) -> CountedChange? {
        let row = RowReference(change.table, change.row)
        return schema.isCounted(row) ? CountedChange(row: row, isInsert: change.edit.isInsert) : nil
    }

    /// Merges each row that an update of the app inserted with the equal row that the same update inserted elsewhere.
    ///
    /// Example: An update adds a table of categories, and fills it on two devices: each category is there once.
    mutating func mergeMigratedRows(_ changes: [ResolvedChange], _ migrations: [SyncChangeSet]) throws {
        guard header.isMigration, !migrations.isEmpty else { return }
        var inserted = changes.filter { $0.edit.isInsert && $0.row.row.isNumbered }.map(\.row)
        let earlier = migrations.flatMap(\.changes).filter { $0.edit.isInsert && $0.row.isNumbered }
            .map { RowReference($0.table, $0.row) }.filter(schema.has)
        var known = Set(inserted)
        var others = try earlier.map { try lead($0).0 }.filter { known.insert($0).inserted }
        let count = others.count
        // Rows that refer to each other become equal one after the other.
        var merged: Set<RowReference>
        repeat {
            merged = []
            var candidates = try rowsByImage(others)
            for row in inserted {
                guard let image = try work.row(row)?.image, let other = candidates[row.table]?[image]?.popLast(),
                    // Merging another row may have changed it; then the next pass finds it.
                    try work.row(other)?.image == image
                else { continue }
                merged.formUnion([row, other])
                let entry = conflicts.count
                try merge(row, into: other)
                // Nothing is lost of equal rows.
                conflicts.remove(at: entry)
            }
            inserted.removeAll(where: merged.contains)
            others.removeAll(where: merged.contains)
        } while !merged.isEmpty
        if others.count < count { try forgetEqualLosses() }
    }

    /// Removes the entries that lost only references to merged rows, or rows that differed only by such references.
    ///
    /// Example: An update renames a table on two devices, and each row that refers to one of its rows gets another value on
    /// each device, until the rows are merged.
    private mutating func forgetEqualLosses() throws {
        // References to this set's rows are led, too.
        ownKeys = []
        let entries = conflicts
        conflicts = []
        for entry in entries {
            if entry.rule == .migratedValue || entry.rule == .merged {
                var lost = entry.lost
                try lead(&lost, in: entry.row.table, except: traces[entry.row]?.dangling ?? [])
                if lost == entry.kept { continue }
            }
            conflicts.append(entry)
        }
    }

    /// Rows by table and image, the first of several equal ones last.
    private mutating func rowsByImage(_ rows: [RowReference]) throws -> [String: [[UInt8]: [RowReference]]] {
        var found: [String: [[UInt8]: [RowReference]]] = [:]
        for row in rows.reversed() {
            guard let image = try work.row(row)?.image else { continue }
            found[row.table, default: [:]][image, default: []].append(row)
        }
        return found
    }

    /// The digest of a row as the set's author knew it: a column that only one of both schemas has is no edit while it holds
    /// its default.
    func imageDigest(of row: RowReference, _ state: StoredRow) -> SetDigest {
        guard let known = author?.tables[row.table]?.columns else { return state.digest }
        let defaults = schema.tables[row.table]?.defaults ?? [:]
        let cells = state.cells.filter { column, cell in known[column] != nil || cell != defaults[column] ?? .null }
            .merging(addedDefaults[row.table] ?? [:]) { cell, _ in cell }
        return SetDigest(of: cells.sorted { $0.key.precedes($1.key) }.flatMap(\.value.encoded))
    }
}

extension FoldSchema {
    /// What the columns outside the key hold by default that another schema has and this one doesn't, by table.
    func addedDefaults(of author: SchemaDescription) -> [String: [String: Cell]] {
        var added: [String: [String: Cell]] = [:]
        for (name, authors) in author.tables {
            guard let table = tables[name] else { continue }
            for (column, description) in authors.columns where !table.columns.contains(column) {
                guard !authors.keyColumns.contains(column) else { continue }
                // A device that knows of more affinities may have described the column.
                guard let affinity = Affinity(rawValue: description.affinity) else { continue }
                added[name, default: [:]][column] = evaluator.cell(ofDefault: description.defaultValue, in: affinity)
            }
        }
        return added
    }
}

extension SchemaDescription.Table {
    /// What a row's key holds, by column; all of its cells without a key.
    fileprivate func key(of row: RowName) -> [String: Cell] {
        guard case .key(let cells) = row else {
            return Dictionary(keyColumns.map { ($0, .row(row)) }) { first, _ in first }
        }
        return Dictionary(zip(isCounted(cells) ? columnNames : keyColumns, cells)) { first, _ in first }
    }
}

extension Edit {
    fileprivate var isInsert: Bool { if case .insert = self { true } else { false } }
}

extension RowName {
    fileprivate var isNumbered: Bool { if case .numbered = self { true } else { false } }
}
