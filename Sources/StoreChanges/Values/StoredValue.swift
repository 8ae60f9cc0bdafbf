/// A value as SQLite stores it: its type and its bytes.
///
/// Two values are equal if SQLite stores the same type and bytes for both, so `1` differs from `1.0`, and `'A'` from
/// `'a'` in a column with `COLLATE NOCASE`. Only so does every edit travel that a user can see.
public enum StoredValue: Hashable, Sendable {
    /// `NULL`.
    case null
    /// An integer.
    case integer(Int64)
    /// A floating-point number, given by the bit pattern of a `Double`.
    case real(bitPattern: UInt64)
    /// Text in UTF-8; SQLite doesn't check that it is.
    case text([UInt8])
    /// Bytes.
    case blob([UInt8])

    /// A floating-point number.
    public static func real(_ value: Double) -> StoredValue { .real(bitPattern: value.bitPattern) }

    /// Text.
    public static func text(_ text: String) -> StoredValue { .text(Array(text.utf8)) }

    /// Whether the value is `NULL`.
    public var isNull: Bool { self == .null }
}

extension StoredValue: CustomStringConvertible {
    /// The value as an SQL literal, long ones abbreviated.
    public var description: String {
        switch self {
        case .text(let bytes) where bytes.count > 60: "text of \(bytes.count) bytes"
        case .blob(let bytes) where bytes.count > 20: "blob of \(bytes.count) bytes"
        default: literal
        }
    }

    /// The value as an SQL literal.
    var literal: String {
        switch self {
        case .null: "NULL"
        case .integer(let value): "\(value)"
        case .real(let bits): "\(Double(bitPattern: bits))"
        case .text(let bytes): String(decoding: bytes, as: UTF8.self).quoted(by: UInt8(ascii: "'"))
        case .blob(let bytes): "x'\(bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())'"
        }
    }
}
