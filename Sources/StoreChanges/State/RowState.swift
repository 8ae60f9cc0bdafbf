/// A row of the state.
package struct RowState: Hashable, Sendable {
    /// The cells by the names of their columns, without those of the key, which the row's name has.
    package var cells: [String: Cell]
    /// The sets that inserted the row: more than one if devices inserted it independently, or if rows were merged.
    package var inserters: Set<SetID>

    package init(cells: [String: Cell], inserters: Set<SetID>) {
        self.cells = cells
        self.inserters = inserters
    }

    init(_ row: StoredRow) { self.init(cells: row.cells, inserters: row.inserters) }
}

/// A deleted row, kept until every client knows that it's deleted.
package struct Tomb: Hashable, Sendable {
    /// The row as it was when it was deleted.
    package var row: RowState
    /// The sets that deleted it.
    package var deleters: Set<SetID>

    package init(row: RowState, deleters: Set<SetID>) {
        self.row = row
        self.deleters = deleters
    }

    init(_ tomb: StoredTomb) { self.init(row: RowState(tomb.row), deleters: tomb.deleters) }
}

/// A former value of a row's key, or of unique columns to which a foreign key refers.
package struct AliasKey: Hashable, Sendable {
    package var table: String
    /// The columns, in ascending order of their names.
    package var columns: [String]
    /// What they held, in the same order; an integer key holds the row's former name.
    package var cells: [Cell]

    package init(table: String, columns: [String], cells: [Cell]) {
        self.table = table
        self.columns = columns
        self.cells = cells
    }
}

/// Where a former value leads.
package struct Alias: Hashable, Sendable {
    /// The row, in the same table.
    package var row: RowName
    /// The set that made the alias.
    package var maker: SetID

    package init(row: RowName, maker: SetID) {
        self.row = row
        self.maker = maker
    }
}

/// All of the state, for small documents and for tests.
package struct StateContent: Hashable, Sendable {
    /// The rows of tables with a key.
    package var rows: [RowReference: RowState] = [:]
    /// The deleted rows of tables with a key; no row has the name of a tomb.
    package var tombs: [RowReference: Tomb] = [:]
    /// Former values; no row has such a value as its present one.
    package var aliases: [AliasKey: Alias] = [:]
    /// How often each row occurs in tables without a key, and rows with NULL in their key; never 0.
    package var counts: [RowReference: Int] = [:]

    package init() {}
}
