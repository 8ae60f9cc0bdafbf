import StoreChanges

/// A change with the row that it reaches.
struct ResolvedChange {
    var change: Change
    var target: RowReference
    /// Whether an alias of the row's own name led to the row, not only one of a reference in its key.
    var isThroughAlias: Bool
}

extension Oracle.Integration {
    // MARK: Aliases

    // "An insert under an alias by an author who had seen the set that made it ends the alias, before anything else."
    mutating func endAliasesOfKnowingInserts() {
        var count: Int
        repeat {
            count = content.aliases.count
            for change in set.changes {
                guard let written = writtenImage(of: change) else { continue }
                for image in written.images {
                    content.aliases = content.aliases.filter { key, alias in
                        key.table != change.table || !knows(alias.maker)
                            || written.columns.isDisjoint(with: key.columns)
                            || !isSame(key, image)
                    }
                }
            }
        } while content.aliases.count < count
    }

    /// What a change writes: the row's images, as its author has it and led through aliases, and the columns written.
    private func writtenImage(of change: Change) -> (images: [[String: Cell]], columns: Set<String>)? {
        let table = table(change.table)
        guard !table.isCounted(change.row) else { return nil }
        switch change.edit {
        case .delete: return nil
        case .insert(let row):
            let image = row.cells.merging(table.keyCells(of: change.row)) { _, key in key }
            return ([image, led(image, of: table)], Set(image.keys))
        case .update(let cells):
            let current = content.rows[RowReference(change.table, change.row)]?.cells ?? [:]
            return ([current.merging(cells.mapValues(\.new)) { _, new in new }], Set(cells.keys))
        }
    }

    // "[An alias] ends when a row takes the name."
    mutating func endAliasesOfTakenNames() {
        content.aliases = content.aliases.filter { key, _ in
            !entries(of: key.table).contains { isSame(key, $0.image) }
        }
    }

    /// Whether an image has the values of an alias: names are compared by their bytes, other values as SQLite does.
    private func isSame(_ key: AliasKey, _ image: [String: Cell]) -> Bool {
        let cells = key.columns.map { image[$0] ?? .value(.null) }
        let table = table(key.table)
        return key.columns == table.key.columns ? key.cells == cells : table.areEqual(key.cells, cells, in: key.columns)
    }

    /// The row to which former values lead.
    func aliased(_ table: String, _ columns: [String], _ cells: [Cell]) -> RowReference? {
        let pairs = zip(columns, cells).sorted { bytewise($0.0, $1.0) }
        let key = AliasKey(table: table, columns: pairs.map(\.0), cells: pairs.map(\.1))
        if let alias = content.aliases[key] { return RowReference(table, alias.row) }
        let schema = self.table(table)
        return content.aliases.filter {
            $0.key.table == table && $0.key.columns == key.columns
                && schema.areEqual($0.key.cells, key.cells, in: key.columns)
        }.map { RowReference(table, $0.value.row) }.min()
    }

    // MARK: Leading

    // "Keys and references are led through aliases (keys that contain references: through those)."
    //
    // A reference that finds its parent isn't led: neither one to a row, nor one to a row of this set.
    func led(
        _ image: [String: Cell],
        of table: TableSchema,
        except marked: Set<String> = [],
        depth: Int = 0
    ) -> [String: Cell] {
        guard depth < 8 else { return image }
        var image = image
        for _ in 0..<8 {
            let former = image
            for key in table.references where marked.isDisjoint(with: key.columns) {
                guard let cells = cells(of: key, in: image) else { continue }
                image.merge(led(key, cells, depth)) { _, new in new }
            }
            if image == former { break }
        }
        return image
    }

    /// The cells of one reference, by the columns that refer.
    private func led(_ key: ForeignKey, _ cells: [Cell], _ depth: Int) -> [String: Cell] {
        let isOwn = ownImages.contains { $0.row.table == key.parent && matches(key, cells, $0.image) }
        guard !isOwn, !hasParent(key, cells, in: content) else { return [:] }
        var parent: [String: Cell]
        if let target = aliased(key.parent, key.parentColumns, cells) {
            parent = image(target) ?? content.tombs[target].map { image(target, $0.row) } ?? [:]
        } else {
            parent = Dictionary(zip(key.parentColumns, cells)) { first, _ in first }
            parent = led(parent, of: table(key.parent), depth: depth + 1)
        }
        let found = key.parentColumns.map { parent[$0] ?? .value(.null) }
        // "Another spelling of the row's own value stays as it is."
        let isSame = table(key.parent).areEqual(found, cells, in: key.parentColumns)
        guard !found.contains(where: \.isNull), !isSame else { return [:] }
        return Dictionary(zip(key.columns, found)) { first, _ in first }
    }

    /// The row that a name reaches.
    func resolved(_ row: RowReference) -> (target: RowReference, isThroughAlias: Bool) {
        let schema = table(row.table)
        if schema.isCounted(row.row) {
            let image = led(schema.countedImage(of: row.row), of: schema)
            return (RowReference(row.table, schema.countedName(of: image)), false)
        }
        if content.rows[row] != nil { return (row, false) }
        let key = led(schema.keyCells(of: row.row), of: schema)
        let name = RowReference(row.table, schema.name(of: key) ?? row.row)
        if content.rows[name] != nil { return (name, false) }
        for name in [name, row] {
            let cells = schema.keyCells(of: name.row)
            let columns = schema.key.columns
            if let target = exactAlias(row.table, columns, columns.map { cells[$0] ?? .value(.null) }) {
                return (target, true)
            }
        }
        return (name, false)
    }

    /// Names are compared by their bytes, unlike the values of references.
    private func exactAlias(_ table: String, _ columns: [String], _ cells: [Cell]) -> RowReference? {
        content.aliases[AliasKey(table: table, columns: columns, cells: cells)].map { RowReference(table, $0.row) }
    }

    // MARK: Changes

    /// The changes in the order of their application within deletes, updates and inserts, each with its row.
    mutating func resolvedChanges(_ changes: [Change]) -> [ResolvedChange] {
        let sorted = changes.sorted { RowReference($0.table, $0.row) < RowReference($1.table, $1.row) }
        // The rows that the set makes decide which references are led, and with them which rows it makes.
        for _ in 0..<2 { ownImages = sorted.compactMap(ownImage) }
        return sorted.map { change in
            let (target, isThroughAlias) = resolved(RowReference(change.table, change.row))
            return ResolvedChange(change: change, target: target, isThroughAlias: isThroughAlias)
        }
    }

    private func ownImage(of change: Change) -> Entry? {
        let target = resolved(RowReference(change.table, change.row)).target
        let table = table(change.table)
        let isCounted = table.isCounted(change.row)
        switch change.edit {
        case .delete: return nil
        case .insert where isCounted:
            return Entry(row: target, image: table.countedImage(of: target.row), isCounted: true)
        case .insert(let row):
            let image = row.cells.merging(table.keyCells(of: target.row)) { _, key in key }
            return Entry(row: target, image: image, isCounted: false)
        case .update(let cells):
            guard let current = image(target) else { return nil }
            let image = current.merging(cells.mapValues(\.new)) { _, new in new }
            return Entry(row: target, image: image, isCounted: false)
        }
    }
}
