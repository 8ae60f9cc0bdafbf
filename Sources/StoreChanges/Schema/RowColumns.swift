/// The columns of a schema that refer to integer keys, directly or through a parent's column that does.
struct RowColumns {
    private let schema: SchemaDescription
    /// The references of each table that name existing columns, in an order that is the same everywhere.
    private let references: [String: [SchemaDescription.Reference]]
    /// For each such column, by table and name, the table whose rows it holds.
    private var targets: [String: [String: String]] = [:]
    /// The tables whose integer keys refer to each other: no table's rows give the others their names.
    private(set) var unnamedTables: Set<String> = []

    init(_ schema: SchemaDescription) {
        self.schema = schema
        references = schema.tables.mapValues { schema.references(of: $0) }
        let tables = schema.tables.keys.sorted { $0.precedes($1) }
        var changed = true
        while changed {
            changed = false
            for name in tables {
                for reference in references[name] ?? [] {
                    for (column, parentColumn) in zip(reference.columns, reference.parentColumns)
                    where targets[name]?[column] == nil {
                        guard let target = target(of: parentColumn, in: reference.parent) else { continue }
                        targets[name, default: [:]][column] = target
                        changed = true
                    }
                }
            }
        }
        unnamedTables = Set(
            schema.tables.compactMap { name, table in
                table.integerKey.flatMap { target(of: $0, in: name) == nil ? name : nil }
            }
        )
    }

    /// The table with an integer key to whose rows a column refers.
    func table(of column: String, in table: String) -> String? { targets[table]?[column] }

    /// The table whose rows have the values of a parent's column.
    private func target(of column: String, in table: String) -> String? {
        if let target = targets[table]?[column] { return target }
        guard schema.tables[table]?.integerKey == column else { return nil }
        // A key that refers to another integer key has that one's rows, once they are found.
        let isReference = (references[table] ?? []).contains {
            $0.columns == [column] && $0.parent != table
                && $0.parentColumns.first == schema.tables[$0.parent]?.integerKey
        }
        return isReference ? nil : table
    }

    /// A column whose values can't be of the same rows on all devices.
    struct AmbiguousColumn {
        let name: String
        /// The tables to which it refers, in ascending order of their names.
        let parents: [String]
        /// The tables whose rows its values are, in ascending order of their names.
        let numberedTables: [String]
    }

    /// The first column of a table that would hold rows of two tables, or rows and other values; `nil` if there is none.
    func ambiguousColumn(of table: String) -> AmbiguousColumn? {
        let references = references[table] ?? []
        let columns = Set(references.flatMap(\.columns)).sorted { $0.precedes($1) }
        return columns.lazy.compactMap { column in
            let parents = references.flatMap { reference in
                zip(reference.columns, reference.parentColumns).filter { $0.0 == column }
                    .map { (table: reference.parent, column: $0.1) }
            }
            var targets = Set(parents.map { target(of: $0.column, in: $0.table) })
            // An integer key has its own table's rows besides.
            if column == schema.tables[table]?.integerKey { targets.insert(target(of: column, in: table)) }
            guard targets.count > 1 else { return nil }
            return AmbiguousColumn(
                name: column,
                parents: Set(parents.map(\.table)).sorted { $0.precedes($1) },
                numberedTables: targets.compactMap(\.self).sorted { $0.precedes($1) }
            )
        }.first
    }
}

extension SchemaDescription {
    fileprivate func references(of table: Table) -> [Reference] {
        let columns = table.columns
        return table.references.filter { reference in
            reference.columns.count == reference.parentColumns.count
                && reference.columns.allSatisfy { columns[$0] != nil }
                && reference.parentColumns.allSatisfy { tables[reference.parent]?.columns[$0] != nil }
        }.sorted { $0.sortName.precedes($1.sortName) }
    }
}

extension SchemaDescription.Table {
    /// The column with integers that differ between devices; `nil` if the table has none.
    fileprivate var integerKey: String? { keyKind == 1 ? keyColumns.first : nil }
}

extension SchemaDescription.Reference {
    fileprivate var sortName: String {
        (columns.sorted { $0.precedes($1) } + [parent] + parentColumns).joined(separator: "\0")
    }
}
