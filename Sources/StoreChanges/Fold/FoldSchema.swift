/// The schema as the fold uses it: which rows can clash, and which columns refer to which rows.
///
/// It's a class, as its tables are, because the fold passes both on all the time. Only its initializer writes them.
package final class FoldSchema {
    /// A table, and how other tables refer to it.
    final class Table {
        let schema: TableSchema
        /// All columns that are stored, in ascending order of their names.
        let columns: [String]
        let keyColumns: Set<String>
        /// How an index compares text in the columns of a natural key.
        let keyCollations: [String: Collation]
        /// The columns outside the key, in ascending order of their names.
        let valueColumns: [String]
        /// Where each of them is.
        let valueIndexes: [String: Int]
        /// The encoded defaults of these columns.
        let encodedDefaults: [[UInt8]]
        /// What columns hold in rows that were inserted without them, where that isn't `NULL`.
        let defaults: [String: Cell]
        /// The table's unique indexes, then the ones of earlier schemas.
        let uniques: [Unique]
        fileprivate(set) var references: [Reference] = []
        /// The references of this and other tables to this one.
        fileprivate(set) var incoming: [ReferenceID] = []
        /// Unique columns outside the key to which references lead, in ascending order: their former values become aliases.
        fileprivate(set) var referencedColumns: [[String]] = []
        /// Columns that one `CHECK` names together, directly or through others.
        let checkGroups: [Set<String>]
        /// How the keys are made by which rows are found.
        fileprivate(set) var plans = LookupKeyPlans()
        /// The tables to whose rows the references of a row lead, of those rows, and so on.
        fileprivate(set) var ancestors: Set<String> = []

        init(_ table: TableSchema, earlier: [UniqueIndex], defaults: [String: Cell]) {
            schema = table
            self.defaults = defaults
            let names = table.columns.map(\.name)
            columns = names.sorted { $0.precedes($1) }
            keyColumns = Set(table.key.columns)
            let valueColumns = table.valueColumns
            self.valueColumns = valueColumns
            valueIndexes = Dictionary(uniqueKeysWithValues: zip(valueColumns, valueColumns.indices))
            encodedDefaults = valueColumns.map { (defaults[$0] ?? .null).encoded }
            let present = table.uniques.map { Unique($0, of: table, isPresent: true) }
            let former = earlier.map { Unique($0, of: table, isPresent: false) }
            uniques = present.sorted { $0.precedes($1) } + former.sorted { $0.precedes($1) }
            keyCollations = table.keyCollations
            checkGroups = FoldSchema.groups(table.checks.map(\.columns))
        }

        /// What a column holds in place of a value that an older schema allowed: its default in place of a `NULL` that it refuses.
        func stored(_ cell: Cell, in column: String) -> Cell {
            guard cell.isNull, schema.column(column)?.isNotNull == true else { return cell }
            return defaults[column] ?? cell
        }

        /// How SQLite converts what is written to a column.
        func affinity(of column: String) -> Affinity { schema.column(column)?.affinity ?? .blob }
    }

    /// A unique index.
    struct Unique: Sendable {
        let index: UniqueIndex
        let description: SchemaDescription.Unique
        /// The columns that decide whether two rows clash.
        let columns: Set<String>
        /// Its position in the total order of repairs.
        let sortName: String
        /// Whether clashing rows move to the end of their list.
        let isPosition: Bool
        /// Whether the schema has the index, and not only an earlier one.
        let isPresent: Bool

        fileprivate init(_ index: UniqueIndex, of table: TableSchema, isPresent: Bool) {
            self.index = index
            description = SchemaDescription.Unique(index)
            self.isPresent = isPresent
            columns = index.namedColumns(of: table)
            sortName = FoldSchema.sortName(columns, index.condition)
            isPosition = table.isPosition(index)
        }

        /// Keys name an index by its position, so the order is the same on every device and in every process.
        fileprivate func precedes(_ other: Self) -> Bool {
            sortName == other.sortName
                ? description.encoded.lexicographicallyPrecedes(other.description.encoded)
                : sortName.precedes(other.sortName)
        }
    }

    /// A foreign key to a table that synchronizes.
    struct Reference: Sendable {
        let key: ForeignKey
        let parent: String
        /// How the parent's columns compare with this reference's.
        let parentColumns: [ColumnSchema]
        let sortName: String
    }

    /// A reference among those of a table.
    struct ReferenceID: Hashable, Sendable {
        let table: String
        let index: Int
    }

    private(set) var tables: [String: Table] = [:]
    private let schema: StoreSchema
    let description: SchemaDescription
    /// Earlier schemas with other constraints, by which sets are still folded.
    let earlier: [EarlierSchema]
    private let rowColumns: RowColumns
    /// The foreign keys of tables that don't synchronize.
    let unsynchronizedReferences: [UnsynchronizedReference]
    /// What SQLite evaluates: expressions of indexes, and constraints.
    let evaluator: any ExpressionEvaluator

    /// Prepares a schema.
    ///
    /// - Parameters:
    ///   - schema: The tables that synchronize.
    ///   - earlier: Earlier schemas with other constraints, by which sets are still folded.
    ///   - evaluator: Evaluates the expressions of their indexes and constraints.
    package init(
        _ schema: StoreSchema,
        earlier: [SchemaDescription] = [],
        evaluator: any ExpressionEvaluator = PlainEvaluator()
    ) {
        self.schema = schema
        self.earlier = earlier.map { EarlierSchema(digest: $0.digest, description: $0) }
        self.evaluator = evaluator
        description = SchemaDescription(schema)
        rowColumns = RowColumns(description)
        unsynchronizedReferences = schema.unsynchronizedReferences
        for table in schema.tables {
            let uniques = description.earlierUniques(of: table, in: earlier).compactMap { UniqueIndex($0) }
            let evaluated = uniques.filter { evaluator.canEvaluate($0, in: table) }
            tables[table.name] = Table(table, earlier: evaluated, defaults: evaluator.defaults(of: table))
        }
        for table in schema.tables { link(table, schema) }
        for table in tables.values { table.plans = plans(of: table) }
        for table in tables.values { table.ancestors = ancestors(of: table) }
    }

    /// The same schema, prepared for sets of other earlier schemas.
    func with(earlier: [SchemaDescription]) -> FoldSchema {
        FoldSchema(schema, earlier: earlier, evaluator: evaluator)
    }

    private func ancestors(of table: Table) -> Set<String> {
        var found: Set<String> = []
        var searched = [table]
        while let table = searched.popLast() {
            for reference in table.references where found.insert(reference.parent).inserted {
                if let parent = tables[reference.parent] { searched.append(parent) }
            }
        }
        return found
    }

    private func link(_ table: TableSchema, _ schema: StoreSchema) {
        let references = table.references.compactMap { key -> Reference? in
            guard let parent = schema.table(key.parent), key.parentColumns.count == key.columns.count else {
                return nil
            }
            let parentColumns = key.parentColumns.compactMap { parent.column($0) }
            let columns = key.columns.compactMap { table.column($0)?.name }
            guard parentColumns.count == columns.count else { return nil }
            var key = key
            (key.columns, key.parentColumns) = (columns, parentColumns.map(\.name))
            return Reference(
                key: key,
                parent: parent.name,
                parentColumns: parentColumns,
                sortName: Self.sortName(Set(columns), parent.name)
            )
        }.sorted { $0.sortName.precedes($1.sortName) }
        tables[table.name]?.references = references
        for (index, reference) in references.enumerated() {
            tables[reference.parent]?.incoming.append(ReferenceID(table: table.name, index: index))
            let columns = reference.key.parentColumns.sorted { $0.precedes($1) }
            guard let parent = tables[reference.parent], columns != parent.schema.key.columns,
                !parent.referencedColumns.contains(columns)
            else { continue }
            tables[reference.parent]?.referencedColumns.append(columns)
        }
    }

    fileprivate static func sortName(_ columns: Set<String>, _ rest: String?) -> String {
        (columns.sorted { $0.precedes($1) } + [rest ?? ""]).joined(separator: "\0")
    }

    /// Joins the sets that have a column in common.
    fileprivate static func groups(_ checks: [Set<String>]) -> [Set<String>] {
        var groups: [Set<String>] = []
        for check in checks where check.count > 1 {
            let (joined, others) = (
                groups.filter { !$0.isDisjoint(with: check) }, groups.filter { $0.isDisjoint(with: check) }
            )
            groups = others + [joined.reduce(check) { $0.union($1) }]
        }
        return groups
    }

    /// The table whose rows have the numbers of a table's integer key: another one if the key is a reference itself.
    package func numberedTable(_ table: String) -> String {
        guard let key = tables[table]?.schema.key, case .integer(let column) = key else { return table }
        return rowTable(of: column, in: table) ?? table
    }

    /// Whether a table's key is an integer that differs between devices.
    func hasIntegerKey(_ table: String) -> Bool {
        if case .integer = tables[table]?.schema.key { true } else { false }
    }

    /// The table with an integer key to whose rows a column refers.
    package func rowTable(of column: String, in table: String) -> String? {
        rowColumns.table(of: column, in: table)
    }

    /// Whether a column refers to rows of another table than in a former schema; to refer to none differs too.
    func refersElsewhere(_ column: String, of table: String, since former: RowColumns) -> Bool {
        former.table(of: column, in: table) != rowTable(of: column, in: table)
    }

    /// Whether a cell of a former schema means the same in this one: the name of a row doesn't where the column isn't a
    /// reference any more, nor does the number of a row where it has become one.
    func hasSameMeaning(_ cell: Cell, in column: String, of table: String, since former: RowColumns) -> Bool {
        cell.isNull || !refersElsewhere(column, of: table, since: former)
    }

    func table(_ name: String) throws -> Table {
        guard let table = tables[name] else {
            throw StoreChangesError(
                .unsupportedFormat,
                "A change set names the table “\(name)”, which the schema doesn't have. Update the app on this device."
            )
        }
        return table
    }

    /// Checks that a change fits its table: its author may have made it up.
    ///
    /// - Parameter change: The change.
    /// - Throws: ``StoreChangesError`` with `corrupt`, or `unsupportedFormat` for an unknown table.
    func check(_ change: Change) throws {
        _ = try table(change.table)
        guard has(RowReference(change.table, change.row)) else {
            throw StoreChangesError(
                .corrupt,
                "A change set names a row of \(change.table) by another key than the table has. Update the app that made it."
            )
        }
    }

    // MARK: Rows

    /// Whether a row can exist: its table does, and has such keys.
    func has(_ row: RowReference) -> Bool {
        guard let table = tables[row.table] else { return false }
        return switch (row.row, table.schema.key) {
        case (.numbered, .integer): true
        case (.numbered, _), (.key, .integer): false
        case (.key(let cells), .none): cells.count == table.columns.count
        case (.key(let cells), .meaningful), (.key(let cells), .natural):
            cells.count == table.columns.count || cells.count == table.keyColumns.count && !cells.contains(.null)
        }
    }

    /// Whether a row has no key, so that equal ones are counted.
    package func isCounted(_ row: RowReference) -> Bool {
        guard case .key(let cells) = row.row, let table = tables[row.table] else { return false }
        return table.schema.key == .none || cells.count != table.keyColumns.count || cells.contains(.null)
    }

    /// What a column of a row holds.
    func cell(_ column: String, of row: RowReference, _ state: StoredRow) -> Cell {
        if let cell = state.cell(column) { return cell }
        let table = state.table
        switch row.row {
        case .numbered: return table.keyColumns.contains(column) ? .row(row.row) : .null
        case .key(let cells):
            let columns =
                cells.count == table.schema.key.columns.count && !isCounted(row)
                ? table.schema.key.columns : table.columns
            guard let index = columns.firstIndex(of: column), cells.indices.contains(index) else { return .null }
            return cells[index]
        }
    }

    /// All cells of a row by the names of their columns.
    func cells(of row: RowReference, _ state: StoredRow) -> [String: Cell] {
        Dictionary(uniqueKeysWithValues: state.table.columns.map { ($0, cell($0, of: row, state)) })
    }

    /// Whether a column belongs to a table's key.
    func isKey(_ column: String, of table: String) -> Bool { tables[table]?.keyColumns.contains(column) ?? false }

    /// The name of a row with these cells.
    ///
    /// - Parameters:
    ///   - cells: All cells.
    ///   - row: The row's former name.
    /// - Returns: The name; the former one for a row whose integer key isn't a reference.
    func name(of cells: [String: Cell], in row: RowReference) -> RowName {
        guard let table = tables[row.table] else { return row.row }
        switch row.row {
        case .numbered:
            guard let column = table.schema.key.columns.first, case .row(let name) = cells[column] else {
                return row.row
            }
            return name
        case .key:
            let columns = isCounted(row) ? table.columns : table.schema.key.columns
            return .key(columns.map { cells[$0] ?? .null })
        }
    }

    /// The name of a row without a key, whose cells a former schema had under other columns.
    ///
    /// - Parameters:
    ///   - cells: The row's cells.
    ///   - columns: Their columns.
    ///   - table: The table as it is now.
    ///   - former: What the columns referred to.
    /// - Returns: The name; new columns, and those whose cells mean nothing any more, hold their defaults.
    func nameOfCounted(
        _ cells: [Cell],
        of columns: [String],
        in table: Table,
        since former: RowColumns
    ) -> RowName {
        let kept = zip(columns, cells).filter {
            hasSameMeaning($1, in: $0, of: table.schema.name, since: former)
        }
        let named = Dictionary(kept) { first, _ in first }
        return .key(table.columns.map { named[$0] ?? table.defaults[$0] ?? .null })
    }

    /// The representative of all aliases whose values SQLite takes for equal.
    func representative(_ key: AliasKey) -> AliasKey {
        var key = key
        key.cells = zip(key.columns, key.cells).map { column, cell in
            cell.representative(tables[key.table]?.schema.column(column)?.collation ?? .binary)
        }
        return key
    }

    /// The name as a former value that leads to another row.
    func aliasKey(of row: RowReference) -> AliasKey {
        let columns = tables[row.table]?.schema.key.columns ?? []
        return switch row.row {
        case .numbered: AliasKey(table: row.table, columns: columns, cells: [.row(row.row)])
        case .key(let cells): AliasKey(table: row.table, columns: columns, cells: cells)
        }
    }
}

extension TableSchema {
    /// How an index compares text in the columns of a natural key: as bytes, if one of several indexes does.
    fileprivate var keyCollations: [String: Collation] {
        let indexes = uniques.filter { $0.condition == nil && Set($0.columns ?? []) == Set(key.columns) }
        let binary = indexes.first { $0.terms.allSatisfy { $0.collation == .binary } }
        let terms = (binary ?? indexes.first)?.terms ?? []
        let pairs = terms.compactMap { term in term.column.map { ($0, term.collation) } }
        return Dictionary(pairs) { first, _ in first }
    }
}

extension UniqueIndex {
    /// The stored columns on which its terms and its condition depend.
    fileprivate func namedColumns(of table: TableSchema) -> Set<String> {
        let expressions = terms.filter { $0.column == nil }.map(\.expression) + (condition.map { [$0] } ?? [])
        let named = expressions.flatMap { SQLTokens($0).tokens.compactMap(\.name) }
        return table.storedColumns(named: terms.compactMap(\.column) + named)
    }
}
