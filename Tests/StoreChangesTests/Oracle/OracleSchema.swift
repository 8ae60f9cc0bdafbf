import StoreChanges

/// The tables with all names of columns and tables written as they are declared, and what follows from them.
struct OracleSchema {
    /// The tables in the order of their names.
    let tables: [TableSchema]

    init(_ schema: StoreSchema) {
        tables = schema.tables.sorted { bytewise($0.name, $1.name) }.map { table in
            var table = table
            // References to tables that aren't synchronized are left alone.
            table.references = table.references.compactMap { Self.declared($0, of: table, in: schema) }
                .sorted { $0.sortedNames.lexicographicallyPrecedes($1.sortedNames, by: bytewise) }
            table.uniques = table.uniques.sorted {
                let (first, second) = ($0.orderedNames(of: table), $1.orderedNames(of: table))
                return first == second
                    ? bytewise($0.description, $1.description)
                    : first.lexicographicallyPrecedes(second, by: bytewise)
            }
            return table
        }
    }

    private static func declared(
        _ key: ForeignKey,
        of table: TableSchema,
        in schema: StoreSchema
    ) -> ForeignKey? {
        guard let parent = schema.table(key.parent) else { return nil }
        var declared = key
        declared.parent = parent.name
        declared.columns = key.columns.compactMap { table.column($0)?.name }
        declared.parentColumns = key.parentColumns.compactMap { parent.column($0)?.name }
        guard declared.columns.count == key.columns.count, declared.parentColumns.count == key.columns.count else {
            return nil
        }
        return declared
    }

    func table(_ name: String) throws -> TableSchema {
        guard let table = tables.first(where: { $0.name == name }) else { throw OracleError.unknownTable(name) }
        return table
    }

    /// The columns of a table, other than the key's, to which references of other tables or its own refer.
    func referencedColumns(of table: String) -> [[String]] {
        let keys = tables.flatMap(\.references).filter { $0.parent == table }
        let columns = Set(keys.map { $0.parentColumns.sorted(by: bytewise) })
        let key = tables.first { $0.name == table }?.key.columns ?? []
        return columns.filter { $0 != key }.sorted { $0.lexicographicallyPrecedes($1, by: bytewise) }
    }

    /// Whether a column holds names: it is an integer key, or refers to one directly or through other references.
    func holdsNames(_ column: String, of table: String, depth: Int = 0) -> Bool {
        guard let schema = tables.first(where: { $0.name == table }), depth < 8 else { return false }
        if schema.key == .integer(column: column) { return true }
        return schema.references.contains { key in
            zip(key.columns, key.parentColumns).contains {
                $0 == column && holdsNames($1, of: key.parent, depth: depth + 1)
            }
        }
    }
}

extension UniqueIndex {
    /// The columns or expressions, in ascending order.
    var sortedNames: [String] { terms.map { $0.column ?? $0.expression }.sorted(by: bytewise) }

    /// All columns that the index names, in ascending order, then its condition.
    fileprivate func orderedNames(of table: TableSchema) -> [String] {
        namedColumns(of: table).sorted(by: bytewise) + [condition ?? ""]
    }
}

extension ForeignKey {
    /// The columns in ascending order, then the parent.
    fileprivate var sortedNames: [String] { Set(columns).sorted(by: bytewise) + [parent] }
}

extension TableSchema {
    /// All columns, in ascending order of their names.
    var sortedColumns: [String] { columns.map(\.name).sorted(by: bytewise) }

    /// The cells of the key's columns, which a row's name has.
    func keyCells(of name: RowName) -> [String: Cell] {
        switch (key, name) {
        case (.integer(let column), _): [column: .row(name)]
        case (.meaningful, .key(let cells)), (.natural, .key(let cells)):
            Dictionary(zip(key.columns, cells)) { first, _ in first }
        default: [:]
        }
    }

    /// The name of a row with certain cells; `nil` if its key holds `NULL` or the table has none.
    func name(of image: [String: Cell]) -> RowName? {
        switch key {
        case .integer(let column):
            guard case .row(let name) = image[column] else { return nil }
            return name
        case .meaningful, .natural:
            let cells = key.columns.map { image[$0] ?? .value(.null) }
            return cells.contains(where: \.isNull) ? nil : .key(cells)
        case .none: return nil
        }
    }

    /// The name under which a row without a key is counted.
    func countedName(of image: [String: Cell]) -> RowName { .key(sortedColumns.map { image[$0] ?? .value(.null) }) }

    /// The cells of a counted row, by column.
    func countedImage(of name: RowName) -> [String: Cell] {
        guard case .key(let cells) = name else { return [:] }
        return Dictionary(zip(sortedColumns, cells)) { first, _ in first }
    }

    /// Whether a name is that of a counted row: the table has no key, or the key holds `NULL`.
    func isCounted(_ name: RowName) -> Bool {
        switch (key, name) {
        case (.none, _): return true
        case (.natural(let key), .key(let cells)) where cells.count == columns.count:
            let image = countedImage(of: name)
            return key.contains { image[$0]?.isNull == true }
        default: return false
        }
    }
}
