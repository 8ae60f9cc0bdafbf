import ByteCoding
import GRDB

/// Evaluates what only SQLite can: the expressions of indexes, and `CHECK` constraints.
package protocol ExpressionEvaluator {
    /// The values that are unique in combination, for an index with expressions or a condition.
    ///
    /// - Returns: The values; `nil` if the index doesn't have the row, or if SQLite can't evaluate them: no store with the index
    ///   takes such a row.
    func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) throws -> [Cell]?

    /// Whether an index that another schema has makes sense in a table.
    func canEvaluate(_ index: UniqueIndex, in table: TableSchema) -> Bool

    /// Whether a row violates a `CHECK` constraint, or SQLite can't evaluate one for it.
    func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) throws -> Bool

    /// What a column of an affinity stores by a constant default; `nil` if SQLite can't evaluate it.
    func value(ofDefault expression: String, in affinity: Affinity) -> StoredValue?
}

extension ExpressionEvaluator {
    package func canEvaluate(_ index: UniqueIndex, in table: TableSchema) -> Bool { index.columns != nil }

    package func value(ofDefault expression: String, in affinity: Affinity) -> StoredValue? { nil }

    /// What a column of an affinity holds in rows that were inserted without it: its default if that is constant, else `NULL`.
    func cell(ofDefault expression: String?, in affinity: Affinity) -> Cell {
        guard let expression, ScratchEvaluator.isConstant(expression) else { return .null }
        return value(ofDefault: expression, in: affinity).map(Cell.value) ?? .null
    }

    /// The constant defaults of a table's columns, but for `NULL`; a row that was inserted without these columns has them.
    func defaults(of table: TableSchema) -> [String: Cell] {
        let cells = table.columns.map { ($0.name, cell(ofDefault: $0.defaultValue, in: $0.affinity)) }
        return Dictionary(uniqueKeysWithValues: cells).filter { !$0.value.isNull }
    }
}

/// Evaluates nothing, for schemas without expressions and constraints.
package struct PlainEvaluator: ExpressionEvaluator {
    package init() {}

    package func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) -> [Cell]? {
        index.terms.map { term in term.column.flatMap { cells[$0] } ?? .null }
    }

    package func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) -> Bool { false }
}

