/// What the fold of one set changed: each item as it was, and as it is.
///
/// Undoing a set puts the former items back; redoing it puts the present ones.
package struct StateDelta: Sendable {
    /// An item before and after; `nil` where it doesn't exist.
    package struct Pair<Item: Hashable & Sendable>: Hashable, Sendable {
        package var before: Item?
        package var after: Item?
    }

    package var rows: [RowReference: Pair<RowState>] = [:]
    package var tombs: [RowReference: Pair<Tomb>] = [:]
    package var aliases: [AliasKey: Pair<Alias>] = [:]
    package var counts: [RowReference: Pair<Int>] = [:]

    package init() {}

    /// The change that takes this one back.
    package var inverse: StateDelta {
        var inverse = StateDelta()
        inverse.rows = rows.mapValues { Pair(before: $0.after, after: $0.before) }
        inverse.tombs = tombs.mapValues { Pair(before: $0.after, after: $0.before) }
        inverse.aliases = aliases.mapValues { Pair(before: $0.after, after: $0.before) }
        inverse.counts = counts.mapValues { Pair(before: $0.after, after: $0.before) }
        return inverse
    }
}

extension StateContent {
    /// Carries out a change.
    package mutating func apply(_ delta: StateDelta) {
        for (row, pair) in delta.rows { rows[row] = pair.after }
        for (row, pair) in delta.tombs { tombs[row] = pair.after }
        for (key, pair) in delta.aliases { aliases[key] = pair.after }
        for (row, pair) in delta.counts { counts[row] = pair.after }
    }
}

/// Reads a state in memory by looking at all of it.
package struct StateContentReader: StateReader {
    package let content: StateContent
    private let schema: FoldSchema

    package init(_ content: StateContent, _ schema: FoldSchema) {
        self.content = content
        self.schema = schema
    }

    package func row(_ row: RowReference) -> RowState? { content.rows[row] }
    package func tomb(_ row: RowReference) -> Tomb? { content.tombs[row] }
    package func count(_ row: RowReference) -> Int? { content.counts[row] }
    package func alias(_ key: AliasKey) -> Alias? { content.aliases[key] }

    package func aliases(leadingTo row: RowReference) -> [AliasKey] {
        content.aliases.filter { $0.key.table == row.table && $0.value.row == row.row }.map(\.key)
    }

    package func aliases(like representative: AliasKey) -> [AliasKey] {
        content.aliases.keys.filter { schema.representative($0) == representative }
    }

    package func rows(with key: LookupKey) throws -> [RowName] {
        let rows = content.rows.map { ($0.key, $0.value) } + content.counts.keys.map { ($0, .counted) }
        return try rows.filter { try $0.0.table == key.table && schema.lookupKeys(of: $0.0, $0.1).contains(key) }
            .map(\.0.row)
    }

    package func tombs(with key: LookupKey) -> [RowName] {
        content.tombs.filter { $0.key.table == key.table && schema.tombKeys(of: $0.key, $0.value.row).contains(key) }
            .map(\.key.row)
    }
}

extension RowState {
    /// The state of a row without a key: its name has all of its cells.
    package static let counted = RowState(cells: [:], inserters: [])
}
