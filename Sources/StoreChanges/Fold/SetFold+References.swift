// Rule 5, references: a parent that is still needed comes back, or the child goes as its foreign key says.

extension SetFold {
    /// Repairs a reference that leads nowhere.
    ///
    /// Example: One device deleted a folder while another one put a note into it. If the note's foreign key says
    /// `ON DELETE CASCADE`, the note goes; if it says `SET NULL`, the note is in no folder; otherwise the folder comes
    /// back.
    mutating func repair(_ check: RepairQueue.ReferenceCheck) throws {
        let (row, id) = (check.row, check.reference)
        let reference = try schema.table(row.table).references[id.index]
        guard let action = constraints.action(of: reference, of: row.table), let state = try work.row(row),
            !isMarked(id, row), let key = try missingParent(id, of: row, state)
        else { return }
        let hadParent = try !work.base.rows(with: key).isEmpty
        let isWritten = traces[row].map { !$0.written.isDisjoint(with: reference.key.columns) } ?? false
        guard try hadParent || isWritten && !ledNowhereBefore(id, row, state) else { return }
        defer { queueReference(row, id) }
        if try goesBack(row, reference.sortName) { return }
        let (tomb, mayClear) = (try tomb(with: key), try action == .setNull && allowsNull(reference, row.table))
        guard tomb != nil || hadParent || mayClear && isBroughtBack(row) else { return try leaveOut(row) }
        switch action {
        case .cascade:
            if let tomb { companions[tomb, default: []].insert(row) }
            try logLost(.deletedWithParent, row, state)
            try bury(row)
        case .setNull where mayClear:
            try clear(reference, row, state)
        case .noAction, .restrict, .setDefault, .setNull:
            if let tomb, try bringBack(tomb) { return }
            try giveUp(reference, row, isWritten: isWritten)
        }
    }

    /// Whether the row was deleted and has come back: the set's author may know that its parent was deleted.
    private func isBroughtBack(_ row: RowReference) -> Bool {
        if case .broughtBack? = traces[row]?.origin { true } else { false }
    }

    /// Whether the row had this reference before the set and it led nowhere then, because its author had marked it.
    private mutating func ledNowhereBefore(
        _ id: FoldSchema.ReferenceID,
        _ row: RowReference,
        _ state: StoredRow
    ) throws -> Bool {
        let former = RowReference(row.table, traces[row]?.formerName ?? row.row)
        guard let image = traces[row]?.image, let key = schema.childKey(id, of: former, image) else { return false }
        return key == schema.childKey(id, of: row, state)
    }

    /// The deleted row to which a reference leads: first among the rows that this set alone deleted, then the least.
    ///
    /// Rows that the set's author knew as deleted aren't meant.
    private mutating func tomb(with key: LookupKey) throws -> RowReference? {
        let tombs = try work.tombs(with: key).filter { try work.tomb($0).map(hasSeen) == false }
        return try tombs.first { try work.tomb($0)?.deleters == [header.id] } ?? tombs.first
    }

    /// Whether a reference may be cleared: its columns allow `NULL`, and neither the key nor a `CHECK` has them.
    private func allowsNull(_ reference: FoldSchema.Reference, _ table: String) throws -> Bool {
        let table = try schema.table(table)
        return reference.key.columns.allSatisfy { column in
            table.schema.column(column)?.isNotNull == false && !table.keyColumns.contains(column)
                && !table.schema.checks.contains { $0.columns.contains(column) }
        }
    }

    private mutating func clear(_ reference: FoldSchema.Reference, _ row: RowReference, _ state: StoredRow) throws {
        let columns = reference.key.columns
        let lost = Dictionary(columns.map { ($0, schema.cell($0, of: row, state)) }) { first, _ in first }
        let kept = Dictionary(columns.map { ($0, Cell.null) }) { first, _ in first }
        for _ in 0..<(schema.isCounted(row) ? try work.count(row) : 1) {
            log(.referenceCleared, row, lost: lost, kept: kept)
        }
        try rewrite(row, kept)
    }

    /// What to do with a row whose parent can't come back.
    private mutating func giveUp(_ reference: FoldSchema.Reference, _ row: RowReference, isWritten: Bool) throws {
        guard isWritten else { return try takeOut(row) }
        guard let image = traces[row]?.image, let state = try work.row(row), !schema.isCounted(row) else {
            return try leaveOut(row)
        }
        var cells = schema.cells(of: row, image)
        try lead(&cells, in: row.table)
        let changed = cells.filter { column, former in
            reference.key.columns.contains(column) && state.cell(column).map { $0 != former } ?? false
        }
        if !changed.isEmpty { try takeBack(row, changed) }
    }

    // MARK: Bringing back

    /// Brings a deleted row back, with the rows to which it refers and the rows that went with it in this set.
    ///
    /// A chain of rows may be long, so what is left to do is kept in a list.
    ///
    /// - Returns: Whether it came back: each row does so once in a set.
    private mutating func bringBack(_ row: RowReference) throws -> Bool {
        guard let state = try bringBackAlone(row) else { return false }
        var steps: [BringingBack] = [.companions(row), .parents(row, state, reference: 0)]
        while let step = steps.popLast() {
            switch step {
            case .row(let row):
                guard let state = try bringBackAlone(row) else { continue }
                steps += [.companions(row), .parents(row, state, reference: 0)]
            case .parents(let row, let state, let index):
                guard try index < schema.table(row.table).references.count else { continue }
                steps.append(.parents(row, state, reference: index + 1))
                let id = FoldSchema.ReferenceID(table: row.table, index: index)
                guard try constraints.action(of: schema.table(row.table).references[index], of: row.table) != nil,
                    let key = try missingParent(id, of: row, state), let parent = try tomb(with: key)
                else { continue }
                steps.append(.row(parent))
            case .companions(let row):
                steps += (companions[row] ?? []).sorted().reversed().map { .row($0) }
            }
        }
        return true
    }

    /// What is left to do while rows come back; the last step comes first.
    private enum BringingBack {
        case row(RowReference)
        /// The rows to which a row refers, from a reference on.
        case parents(RowReference, StoredRow, reference: Int)
        /// The rows that went with a row.
        case companions(RowReference)
    }

    /// Brings a deleted row back; returns what it holds, `nil` if it can't come back (again).
    private mutating func bringBackAlone(_ row: RowReference) throws -> StoredRow? {
        guard let tomb = try work.tomb(row), broughtBack.insert(row).inserted else { return nil }
        var cells = schema.cells(of: row, tomb.row)
        try lead(&cells, in: row.table)
        let state = StoredRow(tomb.row.table, cells, inserters: tomb.row.inserters)
        traces[row] = Trace(origin: .broughtBack(tomb), repairs: traces[row]?.repairs ?? [:])
        log(.broughtBack, row, kept: state.cells)
        try put(row, state, writing: allColumns(row.table))
        return state
    }
}
