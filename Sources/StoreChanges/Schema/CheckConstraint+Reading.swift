/// Reading the constraints from the statement that creates a table.
extension CheckConstraint {
    /// The constraints of a table that name columns.
    ///
    /// - Parameters:
    ///   - tokens: The statement that creates the table.
    ///   - table: The table.
    ///   - number: The column with the number by which SQLite knows a row, which has other names besides.
    /// - Returns: The constraints.
    static func all(in tokens: SQLTokens, of table: TableSchema, numberedBy number: String?) -> [CheckConstraint] {
        expressions(in: tokens).compactMap { expression in
            let expression = expression.map { token in
                number.map { isRowIdentifier(token, of: table) ? .quoted($0) : token } ?? token
            }
            let columns = table.storedColumns(named: expression.compactMap(\.name))
            return columns.isEmpty ? nil : CheckConstraint(columns: columns, expression: expression.map(\.description))
        }
    }

    /// Creates the constraint that a generated column puts on the columns from which SQLite computes it, if it's `NOT NULL`;
    /// `nil` if none of them can be `NULL`.
    ///
    /// - Parameters:
    ///   - column: The generated column.
    ///   - table: The table.
    init?(requiring column: String, of table: TableSchema) {
        let columns = table.storedColumns(named: [column]).filter { table.column($0)?.isNotNull == false }
        guard !columns.isEmpty else { return nil }
        self.init(columns: columns, expression: SQLTokens("\(column.quotedName) NOT NULL").tokens.map(\.description))
    }

    /// Whether a constraint of a table names the number by which SQLite knows a row.
    static func limitsRowIdentifiers(of table: TableSchema) -> Bool {
        !table.isWithoutRowID
            && expressions(in: SQLTokens(table.statement)).joined().contains { isRowIdentifier($0, of: table) }
    }

    private static func expressions(in tokens: SQLTokens) -> [ArraySlice<SQLTokens.Token>] {
        tokens.tokens.indices.compactMap { index in
            guard tokens.tokens[index].isKeyword("CHECK"), index + 1 < tokens.tokens.count,
                tokens.tokens[index + 1] == .symbol("("), let end = tokens.closing(index + 1)
            else { return nil }
            return tokens.tokens[(index + 2)..<end]
        }
    }

    private static func isRowIdentifier(_ token: SQLTokens.Token, of table: TableSchema) -> Bool {
        guard let name = token.name?.sqlName, TableSchema.rowIdentifiers.contains(name) else { return false }
        return table.column(name) == nil && !table.generates(name)
    }
}
