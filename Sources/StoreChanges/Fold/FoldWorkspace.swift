/// The state while a set is folded: what the set changed so far, over the state before.
struct FoldWorkspace {
    let base: any StateReader
    let schema: FoldSchema

    private var rows = Layer<RowReference, StoredRow>()
    private var tombs = Layer<RowReference, StoredTomb>()
    private var aliases = Layer<AliasKey, Alias>()
    private var counts = Layer<RowReference, Int>()
    /// How the keys of rows and tombs differ from the base.
    private var keys = KeyChanges()
    private var tombKeys = KeyChanges()
    private var aliasKeys: [RowReference: Set<AliasKey>] = [:]
    private var aliasesByValue: [AliasKey: Set<AliasKey>] = [:]
    /// Whether former values may lead to rows of a table.
    private var aliasTables: [String: Bool] = [:]

    init(_ base: any StateReader, _ schema: FoldSchema) {
        self.base = base
        self.schema = schema
    }

    /// Items that were read or changed.
    private struct Layer<Key: Hashable, Item: Equatable> {
        private(set) var items: [Key: StateDelta.Pair<Item>] = [:]

        mutating func read(_ key: Key, _ item: @autoclosure () throws -> Item?) rethrows -> Item? {
            if let pair = items[key] { return pair.after }
            let item = try item()
            items[key] = StateDelta.Pair(before: item, after: item)
            return item
        }

        mutating func reserveCapacity(_ count: Int) { items.reserveCapacity(count) }

        /// The item must have been read.
        mutating func write(_ key: Key, _ item: Item?) { items[key]?.after = item }

        func before(_ key: Key) -> Item? { items[key]?.before }
        func isChanged(_ key: Key) -> Bool { items[key]?.isChange ?? false }

        var changes: [StateDelta.Changed<Key, Item>] {
            items.compactMap { $0.value.isChange ? (key: $0.key, pair: $0.value) : nil }
        }

        var changedKeys: [Key] { items.compactMap { $0.value.isChange ? $0.key : nil } }
    }

    /// The keys that rows have lost, and the keys that they have gained.
    private struct KeyChanges {
        private var added: [LookupKey: Set<RowName>] = [:]
        private var removed: [LookupKey: Set<RowName>] = [:]

        mutating func remove(_ key: LookupKey, of name: RowName) {
            if added[key]?.remove(name) == nil { removed[key, default: []].insert(name) }
        }

        mutating func add(_ key: LookupKey, of name: RowName) {
            if removed[key]?.remove(name) == nil { added[key, default: []].insert(name) }
        }

