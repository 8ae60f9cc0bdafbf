// Rule 5, references: a parent that is still needed comes back, or the child goes as its foreign key says.

extension SetFold {
    /// Repairs a reference that leads nowhere.
    ///
    /// Example: One device deleted a folder while another one put a note into it. If the note's foreign key says
    /// `ON DELETE CASCADE`, the note goes; if it says `SET NULL`, the note is in no folder; otherwise the folder comes
    /// back.
    mutating func repair(_ check: RepairQueue.ReferenceCheck) throws {
        let reference = try schema.table(check.row.table).references[check.reference.index]
        guard let state = try work.row(check.row),
            let child = schema.childKey(check.reference, of: check.row, state),
            !isLeftAlone(reference, check.row, state),
            let key = schema.parentKey(check.reference, child), try work.rows(with: key).isEmpty
        else { return }
        guard let parent = try work.tombs(with: key).first, try mayRepair(reference, check.row, parent) else {
            return try attempt(check.row, reference.sortName) == .takeOut ? takeOut(check.row) : leaveOut(check.row)
        }
        switch attempt(check.row, reference.sortName) {
        case .repair: try repair(reference, check, parent)
        case .leaveOut: try leaveOut(check.row)
        case .takeOut: try takeOut(check.row)
        }
        queueReference(check.row, check.reference)
    }

    /// Whether a reference led nowhere in its author's store too, or holds a number that isn't a row's.
    private func isLeftAlone(_ reference: FoldSchema.Reference, _ row: RowReference, _ state: RowState) -> Bool {
        if !(traces[row]?.dangling.isDisjoint(with: reference.key.columns) ?? true) { return true }
        return reference.key.columns.contains { column in
            guard schema.rowTable(of: column, in: row.table) != nil else { return false }
            if case .value = schema.cell(column, of: row, state) { return true }
            return false
        }
    }

    /// Whether the set took the parent, or wrote the reference without knowing that the parent was deleted.
    private mutating func mayRepair(
        _ reference: FoldSchema.Reference,
        _ row: RowReference,
        _ parent: RowReference
    ) throws -> Bool {
        if try work.former(parent) != nil { return true }
        guard let tomb = try work.tomb(parent), let trace = traces[row] else { return false }
        return !trace.written.isDisjoint(with: reference.key.columns) && !tomb.deleters.contains(where: header.hasSeen)
    }

    private mutating func repair(
        _ reference: FoldSchema.Reference,
        _ check: RepairQueue.ReferenceCheck,
        _ parent: RowReference
    ) throws {
        let row = check.row
        guard let state = try work.row(row) else { return }
        switch reference.key.onDelete {
        case .cascade:
            log(.deletedWithParent, row, lost: state.cells)
            companions[parent, default: []].insert(row)
            try bury(row)
        case .setNull where try allowsNull(reference, row.table):
            let lost = reference.key.columns.map { ($0, schema.cell($0, of: row, state)) }
            let kept = reference.key.columns.map { ($0, Cell.null) }
            log(.referenceCleared, row, lost: Dictionary(lost) { $1 }, kept: Dictionary(kept) { $1 })
            try rewrite(row, Dictionary(kept) { $1 })
        case .noAction, .restrict, .setDefault, .setNull:
            guard try !bringBack(parent) else { return }
            if let trace = traces[row], trace.image != nil, !trace.written.isDisjoint(with: reference.key.columns) {
                try takeBack(reference, row)
            } else if traces[row]?.standing == .inserted {
                try leaveOut(row)
            } else {
                try takeOut(row)
            }
        }
    }

    /// Whether a reference may be cleared: its columns allow `NULL`, and neither the key nor a `CHECK` has them.
    private func allowsNull(_ reference: FoldSchema.Reference, _ table: String) throws -> Bool {
        let table = try schema.table(table)
        return reference.key.columns.allSatisfy { column in
            table.schema.column(column)?.isNotNull == false && !table.keyColumns.contains(column)
                && !table.schema.checks.contains { $0.contains(column) }
        }
    }

    /// Takes back what the set wrote to a reference.
    private mutating func takeBack(_ reference: FoldSchema.Reference, _ row: RowReference) throws {
        guard let state = try work.row(row), var cells = traces[row]?.image?.cells else { return }
        try lead(&cells, in: row.table)
        let kept = cells.filter { reference.key.columns.contains($0.key) }
        log(.takenBack, row, lost: state.cells.filter { kept.keys.contains($0.key) }, kept: kept)
        try rewrite(row, kept)
    }

    // MARK: Bringing back

    /// Brings a deleted row back, with the rows to which it refers and those that went with it in this set.
    ///
    /// - Returns: Whether it came back: each row does so once in a set.
    @discardableResult
    private mutating func bringBack(_ row: RowReference) throws -> Bool {
        guard let tomb = try work.tomb(row), try work.row(row) == nil, broughtBack.insert(row).inserted else {
            return false
        }
        var cells = tomb.row.cells
        try lead(&cells, in: row.table)
        try trace(row)
        traces[row]?.standing = .broughtBack
        traces[row]?.updated = []
        log(.broughtBack, row, kept: cells)
        let state = RowState(cells: cells, inserters: tomb.row.inserters)
        try put(row, state, writing: allColumns(row.table))
        queue.insert(row)
        for index in try schema.table(row.table).references.indices {
            try bringBackParent(FoldSchema.ReferenceID(table: row.table, index: index), of: row, state)
        }
        for companion in (companions.removeValue(forKey: row) ?? []).sorted() { try bringBackCompanion(companion) }
        return true
    }

    private mutating func bringBackParent(
        _ id: FoldSchema.ReferenceID,
        of row: RowReference,
        _ state: RowState
    ) throws {
        guard let child = schema.childKey(id, of: row, state), let key = schema.parentKey(id, child),
            try work.rows(with: key).isEmpty, let parent = try work.tombs(with: key).first
        else { return }
        try bringBack(parent)
    }

    private mutating func bringBackCompanion(_ row: RowReference) throws {
        guard schema.isCounted(row) else {
            try bringBack(row)
            return
        }
        if try work.count(row) == 0 { try restoreCount(of: row) }
    }
}
