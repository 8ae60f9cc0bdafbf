/// A schema as devices compare it: by names, whatever the order in which tables and columns were declared.
///
/// It has what merging depends on: keys, columns, unique indexes, foreign keys and `CHECK` constraints.
public struct SchemaDescription: Hashable, Sendable {
    /// A table.
    struct Table: Hashable, Sendable {
        /// How rows are named: 0 without a key, 1 by an integer, 2 by an integer with a meaning, 3 by other columns.
        var keyKind: UInt8 = 0
        var keyColumns: [String] = []
        var columns: [String: Column] = [:]
        var uniques: Set<Unique> = []
        var references: Set<Reference> = []
        /// The tokens of each `CHECK` constraint.
        var checks: Set<[String]> = []

        /// The names of the columns, in ascending order: a row without a key is named by its cells in this order.
        var columnNames: [String] { columns.keys.sorted { $0.precedes($1) } }

        /// Whether these cells name a row without a key, or with `NULL` in it: then they are those of all columns.
        func isCounted(_ cells: [Cell]) -> Bool {
            keyColumns.isEmpty || cells.count != keyColumns.count || cells.contains(.null)
        }
    }

    /// A column.
    struct Column: Hashable, Sendable {
        var affinity: String
        var collation: String
        var isNotNull: Bool
        var defaultValue: String?

        /// Whether rows of devices that don't know the column can do without it.
        var isOptional: Bool { !isNotNull || defaultValue.map(ScratchEvaluator.isConstant) ?? false }
    }

    /// A foreign key.
    struct Reference: Hashable, Sendable {
        var columns: [String]
        var parent: String
        var parentColumns: [String]
        var onDelete: String
    }

    /// A unique index: two indexes with the same effect have the same description.
    struct Unique: Hashable, Sendable {
        /// A column or an expression, and how text is compared.
        struct Term: Hashable, Sendable {
            /// Whether the text is the name of a column.
            var isColumn: Bool
            var text: String
            var collation: String
        }

        var kind: String
        /// In ascending order, unless the last one is a position in a list: otherwise the order means nothing.
        var terms: [Term]
        /// The rows that a partial index has, as an SQL expression.
        var condition: String?
    }

    /// A part of a schema, by which schemas are compared.
    private enum Part: Hashable {
        case key(table: String, kind: UInt8, columns: [String])
        case column(table: String, name: String, Column)
        case unique(table: String, Unique)
        case reference(table: String, Reference)
        case check(table: String, [String])
    }

    private(set) var tables: [String: Table] = [:]

    /// The tables and their columns.
    private var names: Set<[String]> {
        Set(tables.flatMap { name, table in [[name]] + table.columns.keys.map { [name, $0] } })
    }

    private var parts: Set<Part> {
        var parts: Set<Part> = []
        for (name, table) in tables {
            parts.insert(.key(table: name, kind: table.keyKind, columns: table.keyColumns))
            parts.formUnion(table.columns.map { .column(table: name, name: $0, $1) })
            parts.formUnion(table.uniques.map { .unique(table: name, $0) })
            parts.formUnion(table.references.map { .reference(table: name, $0) })
            parts.formUnion(table.checks.map { .check(table: name, $0) })
        }
        return parts
    }

    /// Describes a schema.
    public init(_ schema: StoreSchema) {
        for table in schema.tables { tables[table.name] = Table(table, in: schema) }
    }

    /// The digest of the description's bytes.
    public var digest: SetDigest { SetDigest(of: encoded) }

    // MARK: Comparing

    /// Whether two schemas differ at most by additions, on either side, that rows of the other one can do without.
    ///
    /// Such are whole tables, columns that are nullable or have a default, and references of new columns to keys.
    func isCompatible(with other: SchemaDescription) -> Bool {
        tables.allSatisfy { name, table in other.tables[name].map { table.isCompatible(with: $0) } ?? true }
    }

    /// Whether the schema has all that a former one has, and differs from it by additions.
    func isExtension(of former: SchemaDescription) -> Bool {
        isCompatible(with: former)
            && former.tables.allSatisfy { name, table in
                tables[name].map { new in table.columns.keys.allSatisfy { new.columns[$0] != nil } } ?? false
            }
    }

    /// Whether all that was changed since a former schema is changed in a later one, too, which changes more.
    ///
    /// That holds, too, if it only does for the names of tables and columns: the later schema may have changed the rest again.
    func isBetween(_ former: SchemaDescription, _ later: SchemaDescription) -> Bool {
        func changesLess<Item>(_ items: (SchemaDescription) -> Set<Item>) -> Bool {
            let changed = items(self).symmetricDifference(items(former))
            return changed.isStrictSubset(of: items(later).symmetricDifference(items(former)))
        }
        return self != former && (changesLess(\.parts) || changesLess(\.names))
    }

