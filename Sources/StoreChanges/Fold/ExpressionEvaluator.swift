/// Evaluates what only SQLite can: the expressions of indexes, and `CHECK` constraints.
package protocol ExpressionEvaluator: Sendable {
    /// The values that are unique in combination, for an index with expressions or a condition.
    ///
    /// - Returns: The values; `nil` if the index doesn't have the row.
    func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) throws -> [Cell]?

    /// Whether a row violates a `CHECK` constraint.
    func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) throws -> Bool
}

/// Evaluates nothing, for schemas without expressions and constraints.
package struct PlainEvaluator: ExpressionEvaluator {
    package init() {}

    package func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) -> [Cell]? {
        index.terms.map { term in term.column.flatMap { cells[$0] } ?? .null }
    }

    package func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) -> Bool { false }
}
