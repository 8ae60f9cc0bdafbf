/// The tokens of an SQL statement, as far as a schema's statements need to be understood.
///
/// SQLite has pragmas for everything but the expressions in `CHECK` constraints, indexes and conflict clauses. It knows no
/// characters of several scalars: a combining accent after a quote is the first of the text in quotes.
struct SQLTokens {
    enum Token: Equatable, CustomStringConvertible {
        /// A keyword or an identifier without quotes.
        case word(String)
        /// An identifier in quotes.
        case quoted(String)
        /// Text in single quotes, which SQLite accepts as an identifier too where only that makes sense.
        case text(String)
        case symbol(Character)
        case other(String)

        /// Whether it's a keyword, in any case.
        func isKeyword(_ keyword: String) -> Bool {
            guard case .word(let word) = self else { return false }
            return word.sqlName == keyword.sqlName
        }

        /// The token in the one form of all its spellings: of keywords and names in any case, in quotes or without.
        var description: String {
            switch self {
            case .word(let name), .quoted(let name): name.sqlName.quotedName
            case .text(let text): text.quoted(by: UInt8(ascii: "'"))
            case .symbol(let symbol): String(symbol)
            case .other(let text): text
            }
        }

        /// The name that it is where only a name makes sense.
        var identifier: String? {
            switch self {
            case .word(let name), .quoted(let name), .text(let name): name
            case .symbol, .other: nil
            }
        }

        /// The name that it may be.
        var name: String? {
            switch self {
            case .word(let name), .quoted(let name): name
            case .text, .symbol, .other: nil
            }
        }
    }

    private(set) var tokens: [Token] = []
    /// The part of the statement that each token takes.
    private(set) var ranges: [Range<String.Index>] = []
    let statement: String

    init(_ statement: String) {
        self.statement = statement
        var rest = statement.unicodeScalars[...]
        while let first = rest.first {
            let start = rest.startIndex
            guard let token = Self.next(first, &rest) else { continue }
            tokens.append(token)
            ranges.append(start..<rest.startIndex)
        }
    }

    /// Removes the next token; `nil` for white space and comments.
    private static func next(_ first: Unicode.Scalar, _ rest: inout Substring.UnicodeScalarView) -> Token? {
        if first.isSQLSpace {
            rest = rest.drop(while: \.isSQLSpace)
            return nil
        }
        if rest.starts(with: "--".unicodeScalars) {
            rest = rest.drop { $0 != "\n" }
            return nil
        }
        if rest.starts(with: "/*".unicodeScalars) {
            rest = rest.dropFirst(2)
            while !rest.isEmpty, !rest.starts(with: "*/".unicodeScalars) { rest.removeFirst() }
            rest = rest.dropFirst(2)
            return nil
        }
        switch first {
        case "'": return .text(quoted(until: first, &rest))
        case "\"", "`": return .quoted(quoted(until: first, &rest))
        case "[": return .quoted(quoted(until: "]", &rest))
        case "0"..."9": return .other(popPrefix(of: &rest) { $0.isSQLLetterOrDigit || $0 == "." })
        case "$": break
        default: if first.isOfSQLName { return .word(popPrefix(of: &rest, while: \.isOfSQLName)) }
        }
        rest.removeFirst()
        return .symbol(Character(first))
    }

    private static func popPrefix(
        of rest: inout Substring.UnicodeScalarView,
        while isIncluded: (Unicode.Scalar) -> Bool
    ) -> String {
        let prefix = rest.prefix(while: isIncluded)
        rest = rest[prefix.endIndex...]
        return String(prefix)
    }

    private static func quoted(until end: Unicode.Scalar, _ rest: inout Substring.UnicodeScalarView) -> String {
        rest.removeFirst()
        var text = String.UnicodeScalarView()
        while let scalar = rest.popFirst() {
            if scalar == end {
                // A doubled quote is one in the text; brackets have no such form.
                guard end != "]", rest.first == end else { break }
                rest.removeFirst()
            }
            text.append(scalar)
        }
        return String(text)
    }

    /// The index of the parenthesis that closes the one at `index`.
    func closing(_ index: Int) -> Int? {
        var depth = 0
        for position in index..<tokens.count {
            if tokens[position] == .symbol("(") { depth += 1 }
            guard tokens[position] == .symbol(")") else { continue }
            depth -= 1
            if depth == 0 { return position }
        }
        return nil
    }

    /// The statement's text from the first to the last token of a range.
    func text(_ range: Range<Int>) -> String {
        guard let first = range.first, let last = range.last else { return "" }
        return String(statement.unicodeScalars[ranges[first].lowerBound..<ranges[last].upperBound])
    }

    /// The ranges between commas that are in no inner parentheses.
    func split(_ range: Range<Int>) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        var start = range.lowerBound
        var depth = 0
        for index in range {
            switch tokens[index] {
            case .symbol("("): depth += 1
            case .symbol(")"): depth -= 1
            case .symbol(",") where depth == 0:
                parts.append(start..<index)
                start = index + 1
            default: break
            }
        }
        return parts + [start..<range.upperBound]
    }
}

extension Unicode.Scalar {
    fileprivate var isSQLSpace: Bool { ("\t"..."\r").contains(self) || self == " " }

    fileprivate var isSQLLetterOrDigit: Bool {
        ("a"..."z").contains(self) || ("A"..."Z").contains(self) || ("0"..."9").contains(self)
    }

    /// Whether SQLite takes it for a part of a name without quotes, as it does everything beyond ASCII.
    fileprivate var isOfSQLName: Bool { isSQLLetterOrDigit || self == "_" || self == "$" || !isASCII }
}