    /// The tables, and the columns of other tables, that a former schema lacks and an earlier one had.
    func namesAddedAgain(since former: SchemaDescription, after earlier: [SchemaDescription]) -> [String] {
        let again = names.subtracting(former.names).intersection(earlier.flatMap(\.names))
        return again.filter { $0.count == 1 || !again.contains([$0[0]]) }.map { $0.joined(separator: ".") }.sorted()
    }

    /// Whether the schema has all tables and columns of another one, whatever their definitions.
    func hasNames(of other: SchemaDescription) -> Bool { names.isSuperset(of: other.names) }

    /// The columns of each table.
    var columnsByTable: [String: Set<String>] { tables.mapValues { Set($0.columns.keys) } }

    /// Whether some tables and columns are all that a change of this schema needs: it may name others in which a row holds the
    /// default.
    ///
    /// - Parameters:
    ///   - change: The change.
    ///   - present: The tables and their columns.
    ///   - defaults: What other columns hold by default, by table.
    /// - Returns: Whether they are all.
    func needs(
        _ change: Change,
        only present: [String: Set<String>],
        _ defaults: [String: [String: Cell]]
    ) -> Bool {
        guard let columns = present[change.table], let table = tables[change.table] else { return false }
        func has(_ column: String, _ cell: Cell) -> Bool {
            columns.contains(column) || defaults[change.table]?[column] == cell
        }
        if case .key(let cells) = change.row, table.isCounted(cells) {
            guard zip(table.columnNames, cells).allSatisfy({ has($0, $1) }) else { return false }
        }
        switch change.edit {
        case .insert(let row): return row.cells.allSatisfy { has($0.key, $0.value) }
        case .update(let cells): return columns.isSuperset(of: cells.keys)
        case .delete: return true
        }
    }
}

extension SchemaDescription.Table {
    init(_ table: TableSchema, in schema: StoreSchema) {
        keyColumns = table.key.columns
        switch table.key {
        case .none: keyKind = 0
        case .integer: keyKind = 1
        case .meaningful: keyKind = 2
        case .natural: keyKind = 3
        }
        for column in table.columns {
            columns[column.name] = SchemaDescription.Column(
                affinity: column.affinity.rawValue,
                collation: column.collation.rawValue,
                isNotNull: column.isNotNull,
                defaultValue: column.defaultValue
            )
        }
        uniques = Set(table.uniques.map { SchemaDescription.Unique($0) })
        for key in table.references {
            guard let parent = schema.table(key.parent) else { continue }
            references.insert(
                SchemaDescription.Reference(
                    columns: key.columns.map { table.column($0)?.name ?? $0 },
                    parent: parent.name,
                    parentColumns: key.parentColumns.map { parent.column($0)?.name ?? $0 },
                    onDelete: key.onDelete.rawValue
                )
            )
        }
        checks = Set(table.checks.map(\.expression))
    }

    fileprivate func isCompatible(with other: Self) -> Bool {
        guard keyKind == other.keyKind, keyColumns == other.keyColumns, uniques == other.uniques,
            checks == other.checks,
            columns.allSatisfy({ name, column in other.columns[name].map { $0 == column } ?? column.isOptional }),
            other.columns.allSatisfy({ name, column in columns[name] != nil || column.isOptional })
        else { return false }
        return references.subtracting(other.references).allSatisfy { $0.isAddition(to: other) }
            && other.references.subtracting(references).allSatisfy { $0.isAddition(to: self) }
    }
}

extension SchemaDescription.Reference {
    /// Whether the reference belongs to columns that a table doesn't have.
    fileprivate func isAddition(to table: SchemaDescription.Table) -> Bool {
        columns.allSatisfy { table.columns[$0] == nil }
    }
}

extension SchemaDescription.Unique {
    init(_ index: UniqueIndex) {
        kind = index.kind.rawValue
        condition = index.condition
        terms = index.terms.map { term in
            Term(isColumn: term.column != nil, text: term.column ?? term.expression, collation: term.collation.rawValue)
        }
        terms = orderedTerms
    }

    fileprivate var orderedTerms: [Term] {
        kind == UniqueIndex.Kind.position.rawValue
            ? terms : terms.sorted { $0.encoded.lexicographicallyPrecedes($1.encoded) }
    }
}

// MARK: - Coding

extension SchemaDescription {
    /// The longest description, in bytes.
    static let maximumLength = 1 << 24

    /// The description's bytes, of which there is one form.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.count(tables.count)
        for (name, table) in tables.sorted(by: { $0.key.precedes($1.key) }) {
            writer.text(name)
            writer.table(table)
        }
        return writer.bytes
    }

    /// Reads a description.
    ///
    /// - Parameter bytes: The bytes.
    /// - Throws: ``StoreChangesError`` with `corrupt`, also if the bytes aren't the one form of what they describe.
    package init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        for _ in 0..<(try parser.count("the number of tables", atMost: ChangeSetReader.maximumColumns)) {
            let name = try parser.text("the name of a table")
            tables[name] = try parser.table()
        }
        guard encoded == bytes else { throw parser.malformed("a schema isn't in its one form") }
    }
}