        /// The names that have a key now, in ascending order.
        func names(_ key: LookupKey, _ base: [RowName]) -> [RowName] {
            let removed = removed[key] ?? []
            let kept = removed.isEmpty ? base : base.filter { !removed.contains($0) }
            let names = kept + (added[key] ?? [])
            guard names.count > 1 else { return names }
            // To compare two names means to encode both.
            let encoded = names.map { (name: $0, bytes: $0.encoded) }
            return encoded.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }.map(\.name)
        }
    }

    /// Makes room for rows that will be read.
    mutating func reserveCapacity(_ count: Int) { rows.reserveCapacity(count) }

    /// What has changed.
    var delta: StateDelta {
        StateDelta(
            rows: rows.changes.sorted { $0.key.comesBefore($1.key) },
            tombs: tombs.changes,
            aliases: aliases.changes,
            counts: counts.changes
        )
    }

    // MARK: Rows

    /// Returns a row; also those without a key that occur at least once.
    mutating func row(_ row: RowReference) throws -> StoredRow? {
        if schema.isCounted(row) {
            return try count(row) > 0 ? StoredRow(countedIn: schema.table(row.table)) : nil
        }
        let base = base
        return try rows.read(row, base.row(row))
    }

    /// Writes or removes a row with a key, without any further consequence.
    ///
    /// - Returns: The keys by which the row isn't found any more.
    @discardableResult
    mutating func write(_ row: RowReference, _ state: StoredRow?) throws -> [LookupKey] {
        let lost = try index(row, from: self.row(row), to: state)
        rows.write(row, state)
        return lost
    }

    private mutating func index(
        _ row: RowReference,
        from former: StoredRow?,
        to state: StoredRow?
    ) throws -> [LookupKey] {
        let (lost, gained) = try schema.changedKeys(of: row, from: former, to: state)
        for key in lost { keys.remove(key, of: row.row) }
        for key in gained { keys.add(key, of: row.row) }
        return lost
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
        let counted = StoredRow(countedIn: try schema.table(row.table))
        _ = try index(row, from: former > 0 ? counted : nil, to: count > 0 ? counted : nil)
        counts.write(row, count > 0 ? count : nil)
    }

    /// Returns the rows that have a key, in ascending order of their names.
    func rows(with key: LookupKey) throws -> [RowReference] {
        // Most references lead to a row by its name, which was read already if the set touched it.
        if let name = schema.name(in: key), let known = rows.items[RowReference(key.table, name)] {
            return known.after == nil ? [] : [RowReference(key.table, name)]
        }
        return try keys.names(key, base.rows(with: key)).map { RowReference(key.table, $0) }
    }

    // MARK: Tombs

    mutating func tomb(_ row: RowReference) throws -> StoredTomb? {
        let base = base
        return try tombs.read(row, base.tomb(row))
    }

    mutating func formerTomb(_ row: RowReference) throws -> StoredTomb? {
        _ = try tomb(row)
        return tombs.before(row)
    }

    mutating func write(_ row: RowReference, tomb: StoredTomb?) throws {
        if let former = try self.tomb(row) {
            for key in schema.tombKeys(of: row, former.row) { tombKeys.remove(key, of: row.row) }
        }
        if let tomb {
            for key in schema.tombKeys(of: row, tomb.row) { tombKeys.add(key, of: row.row) }
        }
        tombs.write(row, tomb)
    }

    /// Returns the deleted rows to which a reference would lead, in ascending order of their names.
    func tombs(with key: LookupKey) throws -> [RowReference] {
        try tombKeys.names(key, base.tombs(with: key)).map { RowReference(key.table, $0) }
    }

    // MARK: Aliases

    /// Whether former values may lead to rows of a table.
    mutating func hasAliases(_ table: String) throws -> Bool {
        if let known = aliasTables[table] { return known }
        let hasAliases = try base.hasAliases(table)
        aliasTables[table] = hasAliases
        return hasAliases
    }

    /// Whether references of a table's rows may be led, directly or through the rows to which they lead.
    mutating func leadsReferences(of table: FoldSchema.Table) throws -> Bool {
        for ancestor in table.ancestors where try hasAliases(ancestor) { return true }
        return false
    }

    mutating func alias(_ key: AliasKey) throws -> Alias? {
        guard try hasAliases(key.table) else { return nil }
        let base = base
        return try aliases.read(key, base.alias(key))
    }

    mutating func write(_ key: AliasKey, _ alias: Alias?) throws {
        guard try alias != nil || hasAliases(key.table) else { return }
        aliasTables[key.table] = true
        if let former = try self.alias(key) { aliasKeys[RowReference(key.table, former.row)]?.remove(key) }
        if let alias { aliasKeys[RowReference(key.table, alias.row), default: []].insert(key) }
        aliasesByValue[schema.representative(key), default: []].insert(key)
        aliases.write(key, alias)
    }

    mutating func aliases(leadingTo row: RowReference) throws -> [AliasKey] {
        guard try hasAliases(row.table) else { return [] }
        let written = aliasKeys[row] ?? []
        let untouched = try base.aliases(leadingTo: row).filter { !aliases.isChanged($0) }
        return written.union(untouched).sorted { $0.encoded.lexicographicallyPrecedes($1.encoded) }
    }

    /// Returns the aliases whose values SQLite takes for equal to these.
    mutating func aliases(like key: AliasKey) throws -> [AliasKey] {
        guard try hasAliases(key.table) else { return [] }
        let representative = schema.representative(key)
        let like = (aliasesByValue[representative] ?? []).union(try base.aliases(like: representative))
        return try like.filter { try alias($0) != nil }.sorted { $0.encoded.lexicographicallyPrecedes($1.encoded) }
    }

    /// The rows of tables with aliases that were changed.
    mutating func changedRowsWithAliases() throws -> [RowReference] {
        try (rows.changedKeys + counts.changedKeys).filter { try hasAliases($0.table) }
    }

    /// The aliases that were changed.
    var changedAliases: [AliasKey] { aliases.changedKeys }
}
