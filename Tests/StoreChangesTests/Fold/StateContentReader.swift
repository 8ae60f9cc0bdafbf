@testable import StoreChanges

/// Reads a state in memory by looking at all of it.
struct StateContentReader: StateReader {
    private let content: StateContent
    private let schema: FoldSchema

    init(_ content: StateContent, _ schema: FoldSchema) {
        self.content = content
        self.schema = schema
    }

    private func stored(_ row: RowState, of table: String) -> StoredRow? {
        schema.tables[table].map { StoredRow($0, row.cells, inserters: row.inserters) }
    }

    func row(_ row: RowReference) -> StoredRow? { content.rows[row].flatMap { stored($0, of: row.table) } }

    func tomb(_ row: RowReference) -> StoredTomb? {
        content.tombs[row].flatMap { tomb in
            stored(tomb.row, of: row.table).map { StoredTomb(row: $0, deleters: tomb.deleters) }
        }
    }

    func count(_ row: RowReference) -> Int? { content.counts[row] }
    func alias(_ key: AliasKey) -> Alias? { content.aliases[key] }
    func hasAliases(_ table: String) -> Bool { content.aliases.keys.contains { $0.table == table } }

    func aliases(leadingTo row: RowReference) -> [AliasKey] {
        content.aliases.filter { $0.key.table == row.table && $0.value.row == row.row }.map(\.key)
    }

    func aliases(like representative: AliasKey) -> [AliasKey] {
        content.aliases.keys.filter { schema.representative($0) == representative }
    }

    func rows(with key: LookupKey) throws -> [RowName] {
        let table = try schema.table(key.table)
        let rows =
            content.rows.keys.compactMap { row in self.row(row).map { (row, $0) } }
            + content.counts.keys.map { ($0, StoredRow(countedIn: table)) }
        return try rows.filter { try $0.0.table == key.table && schema.lookupKeys(of: $0.0, $0.1).contains(key) }
            .map(\.0.row)
    }

    func clashes(in unique: Int, of table: String) -> [RowName] {
        (Array(content.rows.keys) + content.counts.keys).filter { $0.table == table }.map(\.row)
    }

    func tombs(with key: LookupKey) -> [RowName] {
        content.tombs.keys.filter { row in
            row.table == key.table
                && tomb(row).map { schema.tombKeys(of: row, $0.row).contains(key) } ?? false
        }.map(\.row)
    }
}

extension StateContent {
    /// Carries out a change.
    mutating func apply(_ delta: StateDelta) {
        for (row, pair) in delta.rows { rows[row] = pair.after.map(RowState.init) }
        for (row, pair) in delta.tombs { tombs[row] = pair.after.map(Tomb.init) }
        for (key, pair) in delta.aliases { aliases[key] = pair.after }
        for (row, pair) in delta.counts { counts[row] = pair.after }
    }

    /// Takes a change back.
    mutating func undo(_ delta: StateDelta) {
        for (row, pair) in delta.rows { rows[row] = pair.before.map(RowState.init) }
        for (row, pair) in delta.tombs { tombs[row] = pair.before.map(Tomb.init) }
        for (key, pair) in delta.aliases { aliases[key] = pair.before }
        for (row, pair) in delta.counts { counts[row] = pair.before }
    }
}