extension ByteWriter {
    fileprivate mutating func texts(_ texts: [String]) {
        count(texts.count)
        for text in texts { self.text(text) }
    }

    /// Writes encoded items in ascending order.
    private mutating func ascending(_ items: [[UInt8]]) {
        count(items.count)
        for item in items.sorted(by: { $0.lexicographicallyPrecedes($1) }) { raw(item) }
    }

    fileprivate mutating func table(_ table: SchemaDescription.Table) {
        byte(table.keyKind)
        texts(table.keyColumns)
        count(table.columns.count)
        for (name, column) in table.columns.sorted(by: { $0.key.precedes($1.key) }) {
            text(name)
            text(column.affinity)
            text(column.collation)
            byte(column.isNotNull ? 1 : 0)
            optional(column.defaultValue) { $0.text($1) }
        }
        ascending(table.uniques.map(\.encoded))
        ascending(table.references.map(\.encoded))
        count(table.checks.count)
        for check in table.checks.sorted(by: { $0.lexicographicallyPrecedes($1) { $0.precedes($1) } }) { texts(check) }
    }
}

extension SchemaDescription.Unique {
    /// The bytes, of which there is one form.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.text(kind)
        writer.count(terms.count)
        for term in terms { writer.raw(term.encoded) }
        writer.optional(condition) { $0.text($1) }
        return writer.bytes
    }
}

extension SchemaDescription.Unique.Term {
    fileprivate var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.byte(isColumn ? 1 : 0)
        writer.text(text)
        writer.text(collation)
        return writer.bytes
    }
}

extension SchemaDescription.Reference {
    fileprivate var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.texts(columns)
        writer.text(parent)
        writer.texts(parentColumns)
        writer.text(onDelete)
        return writer.bytes
    }
}

extension ByteParser {
    fileprivate mutating func texts(_ what: String) throws -> [String] {
        try list(what) { try $0.text(what) }
    }

    private mutating func list<Item>(_ what: String, _ parse: (inout ByteParser) throws -> Item) throws -> [Item] {
        var items: [Item] = []
        for _ in 0..<(try count("the number of items of \(what)", atMost: ChangeSetReader.maximumColumns)) {
            items.append(try parse(&self))
        }
        return items
    }

    fileprivate mutating func table() throws -> SchemaDescription.Table {
        var table = SchemaDescription.Table()
        table.keyKind = try byte("the kind of a key")
        guard table.keyKind <= 3 else { throw malformed("a key is of the unknown kind \(table.keyKind)") }
        table.keyColumns = try texts("a key")
        for (name, column) in try list("a table's columns", { try ($0.text("a column"), $0.column()) }) {
            table.columns[name] = column
        }
        table.uniques = Set(try list("a table's unique indexes") { try $0.unique() })
        table.references = Set(
            try list("a table's references") { parser in
                SchemaDescription.Reference(
                    columns: try parser.texts("a reference"),
                    parent: try parser.text("a parent"),
                    parentColumns: try parser.texts("a reference"),
                    onDelete: try parser.text("an action")
                )
            }
        )
        table.checks = Set(
            try list("a table's constraints") { parser in
                try parser.list("a constraint") { try $0.text("a constraint", atMost: SchemaDescription.maximumLength) }
            }
        )
        return table
    }

    private mutating func unique() throws -> SchemaDescription.Unique {
        let unique = SchemaDescription.Unique(
            kind: try text("the kind of a unique index"),
            terms: try list("a unique index") { parser in
                SchemaDescription.Unique.Term(
                    isColumn: try parser.flag("whether a term is a column"),
                    text: try parser.text("a term", atMost: SchemaDescription.maximumLength),
                    collation: try parser.text("a collation")
                )
            },
            condition: try optional { try $0.text("a condition", atMost: SchemaDescription.maximumLength) }
        )
        guard unique.terms == unique.orderedTerms else { throw malformed("a unique index isn't in its one form") }
        return unique
    }

    private mutating func flag(_ what: String) throws -> Bool {
        let flag = try byte(what)
        guard flag <= 1 else { throw malformed("\(what) is the unknown flag \(flag)") }
        return flag == 1
    }

    private mutating func column() throws -> SchemaDescription.Column {
        SchemaDescription.Column(
            affinity: try text("an affinity"),
            collation: try text("a collation"),
            isNotNull: try flag("whether NULL is refused"),
            defaultValue: try optional { try $0.text("a default", atMost: SchemaDescription.maximumLength) }
        )
    }
}