/// Evaluates expressions in an empty database with the same tables, one row at a time.
///
/// Rows have names in place of the numbers that differ between devices; so every device gives a name the same number here.
/// It's as good as a real one where it's compared for equality. In an index it's the same in all rows; a `CHECK` constraint
/// concerns one row, and gets numbers within its limits. No table synchronizes whose unique values are calculated from such
/// numbers: a sum or a product of these overflows, and different values become equal.
package final class ScratchEvaluator: ExpressionEvaluator {
    private let schema: StoreSchema
    /// The database, which is opened once something is evaluated.
    private var scratch: (queue: DatabaseQueue, db: SQLConnection)?

    /// Prepares to evaluate the expressions of a schema.
    package init(_ schema: StoreSchema) { self.schema = schema }

    private func evaluate<Result>(_ body: (SQLConnection) throws -> Result) throws -> Result {
        let scratch = try self.scratch ?? open()
        self.scratch = scratch
        return try scratch.queue.inDatabase { _ in try body(scratch.db) }
    }

    /// How an empty database is opened where statements of an app are executed.
    static var configuration: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        // SQLite itself takes names in double quotes for text where there is no such column.
        configuration.acceptsDoubleQuotedStringLiterals = true
        return configuration
    }

    private func open() throws -> (queue: DatabaseQueue, db: SQLConnection) {
        let queue = try DatabaseQueue(configuration: Self.configuration)
        let db = try queue.inDatabase { connection in
            let db = SQLConnection(connection)
            for table in schema.tables { try db.execute(table.statement) }
            return db
        }
        return (queue, db)
    }

    /// The query of the values that are unique in a table's only row.
    private static func query(_ index: UniqueIndex, in table: TableSchema) -> String {
        "SELECT \(expressions(of: index)) FROM \(table.name.quotedName)\(condition(of: index))"
    }

    private static func expressions(of index: UniqueIndex) -> String {
        index.terms.map(\.expression).joined(separator: ", ")
    }

    private static func condition(of index: UniqueIndex) -> String { index.condition.map { " WHERE \($0)" } ?? "" }

    /// Another device has written the expressions: only what SQLite accepts in an index is evaluated, so no subquery is.
    package func canEvaluate(_ index: UniqueIndex, in table: TableSchema) -> Bool {
        let (name, expressions) = ("storesync earlier index".quotedName, Self.expressions(of: index))
        let creation = "CREATE INDEX \(name) ON \(table.name.quotedName) (\(expressions))\(Self.condition(of: index))"
        let result: Void? = try? evaluate { db in
            try db.execute(creation)
            try db.execute("DROP INDEX \(name)")
            _ = try db.first(Self.query(index, in: table))
        }
        return result != nil
    }

    package func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) throws -> [Cell]? {
        let values = try evaluate { db in
            try db.execute("PRAGMA ignore_check_constraints = ON")
            try db.execute("DELETE FROM \(table.name.quotedName)")
            do {
                try insert(cells, of: table, into: db)
                return try db.first(Self.query(index, in: table))
            } catch let error as DatabaseError where error.isOfRow {
                return nil
            }
        }
        return values.map { values in
            // A column's own cell, because its name says more than its number here.
            zip(values, index.terms).map { value, term in term.column.flatMap { cells[$0] } ?? .value(value) }
        }
    }

    package func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) throws -> Bool {
        guard !table.checks.isEmpty else { return false }
        // A constraint may limit or compare the numbers that devices assign. So the row violates it only if it does with small
        // numbers, with great ones, with negative ones, and with those at each number in the constraints, in ascending and in
        // descending order.
        let limits = table.checks.flatMap(\.expression).compactMap(Int64.init)
        let starts = Set([1, 1 << 60, -1 << 60] + limits.flatMap { [$0, $0 &+ 1, 0 &- $0, 1 &- $0] })
        return try evaluate { db in
            try db.execute("PRAGMA ignore_check_constraints = OFF")
            return try starts.allSatisfy { start in
                try [true, false].allSatisfy { isAscending in
                    try db.execute("DELETE FROM \(table.name.quotedName)")
                    do {
                        try insert(Self.numbered(cells, from: start, isAscending: isAscending), of: table, into: db)
                        return false
                    } catch let error as DatabaseError where error.isOfRow {
                        return true
                    }
                }
            }
        }
    }

    /// The cells of a row with consecutive numbers in place of names.
    private static func numbered(_ cells: [String: Cell], from start: Int64, isAscending: Bool) -> [String: Cell] {
        func name(_ cell: Cell) -> RowName? { if case .row(let name) = cell { name } else { nil } }
        let names = Set(cells.values.compactMap(name)).sorted { isAscending ? $0 < $1 : $1 < $0 }
        return cells.mapValues { cell in
            name(cell).flatMap(names.firstIndex).map { .value(.integer(start &+ Int64($0))) } ?? cell
        }
    }

    package func value(ofDefault expression: String, in affinity: Affinity) -> StoredValue? {
        // SQLite knows a default without its parentheses. In parentheses a word would be a column, and it's text.
        stored("(\(expression))", in: affinity) ?? stored(expression, in: affinity)
    }

    private func stored(_ defaultValue: String, in affinity: Affinity) -> StoredValue? {
        try? evaluate { db in
            // The name of an affinity is a type that has it.
            try db.execute("CREATE TEMP TABLE single (value \(affinity.rawValue) DEFAULT \(defaultValue))")
            defer { try? db.execute("DROP TABLE temp.single") }
            try db.execute("INSERT INTO temp.single DEFAULT VALUES")
            return try db.first("SELECT value FROM temp.single")?[0]
        }
    }

    /// Whether a default is the same on every device, as one without functions is: only such a column can be added to a table.
    static func isConstant(_ expression: String) -> Bool {
        let tokens = SQLTokens(expression).tokens
        return tokens.indices.allSatisfy { index in
            guard tokens[index] == .symbol("("), index > 0 else {
                return !(tokens[index].name?.uppercased().hasPrefix("CURRENT_") ?? false)
            }
            // A name before a parenthesis is a function's.
            if case .symbol = tokens[index - 1] { return true }
            return tokens[index - 1].isKeyword("CAST")
        }
    }

    private func insert(_ cells: [String: Cell], of table: TableSchema, into db: SQLConnection) throws {
        let columns = table.columns.map(\.name)
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        let names = columns.map(\.quotedName).joined(separator: ", ")
        try db.execute(
            "INSERT INTO \(table.name.quotedName) (\(names)) VALUES (\(places))",
            columns.map { Self.value(cells[$0] ?? .null) }
        )
    }

    /// A number that is the same for a name everywhere, greater than 0 and less than 2⁶².
    private static func value(_ cell: Cell) -> StoredValue {
        switch cell {
        case .value(let value): return value
        case .row:
            let digest = SetDigest(of: cell.encoded)
            return .integer(Int64(UInt64(littleEndianBytes: digest.rawValue.prefix(8)) >> 2 | 1))
        }
    }
}
