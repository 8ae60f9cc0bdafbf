import StoreChanges

/// A cell as SQLite compares it: two cells are equal to SQLite if their compared values are the same.
enum ComparedValue: Hashable {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])
    case row(RowName)

    /// - Parameters:
    ///   - cell: The cell.
    ///   - collation: How text is compared.
    ///   - affinity: The conversion that precedes the comparison, of which `blob` is none.
    init(_ cell: Cell, _ collation: Collation, _ affinity: Affinity = .blob) {
        switch cell {
        case .row(let name): self = .row(name)
        case .value(let value): self = Self.converted(Self(value, collation), collation, affinity)
        }
    }

    private init(_ value: StoredValue, _ collation: Collation) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self = .integer(integer)
        case .real(let bits): self = Self.number(Double(bitPattern: bits))
        case .text(let bytes): self = .text(Self.folded(bytes, collation))
        case .blob(let bytes): self = .blob(bytes)
        }
    }

    private static func number(_ double: Double) -> Self {
        Int64(exactly: double).map { .integer($0) } ?? .real(double)
    }

    private static func folded(_ bytes: [UInt8], _ collation: Collation) -> [UInt8] {
        switch collation {
        case .binary: return bytes
        case .noCase:
            // SQLite looks at no byte after a NUL, but compares the lengths.
            let end = bytes.firstIndex(of: 0) ?? bytes.endIndex
            return bytes.indices.map { $0 >= end ? 0 : (65...90).contains(bytes[$0]) ? bytes[$0] + 32 : bytes[$0] }
        case .trailingSpaces:
            let end = bytes.lastIndex { $0 != 32 }.map { $0 + 1 } ?? 0
            return Array(bytes[..<end])
        }
    }

    private static func converted(_ value: Self, _ collation: Collation, _ affinity: Affinity) -> Self {
        switch (affinity, value) {
        case (.text, .integer(let integer)): return .text(Array("\(integer)".utf8))
        case (.text, .real(let double)): return .text(folded(Array("\(double)".utf8), collation))
        case (.integer, .text(let bytes)), (.numeric, .text(let bytes)), (.real, .text(let bytes)):
            let text = String(decoding: bytes, as: UTF8.self).trimming { " \t\n\u{0B}\u{0C}\r".contains($0) }
            guard text.allSatisfy({ "0123456789+-.eE".contains($0) }) else { return value }
            return Int64(text).map { .integer($0) } ?? Double(text).map(number) ?? value
        default: return value
        }
    }
}

extension String {
    fileprivate func trimming(_ isSpace: (Character) -> Bool) -> String {
        let rest = drop(while: isSpace)
        let end = rest.lastIndex { !isSpace($0) }.map { rest.index(after: $0) } ?? rest.startIndex
        return String(rest[..<end])
    }
}

extension TableSchema {
    /// Whether two lists of cells are equal to SQLite in certain columns of this table.
    func areEqual(_ first: [Cell], _ second: [Cell], in columns: [String]) -> Bool {
        guard first.count == columns.count, second.count == columns.count else { return false }
        return columns.indices.allSatisfy { index in
            let column = column(columns[index])
            let (collation, affinity) = (column?.collation ?? .binary, column?.affinity ?? .blob)
            return ComparedValue(first[index], collation, affinity)
                == ComparedValue(second[index], collation, affinity)
        }
    }
}
