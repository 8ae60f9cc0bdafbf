// Rule 0: names and references lead through aliases to the rows that are meant.

/// A change whose names lead to rows as they are now called.
struct ResolvedChange {
    var row: RowReference
    /// The name that its author gave the row.
    var original: RowName
    /// Whether the row's own name, and not only a reference in its key, was a former one.
    var wentThroughAlias: Bool
    var edit: Edit
}

extension SetFold {
    /// Resolves the changes of a set, and removes those that contradict others.
    ///
    /// Example: A device merged the tags #7 and #9, which it inserted both, into #7. A set of another device that hadn't
    /// seen the merge puts #9 on a note: it puts #7 on the note.
    mutating func resolve(_ changes: [Change]) throws -> [ResolvedChange] {
        for change in changes {
            guard case .insert = change.edit else { continue }
            try endAlias(of: RowReference(change.table, change.row))
        }
        var resolved: [ResolvedChange] = []
        for change in changes {
            let original = RowReference(change.table, change.row)
            let (row, wentThroughAlias) = try lead(original)
            resolved.append(
                ResolvedChange(
                    row: row,
                    original: change.row,
                    wentThroughAlias: wentThroughAlias,
                    edit: try lead(change.edit, in: change.table)
                )
            )
        }
        resolved.sort { ($0.row, $0.original) < ($1.row, $1.original) }
        return try withoutContradictions(resolved)
    }

    /// Ends an alias whose name an author gives to a new row although it knew the alias.
    private mutating func endAlias(of row: RowReference) throws {
        let key = schema.aliasKey(of: row)
        if let alias = try work.alias(key), header.hasSeen(alias.maker) { try work.write(key, nil) }
    }

    // MARK: Leading

    /// Returns the present name of a row, and whether its own name was a former one.
    mutating func lead(_ row: RowReference) throws -> (RowReference, wentThroughAlias: Bool) {
        let row = RowReference(row.table, try leadKey(of: row))
        guard !schema.isCounted(row), let alias = try work.alias(schema.aliasKey(of: row)) else { return (row, false) }
        return (RowReference(row.table, alias.row), true)
    }

    /// Leads the references in a row's key.
    private mutating func leadKey(of row: RowReference) throws -> RowName {
        guard case .key(let cells) = row.row else { return row.row }
        let table = try schema.table(row.table)
        let columns = schema.isCounted(row) ? table.columns : table.schema.key.columns
        guard columns.count == cells.count else { return row.row }
        var named = Dictionary(uniqueKeysWithValues: zip(columns, cells))
        try lead(&named, in: row.table)
        return .key(columns.map { named[$0] ?? .null })
    }

    /// Leads the references among cells, as far as all their columns are there.
    mutating func lead(_ cells: inout [String: Cell], in table: String) throws {
        for (column, cell) in cells {
            if case .row(let name) = cell, let parent = schema.rowTable(of: column, in: table) {
                cells[column] = .row(try lead(RowReference(parent, name)).0.row)
            }
        }
        for reference in try schema.table(table).references {
            let pairs = zip(reference.key.parentColumns, reference.key.columns).sorted { $0.0.precedes($1.0) }
            let values = pairs.compactMap { cells[$0.1] }
            guard values.count == pairs.count, !values.contains(.null) else { continue }
            let key = AliasKey(table: reference.parent, columns: pairs.map(\.0), cells: values)
            guard let alias = try work.alias(key) else { continue }
            let parent = RowReference(reference.parent, alias.row)
            guard let state = try work.row(parent) else { continue }
            for (parentColumn, column) in pairs { cells[column] = schema.cell(parentColumn, of: parent, state) }
        }
    }

    private mutating func lead(_ edit: Edit, in table: String) throws -> Edit {
        switch edit {
        case .insert(var row):
            var cells = row.cells
            try lead(&cells, in: table)
            // A marked reference travels as it is.
            row.cells.merge(cells) { $1 }
            return .insert(row)
        case .update(let cells):
            var new = cells.mapValues(\.new)
            try lead(&new, in: table)
            var led: [String: UpdatedCell] = [:]
            for (column, cell) in cells {
                var cell = cell
                cell.new = new[column] ?? cell.new
                if case .cell(.row(let name)) = cell.old, let parent = schema.rowTable(of: column, in: table) {
                    cell.old = .cell(.row(try lead(RowReference(parent, name)).0.row))
                }
                led[column] = cell
            }
            return .update(led)
        case .delete(var row):
            var parents: Set<RowReference> = []
            for parent in row.parents { parents.insert(try lead(parent).0) }
            row.parents = parents
            return .delete(row)
        }
    }

    // MARK: Contradictions

    /// Of two changes that write one cell differently, the first counts; of edits and deletes of one row, the edits.
    ///
    /// Both happen where an author changed two rows that are one by now.
    private mutating func withoutContradictions(_ changes: [ResolvedChange]) throws -> [ResolvedChange] {
        var edited: Set<RowReference> = []
        for change in changes where !schema.isCounted(change.row) {
            if case .delete = change.edit { continue }
            edited.insert(change.row)
        }
        var cells: [RowReference: [String: Cell]] = [:]
        var kept: [ResolvedChange] = []
        // Updates come before inserts.
        for change in changes.filter(\.edit.isUpdate) + changes.filter(\.edit.isInsert)
            + changes.filter(\.edit.isDelete)
        {
            guard !schema.isCounted(change.row) else {
                kept.append(change)
                continue
            }
            if change.edit.isDelete {
                if edited.contains(change.row) { log(.editedAndDeleted, change.row) } else { kept.append(change) }
                continue
            }
            kept.append(withoutRepetition(change, &cells[change.row, default: [:]]))
        }
        return kept
    }

    /// The change without the cells that an earlier one wrote.
    private mutating func withoutRepetition(_ change: ResolvedChange, _ written: inout [String: Cell]) -> ResolvedChange
    {
        var change = change
        var lost: [String: Cell] = [:]
        func isRepeated(_ column: String, _ cell: Cell) -> Bool {
            guard let first = written[column] else { return false }
            if first != cell { lost[column] = cell }
            return true
        }
        switch change.edit {
        case .insert(var row):
            for (column, cell) in row.cells where isRepeated(column, cell) { row.cells[column] = nil }
            written.merge(row.cells) { first, _ in first }
            change.edit = .insert(row)
        case .update(var cells):
            for (column, cell) in cells where isRepeated(column, cell.new) { cells[column] = nil }
            written.merge(cells.mapValues(\.new)) { first, _ in first }
            change.edit = .update(cells)
        case .delete: break
        }
        if !lost.isEmpty {
            log(.sameCellTwice, change.row, lost: lost, kept: written.filter { lost.keys.contains($0.key) })
        }
        return change
    }
}

extension Edit {
    var isInsert: Bool { if case .insert = self { true } else { false } }
    var isUpdate: Bool { if case .update = self { true } else { false } }
    var isDelete: Bool { if case .delete = self { true } else { false } }
}
