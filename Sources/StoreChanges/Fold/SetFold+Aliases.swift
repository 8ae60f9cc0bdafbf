// Former values of keys, and of unique columns to which references lead.

extension SetFold {
    // MARK: Leading

    /// Returns the row that a name reaches, and whether its own name was a former one.
    ///
    /// A row that has the name goes before an alias. The alias may lead to a deleted row.
    mutating func lead(_ row: RowReference) throws -> (RowReference, wentThroughAlias: Bool) {
        guard !schema.isCounted(row) else { return (try leadKey(of: row), false) }
        if try work.row(row) != nil { return (row, false) }
        let led = try leadKey(of: row)
        if try led != row && work.row(led) != nil { return (led, false) }
        for name in [led, row] {
            if let alias = try work.alias(schema.aliasKey(of: name)) {
                return (RowReference(led.table, alias.row), true)
            }
        }
        return (led, false)
    }

    /// Leads the references in a row's name; the name of a row without a key has all of its cells.
    private mutating func leadKey(of row: RowReference) throws -> RowReference {
        let table = try schema.table(row.table)
        switch row.row {
        case .key(let cells):
            let columns = schema.isCounted(row) ? table.columns : table.schema.key.columns
            guard columns.count == cells.count else { return row }
            var named = Dictionary(uniqueKeysWithValues: zip(columns, cells))
            try lead(&named, in: row.table)
            return RowReference(row.table, .key(columns.map { named[$0] ?? .null }))
        case .numbered:
            // A key that is a reference itself follows the row to which it refers.
            guard let key = try referringKey(of: row.table) else { return row }
            var cells: [String: Cell] = [key: .row(row.row)]
            try lead(&cells, in: row.table)
            guard case .row(let name) = cells[key] else { return row }
            return RowReference(row.table, name)
        }
    }

    /// The integer key of a table if it is a reference.
    private func referringKey(of table: String) throws -> String? {
        guard case .integer(let column) = try schema.table(table).schema.key,
            try schema.table(table).references.contains(where: { $0.key.columns == [column] })
        else { return nil }
        return column
    }

    /// Leads the references among cells, as far as all their columns are there.
    ///
    /// A reference that finds a row, among those of the state or of this set, isn't led.
    mutating func lead(
        _ cells: inout [String: Cell],
        in table: String,
        except dangling: Set<String> = [],
        depth: Int = 0
    ) throws {
        guard try depth < Self.maximumSteps && work.leadsReferences(of: schema.table(table)) else { return }
        for _ in 0..<Self.maximumSteps {
            let former = cells
            for (index, reference) in try schema.table(table).references.enumerated()
            where dangling.isDisjoint(with: reference.key.columns) {
                try lead(&cells, FoldSchema.ReferenceID(table: table, index: index), reference, depth)
            }
            if cells == former { return }
        }
    }

    /// How many aliases a reference follows, one after the other: aliases of deleted rows may lead in a circle.
    private static let maximumSteps = 8

    private mutating func lead(
        _ cells: inout [String: Cell],
        _ id: FoldSchema.ReferenceID,
        _ reference: FoldSchema.Reference,
        _ depth: Int
    ) throws {
        let values = reference.key.columns.compactMap { cells[$0] }
        guard values.count == reference.key.columns.count, !values.contains(.null),
            let key = schema.parentKey(id, values: values),
            !ownKeys.contains(key), try work.rows(with: key).isEmpty
        else { return }
        let pairs = zip(reference.key.parentColumns, values).sorted { $0.0.precedes($1.0) }
        let former = AliasKey(table: reference.parent, columns: pairs.map(\.0), cells: pairs.map(\.1))
        var parent = Dictionary(pairs) { first, _ in first }
        if let target = try target(of: former) {
            guard let state = try work.row(target) ?? work.tomb(target)?.row else { return }
            parent = schema.cells(of: target, state)
        } else {
            try lead(&parent, in: reference.parent, depth: depth + 1)
        }
        let led = reference.key.parentColumns.map { parent[$0] ?? .null }
        // What the reference holds may be another spelling of the same value, and it stays as the author wrote it.
        guard !led.contains(.null), schema.parentKey(id, values: led) != key else { return }
        for (column, cell) in zip(reference.key.columns, led) { cells[column] = cell }
    }

    /// The row to which former values lead, compared as SQLite compares them if need be.
    private mutating func target(of key: AliasKey) throws -> RowReference? {
        if let alias = try work.alias(key) { return RowReference(key.table, alias.row) }
        var targets: [RowName] = []
        for like in try work.aliases(like: key) {
            if let alias = try work.alias(like) { targets.append(alias.row) }
        }
        return targets.min().map { RowReference(key.table, $0) }
    }

