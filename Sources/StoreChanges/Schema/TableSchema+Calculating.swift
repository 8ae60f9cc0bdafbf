extension TableSchema {
    /// The columns that have some of the names, and those on which generated columns of these names depend.
    func storedColumns(named names: some Sequence<String>) -> Set<String> {
        let tokens = tokens(of: names.map(\.quotedName).joined(separator: " "))
        let names = Set(tokens.joined().compactMap(\.name?.sqlName))
        return Set(columns.map(\.name).filter { names.contains($0.sqlName) })
    }

    /// The first unique index with a value that is calculated from one of some columns; `nil` if there is none.
    ///
    /// A generated column stands for its expression.
    func uniqueCalculating(with columns: some Sequence<String>) -> UniqueIndex? {
        let columns = Set(columns.map(\.sqlName))
        return uniques.first { unique in
            unique.terms.contains { calculates($0.expression, with: columns) }
        }
    }

    /// The unique indexes whose conditions some columns decide, other than by being `NULL` or not.
    ///
    /// A generated column stands for its expression.
    func uniquesWithConditions(on columns: some Sequence<String>) -> [UniqueIndex] {
        let columns = Set(columns.map(\.sqlName))
        return uniques.filter { unique in
            tokens(of: unique.condition ?? "").contains { tokens in
                tokens.indices.contains { tokens[$0].isName(in: columns) && !tokens.isTestedForNull(at: $0) }
            }
        }
    }

    private func calculates(_ expression: String, with columns: Set<String>) -> Bool {
        let expressions = tokens(of: expression)
        return expressions.contains { tokens in tokens.indices.contains { tokens.isCalculation(at: $0) } }
            && expressions.joined().contains { $0.isName(in: columns) }
    }

    /// The tokens of an expression, and of the expressions of generated columns on which it depends.
    private func tokens(of expression: String) -> [ArraySlice<SQLTokens.Token>] {
        let generated = Set(generatedColumns.map(\.sqlName))
        var names: Set<String> = []
        var found: [ArraySlice<SQLTokens.Token>] = []
        var pending = [SQLTokens(expression).tokens[...]]
        while let tokens = pending.popLast() {
            found.append(tokens)
            for name in tokens.compactMap(\.name?.sqlName) where names.insert(name).inserted {
                if generated.contains(name) { pending.append(generatedExpression(of: name)) }
            }
        }
        return found
    }

    /// The tokens from which SQLite computes a column.
    private func generatedExpression(of column: String) -> ArraySlice<SQLTokens.Token> {
        let tokens = SQLTokens(statement)
        guard let start = tokens.tokens.firstIndex(of: .symbol("(")), let end = tokens.closing(start) else { return [] }
        for definition in tokens.split(start + 1..<end) {
            guard let first = definition.first, tokens.tokens[first].identifier?.sqlName == column,
                let opening = definition.dropFirst().first(where: {
                    tokens.tokens[$0 - 1].isKeyword("AS") && tokens.tokens[$0] == .symbol("(")
                }), let closing = tokens.closing(opening)
            else { continue }
            return tokens.tokens[opening..<closing]
        }
        return []
    }
}

extension SQLTokens.Token {
    fileprivate func isName(in columns: Set<String>) -> Bool { name.map { columns.contains($0.sqlName) } ?? false }

    /// Whether a sign after this token belongs to the number that follows.
    fileprivate var precedesSign: Bool {
        switch self {
        case .symbol(let symbol): symbol != ")"
        case .word(let word):
            ["AND", "BETWEEN", "ELSE", "IN", "IS", "NOT", "OR", "THEN", "WHEN"].contains(word.uppercased())
        case .quoted, .text, .other: false
        }
    }
}

extension ArraySlice<SQLTokens.Token> {
    /// Whether the column at an index is only tested for `NULL`.
    fileprivate func isTestedForNull(at index: Int) -> Bool {
        let tests = [["ISNULL"], ["NOTNULL"], ["NOT", "NULL"], ["IS", "NULL"], ["IS", "NOT", "NULL"]]
        return tests.contains { test in self[(index + 1)...].starts(with: test) { $0.isKeyword($1) } }
    }

    /// Whether the token at an index is an arithmetic operator, or one of bits.
    fileprivate func isCalculation(at index: Int) -> Bool {
        guard case .symbol(let symbol) = self[index] else { return false }
        let former = index > startIndex ? self[index - 1] : .symbol("(")
        let next = index + 1 < endIndex ? self[index + 1] : .symbol(")")
        return switch symbol {
        case "*", "/", "%", "&": true
        case "+": !former.precedesSign
        // `->` isn't a difference, `||` isn't an operator of bits, and `->>` doesn't shift.
        case "-": !former.precedesSign && next != .symbol(">")
        case "|": former != .symbol("|") && next != .symbol("|")
        case "<": next == .symbol("<")
        case ">": next == .symbol(">") && former != .symbol("-")
        default: false
        }
    }
}
