/// New names for rows with integer keys that void sets of this device inserted.
///
/// The copy of this device that continues under its former identity may have given the same names to other rows. What the
/// state says of a name is of the copy's row; what this device's store has is of its own one. So the rows stay in the
/// store as they are, and the replica remembers them by the new names, in references too.
struct RenamedRows {
    /// A set whose new rows get new names.
    struct Inserter {
        var set: SyncChangeSet
        /// Whether a copy of this device may have given the names of these rows to others.
        var mayHaveCopy: Bool
    }

    private let state: ReplicaState
    private var names: [RowReference: RowName] = [:]

    /// Renames the rows of the store.
    ///
    /// - Parameters:
    ///   - state: The replica's state, without the void sets.
    ///   - sets: The void sets, but those with names of their own: ``SetJudgement/setsWithOwnNames()``.
    ///   - client: This device, as a new client.
    /// - Throws: `DatabaseError`.
    init(_ state: ReplicaState, insertedBy sets: [Inserter], by client: ClientID) throws {
        self.state = state
        for inserter in sets {
            for change in inserter.set.changes {
                let row = RowReference(change.table, change.row)
                guard case .insert = change.edit, case .numbered(inserter.set.header.id.client, _) = change.row,
                    state.schema.numberedTable(change.table) == change.table,
                    // Another device has restored a row that is there, and may have edited it since.
                    try inserter.mayHaveCopy || state.row(row) == nil
                else { continue }
                try rename(row, by: client)
            }
        }
        guard !names.isEmpty else { return }
        for table in state.schema.tables.values.sorted(by: { $0.schema.name.precedes($1.schema.name) }) {
            try renameRows(of: table)
            try renameCounts(of: table)
        }
    }

    /// Renames no rows yet.
    init(_ state: ReplicaState) { self.state = state }

    /// Renames the rows of a lost set whose names other rows have by now; the store has none of them.
    ///
    /// - Parameters:
    ///   - set: The set.
    ///   - client: Who gives the new names.
    /// - Throws: `DatabaseError`.
    mutating func rename(lost set: SyncChangeSet, by client: ClientID) throws {
        for change in set.changes {
            let row = RowReference(change.table, change.row)
            // A row that was restored has the name that another client may have given it, and is the same row.
            guard case .insert(let inserted) = change.edit, case .numbered(set.header.id.client, _) = change.row,
                state.schema.numberedTable(change.table) == change.table,
                let present = try state.row(row)?.cells, present != inserted.cells
            else { continue }
            names[row] = try ReplicaNumbers(state).createName(in: change.table, by: client)
        }
    }

    // MARK: The store's rows

    private mutating func rename(_ row: RowReference, by client: ClientID) throws {
        guard names[row] == nil else { return }
        let numbers = ReplicaNumbers(state)
        let new = RowReference(row.table, try numbers.createName(in: row.table, by: client))
        names[row] = new.row
        if let number = try numbers.number(of: row) { try numbers.setNumber(number, of: new) }
    }

    private func renameRows(of table: FoldSchema.Table) throws {
        let (name, pending) = (table.schema.name, ReplicaPending(state))
        var renamedRows: [(row: RowReference, new: RowReference, image: [UInt8])] = []
        try pending.forEachBase(of: name) { row, image in
            let new = RowReference(name, renamed(row.row, in: name))
            let newImage = try renamed(image, in: table)
            if new != row || newImage != image { renamedRows.append((row, new, newImage)) }
        }
        for (row, new, _) in renamedRows where new != row { try pending.changeBase(row, nil) }
        for (_, new, image) in renamedRows { try pending.changeBase(new, image) }
    }

    private func renameCounts(of table: FoldSchema.Table) throws {
        let (name, pending) = (table.schema.name, ReplicaPending(state))
        var renamedRows: [(row: RowReference, new: RowReference, count: Int)] = []
        try pending.forEachBaseCount(of: name) { row, count in
            let new = RowReference(name, renamed(row.row, in: name))
            if new != row { renamedRows.append((row, new, count)) }
        }
        for (row, new, count) in renamedRows {
            try pending.changeBaseCount(row, 0)
            try pending.changeBaseCount(new, count)
        }
    }

    private func renamed(_ image: [UInt8], in table: FoldSchema.Table) throws -> [UInt8] {
        guard !image.isEmpty else { return image }
        try table.check(image)
        return table.encode(renamed(table.cells(image), in: table.schema.name))
    }

    // MARK: Changes

    /// A change of a void set, in the schema of the store, with the new names.
    func renamed(_ change: Change) -> Change {
        let edit: Edit
        switch change.edit {
        case .insert(var row):
            row.cells = renamed(row.cells, in: change.table)
            edit = .insert(row)
        case .update(let cells):
            edit = .update(
                Dictionary(
                    uniqueKeysWithValues: cells.map { column, cell in
                        var cell = cell
                        cell.new = renamed(cell.new, of: column, in: change.table)
                        if case .cell(let old) = cell.old {
                            cell.old = .cell(renamed(old, of: column, in: change.table))
                        }
                        return (column, cell)
                    }
                )
            )
        case .delete(var row):
            row.parents = Set(row.parents.map { RowReference($0.table, renamed($0.row, in: $0.table)) })
            row.left = Set(row.left.map { RowReference($0.table, renamed($0.row, in: $0.table)) })
            edit = .delete(row)
        }
        return Change(change.table, renamed(change.row, in: change.table), edit)
    }

    private func renamed(_ cells: [String: Cell], in table: String) -> [String: Cell] {
        Dictionary(uniqueKeysWithValues: cells.map { ($0, renamed($1, of: $0, in: table)) })
    }

    private func renamed(_ cell: Cell, of column: String, in table: String) -> Cell {
        guard case .row(let name) = cell, let parent = state.schema.rowTable(of: column, in: table) else { return cell }
        return .row(renamed(name, in: parent))
    }

    private func renamed(_ name: RowName, in table: String) -> RowName {
        switch name {
        case .numbered: names[RowReference(state.schema.numberedTable(table), name)] ?? name
        case .key(let cells):
            .key(zip(cells, columns(of: cells, in: table)).map { renamed($0, of: $1, in: table) })
        }
    }

    /// The columns of a name's cells: those of the key, or all for a row without a key.
    private func columns(of cells: [Cell], in table: String) -> [String] {
        guard let table = state.schema.tables[table] else { return [] }
        return cells.count == table.columns.count ? table.columns : table.schema.key.columns
    }
}
