/// The state while a set is folded: what the set changed so far, over the state before.
struct FoldWorkspace {
    let base: any StateReader
    let schema: FoldSchema

    private var rows = Layer<RowReference, RowState>()
    private var tombs = Layer<RowReference, Tomb>()
    private var aliases = Layer<AliasKey, Alias>()
    private var counts = Layer<RowReference, Int>()
    /// The keys of the rows that were changed and exist.
    private var keys: [LookupKey: Set<RowName>] = [:]
    private var tombKeys: [LookupKey: Set<RowName>] = [:]
    private var aliasKeys: [RowReference: Set<AliasKey>] = [:]
    private var aliasesByValue: [AliasKey: Set<AliasKey>] = [:]

    init(_ base: any StateReader, _ schema: FoldSchema) {
        self.base = base
        self.schema = schema
    }

    /// Items that were read or changed.
    private struct Layer<Key: Hashable & Sendable, Item: Hashable & Sendable> {
        private(set) var items: [Key: StateDelta.Pair<Item>] = [:]

        mutating func read(_ key: Key, _ item: @autoclosure () throws -> Item?) rethrows -> Item? {
            if let pair = items[key] { return pair.after }
            let item = try item()
            items[key] = StateDelta.Pair(before: item, after: item)
            return item
        }

        /// The item must have been read.
        mutating func write(_ key: Key, _ item: Item?) { items[key]?.after = item }

        func before(_ key: Key) -> Item? { items[key]?.before }
        func isChanged(_ key: Key) -> Bool { items[key].map { $0.before != $0.after } ?? false }
        var changes: [Key: StateDelta.Pair<Item>] { items.filter { $0.value.before != $0.value.after } }
    }

    /// What has changed.
    var delta: StateDelta {
        var delta = StateDelta()
        delta.rows = rows.changes
        delta.tombs = tombs.changes
        delta.aliases = aliases.changes
        delta.counts = counts.changes
        return delta
    }

    // MARK: Rows

    /// Returns a row; also those without a key that occur at least once.
    mutating func row(_ row: RowReference) throws -> RowState? {
        if schema.isCounted(row) { return try count(row) > 0 ? .counted : nil }
        let base = base
        return try rows.read(row, base.row(row))
    }

    /// Writes or removes a row with a key, without any further consequence.
    mutating func write(_ row: RowReference, _ state: RowState?) throws {
        let former = try self.row(row)
        try index(row, from: former, to: state)
        rows.write(row, state)
    }

    private mutating func index(_ row: RowReference, from former: RowState?, to state: RowState?) throws {
        if let former { for key in try schema.lookupKeys(of: row, former) { keys[key]?.remove(row.row) } }
        if let state { for key in try schema.lookupKeys(of: row, state) { keys[key, default: []].insert(row.row) } }
    }

    /// Returns how often a row without a key occurs.
    mutating func count(_ row: RowReference) throws -> Int {
        let base = base
        return try counts.read(row, base.count(row)) ?? 0
    }

    /// How often a row occurred before the set.
    mutating func formerCount(_ row: RowReference) throws -> Int {
        _ = try count(row)
        return counts.before(row) ?? 0
    }

    mutating func setCount(_ row: RowReference, _ count: Int) throws {
        let former = try self.count(row)
        try index(row, from: former > 0 ? .counted : nil, to: count > 0 ? .counted : nil)
        counts.write(row, count > 0 ? count : nil)
    }

    /// Returns the rows that have a key, in ascending order of their names.
    mutating func rows(with key: LookupKey) throws -> [RowReference] {
        var names = keys[key] ?? []
        for name in try base.rows(with: key) {
            let row = RowReference(key.table, name)
            // Rows that were changed are in the index above.
            let isChanged = schema.isCounted(row) ? counts.isChanged(row) : rows.isChanged(row)
            if !isChanged { names.insert(name) }
        }
        return names.sorted().map { RowReference(key.table, $0) }
    }

    // MARK: Tombs

    mutating func tomb(_ row: RowReference) throws -> Tomb? {
        let base = base
        return try tombs.read(row, base.tomb(row))
    }

    mutating func formerTomb(_ row: RowReference) throws -> Tomb? {
        _ = try tomb(row)
        return tombs.before(row)
    }

    mutating func write(_ row: RowReference, tomb: Tomb?) throws {
        if let former = try self.tomb(row) {
            for key in schema.tombKeys(of: row, former.row) { tombKeys[key]?.remove(row.row) }
        }
        if let tomb {
            for key in schema.tombKeys(of: row, tomb.row) { tombKeys[key, default: []].insert(row.row) }
        }
        tombs.write(row, tomb)
    }

    /// Returns the deleted rows to which a reference would lead, in ascending order of their names.
    mutating func tombs(with key: LookupKey) throws -> [RowReference] {
        var names = tombKeys[key] ?? []
        for name in try base.tombs(with: key) {
            let row = RowReference(key.table, name)
            if !tombs.isChanged(row) { names.insert(name) }
        }
        return names.sorted().map { RowReference(key.table, $0) }
    }

    // MARK: Aliases

    mutating func alias(_ key: AliasKey) throws -> Alias? {
        let base = base
        return try aliases.read(key, base.alias(key))
    }

    mutating func write(_ key: AliasKey, _ alias: Alias?) throws {
        if let former = try self.alias(key) { aliasKeys[RowReference(key.table, former.row)]?.remove(key) }
        if let alias { aliasKeys[RowReference(key.table, alias.row), default: []].insert(key) }
        aliasesByValue[schema.representative(key), default: []].insert(key)
        aliases.write(key, alias)
    }

    mutating func aliases(leadingTo row: RowReference) throws -> [AliasKey] {
        let written = aliasKeys[row] ?? []
        let untouched = try base.aliases(leadingTo: row).filter { !aliases.isChanged($0) }
        return written.union(untouched).sorted { $0.encoded.lexicographicallyPrecedes($1.encoded) }
    }

    /// Returns the aliases whose values SQLite takes for equal to these.
    mutating func aliases(like key: AliasKey) throws -> [AliasKey] {
        let representative = schema.representative(key)
        let like = (aliasesByValue[representative] ?? []).union(try base.aliases(like: representative))
        return try like.filter { try alias($0) != nil }.sorted { $0.encoded.lexicographicallyPrecedes($1.encoded) }
    }

    /// The rows that were changed.
    var changedRows: [RowReference] { rows.changes.map(\.key) + counts.changes.map(\.key) }
    /// The aliases that were changed.
    var changedAliases: [AliasKey] { aliases.changes.map(\.key) }
}
