/// The expressions of a `CREATE INDEX` statement, which no pragma tells.
struct IndexDefinition {
    /// The expression after `WHERE`, if there is one.
    let condition: String?
    private let expressions: [String]

    /// Reads a statement; `nil` if it isn't one of this kind, as for indexes that belong to a constraint.
    init?(_ tokens: SQLTokens) {
        // The name of an index or table could be a keyword in quotes, but never an unquoted ON.
        guard let on = tokens.tokens.firstIndex(where: { $0.isKeyword("ON") }), on + 2 < tokens.tokens.count,
            tokens.tokens[on + 2] == .symbol("("), let end = tokens.closing(on + 2)
        else { return nil }
        expressions = tokens.split(on + 3..<end).map { Self.expression(in: $0, of: tokens) }
        let rest = end + 1..<tokens.tokens.count
        let isPartial = rest.first.map { tokens.tokens[$0].isKeyword("WHERE") } ?? false
        condition = isPartial ? tokens.text(rest.dropFirst()) : nil
    }

    /// The expression of a term, in SQL.
    func expression(at index: Int) -> String? { expressions.indices.contains(index) ? expressions[index] : nil }

    /// A term without `COLLATE` and the order, which follow its expression.
    private static func expression(in range: Range<Int>, of tokens: SQLTokens) -> String {
        var range = range
        while let last = range.last {
            if tokens.tokens[last].isKeyword("ASC") || tokens.tokens[last].isKeyword("DESC") {
                range = range.dropLast()
            } else if last > range.lowerBound, tokens.tokens[last - 1].isKeyword("COLLATE") {
                range = range.dropLast(2)
            } else {
                break
            }
        }
        return tokens.text(range)
    }
}