    // MARK: Making

    /// The values of unique columns of a row, by which references find it; `nil` if one is `NULL`.
    private func valueKey(_ columns: [String], of row: RowReference, _ state: StoredRow) -> AliasKey? {
        let cells = columns.map { schema.cell($0, of: row, state) }
        return cells.contains(.null) ? nil : AliasKey(table: row.table, columns: columns, cells: cells)
    }

    /// The values of unique columns that an update alone gives to a row that is out; `nil` if one is missing.
    private func valueKey(_ columns: [String], of row: RowReference, _ cells: [String: UpdatedCell]) -> AliasKey? {
        let values = columns.map { cells[$0]?.new ?? .null }
        return values.contains(.null) ? nil : AliasKey(table: row.table, columns: columns, cells: values)
    }

    /// Lets the former values of unique columns lead to a row that has others now.
    mutating func leaveAliases(of former: RowReference, _ formerState: StoredRow, at row: RowReference) throws {
        guard let state = try work.row(row) else { return }
        for columns in state.table.referencedColumns {
            guard let key = valueKey(columns, of: former, formerState), key != valueKey(columns, of: row, state) else {
                continue
            }
            try work.write(key, Alias(row: row.row, maker: header.id))
        }
    }

    /// Lets a row's name, and all that led to it, lead to another row.
    mutating func moveAliases(from former: RowReference, to row: RowReference) throws {
        let own = schema.aliasKey(of: row)
        try work.write(own, nil)
        for key in try work.aliases(leadingTo: former) {
            guard let alias = try work.alias(key) else { continue }
            try work.write(key, Alias(row: row.row, maker: alias.maker))
        }
        try work.write(schema.aliasKey(of: former), Alias(row: row.row, maker: header.id))
    }

    // MARK: Ending

    /// Ends the aliases whose values an author gives to a row although it knew the alias.
    mutating func endKnownAliases(_ changes: [Change]) throws {
        var ended = true
        while ended {
            ended = false
            for change in changes {
                for key in try writtenKeys(of: change) {
                    for like in try work.aliases(like: key) {
                        // Names are compared by their bytes.
                        let isName = like.columns == schema.tables[like.table]?.schema.key.columns
                        guard !isName || like == key, let alias = try work.alias(like), knows(alias.maker) else {
                            continue
                        }
                        try work.write(like, nil)
                        ended = true
                    }
                }
            }
        }
    }

    /// The names and values that a change gives to a row, as its author has them and led through aliases.
    private mutating func writtenKeys(of change: Change) throws -> [AliasKey] {
        let row = RowReference(change.table, change.row)
        let table = try schema.table(change.table)
        guard try work.hasAliases(change.table), !schema.isCounted(row) else { return [] }
        switch change.edit {
        case .delete: return []
        case .insert(let inserted):
            let state = StoredRow(table, inserted.cells)
            var led = schema.cells(of: row, state)
            try lead(&led, in: change.table)
            let ledRow = RowReference(row.table, schema.name(of: led, in: row))
            return [schema.aliasKey(of: row), schema.aliasKey(of: ledRow)]
                + table.referencedColumns.compactMap { valueKey($0, of: row, state) }
                + table.referencedColumns.compactMap { valueKey($0, of: ledRow, StoredRow(table, led)) }
        case .update(let cells):
            let written = table.referencedColumns.filter { columns in columns.contains { cells[$0] != nil } }
            guard !written.isEmpty else { return [] }
            guard var state = try work.row(row) else { return written.compactMap { valueKey($0, of: row, cells) } }
            state.write(cells.mapValues(\.new))
            return written.compactMap { valueKey($0, of: row, state) }
        }
    }

    /// Ends the aliases whose values a row has, after everything else.
    mutating func endTakenAliases() throws {
        for row in try work.changedRowsWithAliases() {
            guard let state = try work.row(row) else { continue }
            if !schema.isCounted(row) { try work.write(schema.aliasKey(of: row), nil) }
            for columns in try schema.table(row.table).referencedColumns {
                guard let key = valueKey(columns, of: row, state) else { continue }
                for like in try work.aliases(like: key) { try work.write(like, nil) }
            }
        }
        for key in work.changedAliases {
            let lookup = LookupKey(
                table: key.table,
                kind: .parent(key.columns),
                cells: schema.representative(key).cells
            )
            let rows = try work.rows(with: lookup)
            let isName = key.columns == schema.tables[key.table]?.schema.key.columns
            if isName ? rows.contains(where: { schema.aliasKey(of: $0) == key }) : !rows.isEmpty {
                try work.write(key, nil)
            }
        }
    }
}
