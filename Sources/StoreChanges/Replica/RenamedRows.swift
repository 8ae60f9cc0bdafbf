/// New names for rows with integer keys that void sets of this device inserted.
///
/// The copy of this device that goes on under its former identity may have given the same names to other rows.
struct RenamedRows {
    private let state: ReplicaState
    private let client: ClientID
    private var names: [RowReference: RowName] = [:]

    /// Prepares to rename.
    ///
    /// - Parameters:
    ///   - state: The replica's state, without the void sets.
    ///   - client: This device, as a new client.
    init(_ state: ReplicaState, by client: ClientID) {
        self.state = state
        self.client = client
    }

    /// Returns a void set with new names of the rows that it and the sets before it inserted.
    ///
    /// The rows stay in the store as they are.
    mutating func changes(of set: SyncChangeSet) throws -> SyncChangeSet {
        for change in set.changes {
            guard case .insert = change.edit, case .numbered(set.header.id.client, _) = change.row,
                state.schema.numberedTable(change.table) == change.table
            else { continue }
            try rename(RowReference(change.table, change.row))
        }
        return SyncChangeSet(set.header, set.changes.map(renamed))
    }

    private mutating func rename(_ row: RowReference) throws {
        let (numbers, pending) = (ReplicaNumbers(state), ReplicaPending(state))
        let new = RowReference(row.table, try numbers.createName(in: row.table, by: client))
        names[row] = new.row
        guard let number = try numbers.number(of: row) else { return }
        let base = try pending.base(row)
        try numbers.setNumber(number, of: new)
        try pending.setBase(new, base)
        try pending.setBase(row, nil)
        try pending.settle(row)
    }

    // MARK: Changes

    private func renamed(_ change: Change) -> Change {
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
