/// The tokens of an SQL statement, as far as a schema's statements need to be understood.
///
/// SQLite has pragmas for everything but the expressions in `CHECK` constraints, indexes and conflict clauses.
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
            return word.uppercased() == keyword
        }

        /// The token in the one form of all its spellings: of keywords and names in any case, in quotes or without.
        var description: String {
            switch self {
            case .word(let name), .quoted(let name): name.sqlName.quotedName
            case .text(let text): "'\(text.replacing("'", with: "''"))'"
            case .symbol(let symbol): String(symbol)
            case .other(let text): text
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
        var rest = statement[...]
        while let first = rest.first {
            let start = rest.startIndex
            let token = Self.next(first, &rest)
            guard let token else { continue }
            tokens.append(token)
            ranges.append(start..<rest.startIndex)
        }
    }

    /// Removes the next token; `nil` for white space and comments.
    private static func next(_ first: Character, _ rest: inout Substring) -> Token? {
        if first.isWhitespace {
            rest = rest.drop(while: \.isWhitespace)
            return nil
        }
        if rest.hasPrefix("--") {
            rest = rest.drop { !$0.isNewline }
            return nil
        }
        if rest.hasPrefix("/*") {
            rest = rest.dropFirst(2)
            while !rest.isEmpty, !rest.hasPrefix("*/") { rest.removeFirst() }
            rest = rest.dropFirst(2)
            return nil
        }
        if first == "'" { return .text(quoted(until: first, &rest)) }
        if let end = [Character("\""): Character("\""), "`": "`", "[": "]"][first] {
            return .quoted(quoted(until: end, &rest))
        }
        if first.isLetter || first == "_" || first.unicodeScalars.contains(where: { $0.value > 127 }) {
            let word = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "$" || !$0.isASCII }
            rest = rest.dropFirst(word.count)
            return .word(String(word))
        }
        if first.isNumber {
            let number = rest.prefix { $0.isLetter || $0.isNumber || $0 == "." }
            rest = rest.dropFirst(number.count)
            return .other(String(number))
        }
        rest.removeFirst()
        return .symbol(first)
    }

    private static func quoted(until end: Character, _ rest: inout Substring) -> String {
        rest.removeFirst()
        var text = ""
        while let character = rest.popFirst() {
            guard character == end else {
                text.append(character)
                continue
            }
            // A doubled quote is one in the text; brackets have no such form.
            guard end != "]", rest.first == end else { break }
            text.append(end)
            rest.removeFirst()
        }
        return text
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
        return String(statement[ranges[first].lowerBound..<ranges[last].upperBound])
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
