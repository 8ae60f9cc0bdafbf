/// What the fold of one set changed: each item as it was, and as it is.
///
/// Undoing a set puts the former items back.
package struct StateDelta {
    /// An item before and after; `nil` where it doesn't exist.
    struct Pair<Item: Equatable> {
        var before: Item?
        var after: Item?

        var isChange: Bool { before != after }
    }

    /// A changed item.
    typealias Changed<Key, Item: Equatable> = (key: Key, pair: Pair<Item>)

    /// Rows with a key, in the order in which they probably are in a store.
    var rows: [Changed<RowReference, StoredRow>] = []
    var tombs: [Changed<RowReference, StoredTomb>] = []
    var aliases: [Changed<AliasKey, Alias>] = []
    var counts: [Changed<RowReference, Int>] = []
}

extension StateContent {
    /// Carries out a change.
    package mutating func apply(_ delta: StateDelta) {
        for (row, pair) in delta.rows { rows[row] = pair.after.map(RowState.init) }
        for (row, pair) in delta.tombs { tombs[row] = pair.after.map(Tomb.init) }
        for (key, pair) in delta.aliases { aliases[key] = pair.after }
        for (row, pair) in delta.counts { counts[row] = pair.after }
    }

    /// Takes a change back.
    package mutating func undo(_ delta: StateDelta) {
        for (row, pair) in delta.rows { rows[row] = pair.before.map(RowState.init) }
        for (row, pair) in delta.tombs { tombs[row] = pair.before.map(Tomb.init) }
        for (key, pair) in delta.aliases { aliases[key] = pair.before }
        for (row, pair) in delta.counts { counts[row] = pair.before }
    }
}

extension RowState {
    init(_ row: StoredRow) { self.init(cells: row.cells, inserters: row.inserters) }
}

extension Tomb {
    init(_ tomb: StoredTomb) { self.init(row: RowState(tomb.row), deleters: tomb.deleters) }
}

/// Reads a state in memory by looking at all of it.
package struct StateContentReader: StateReader {
    private let content: StateContent
    private let schema: FoldSchema

    package init(_ content: StateContent, _ schema: FoldSchema) {
        self.content = content
        self.schema = schema
    }

    private func stored(_ row: RowState, of table: String) -> StoredRow? {
        schema.tables[table].map { StoredRow($0, row.cells, inserters: row.inserters) }
    }

    package func row(_ row: RowReference) -> StoredRow? { content.rows[row].flatMap { stored($0, of: row.table) } }

    package func tomb(_ row: RowReference) -> StoredTomb? {
        content.tombs[row].flatMap { tomb in
            stored(tomb.row, of: row.table).map { StoredTomb(row: $0, deleters: tomb.deleters) }
        }
    }

    package func count(_ row: RowReference) -> Int? { content.counts[row] }
    package func alias(_ key: AliasKey) -> Alias? { content.aliases[key] }
    package func hasAliases(_ table: String) -> Bool { content.aliases.keys.contains { $0.table == table } }

    package func aliases(leadingTo row: RowReference) -> [AliasKey] {
        content.aliases.filter { $0.key.table == row.table && $0.value.row == row.row }.map(\.key)
    }

    package func aliases(like representative: AliasKey) -> [AliasKey] {
        content.aliases.keys.filter { schema.representative($0) == representative }
    }

    package func rows(with key: LookupKey) throws -> [RowName] {
        let table = try schema.table(key.table)
        let rows =
            content.rows.keys.compactMap { row in self.row(row).map { (row, $0) } }
            + content.counts.keys.map { ($0, StoredRow(countedIn: table)) }
        return try rows.filter { try $0.0.table == key.table && schema.lookupKeys(of: $0.0, $0.1).contains(key) }
            .map(\.0.row)
    }

    package func clashes(in unique: Int, of table: String) -> [RowName] {
        (Array(content.rows.keys) + content.counts.keys).filter { $0.table == table }.map(\.row)
    }

    package func tombs(with key: LookupKey) -> [RowName] {
        content.tombs.keys.filter { row in
            row.table == key.table
                && tomb(row).map { schema.tombKeys(of: row, $0.row).contains(key) } ?? false
        }.map(\.row)
    }
}
