/// What synchronization has to know of a table.
public struct TableSchema: Hashable, Sendable {
    /// The table's name.
    public var name: String
    /// The columns that are stored, in the order of their declaration: generated ones aren't among them.
    public var columns: [ColumnSchema]
    /// How rows are named.
    public var key: TableKey
    /// The unique constraints and indexes, the key's included if it isn't an integer.
    public var uniques: [UniqueIndex]
    /// The foreign keys.
    public var references: [ForeignKey]
    /// The `CHECK` constraints.
    public var checks: [CheckConstraint]
    /// The columns that SQLite computes from others.
    public var generatedColumns: [String]
    /// The statement that creates the table.
    public var statement: String
    /// Whether the table has no rowid, so that its rows are in the order of its primary key.
    public var isWithoutRowID: Bool
    /// Whether a constraint replaces rows that are in the way, by `ON CONFLICT REPLACE`.
    public var replacesOnConflict: Bool

    /// The column of a name, which SQLite compares without regard to case.
    public func column(_ name: String) -> ColumnSchema? { columns.first { $0.name.isSameName(as: name) } }

    /// Whether SQLite computes a column from others.
    func generates(_ column: String) -> Bool { generatedColumns.contains { $0.isSameName(as: column) } }

    /// Whether rows that clash in a unique index move to the end of a list.
    func isPosition(_ unique: UniqueIndex) -> Bool {
        unique.kind == .position && obstacle(toMovingIn: unique) == nil
    }

    /// Why rows that clash in a unique index can't move to the end of a list; `nil` if they can.
    func obstacle(toMovingIn unique: UniqueIndex) -> String? {
        guard let columns = unique.columns, let last = columns.last else { return "It has an expression." }
        if Set(columns.map(\.sqlName)) == Set(key.columns.map(\.sqlName)) {
            return "These columns name the table's rows: edits of equal keys are edits of one row."
        }
        guard let column = column(last) else { return "SQLite computes \(last)." }
        if references.contains(where: { $0.columns.contains { $0.isSameName(as: last) } }) {
            return "\(last) refers to other rows."
        }
        return switch column.affinity {
        case .text: "\(last) holds text."
        // SQLite makes a floating-point number of the integer that merging writes, and that would look like an edit.
        case .real: "\(last) holds floating-point numbers."
        case .integer, .numeric, .blob: nil
        }
    }

    /// The names of the columns that aren't part of the key, in ascending order.
    public var valueColumns: [String] {
        let keyColumns = Set(key.columns)
        return columns.map(\.name).filter { !keyColumns.contains($0) }.sorted { $0.precedes($1) }
    }

    /// The names of SQLite for the number of a row.
    static let rowIdentifiers = ["rowid", "oid", "_rowid_"]

    /// A name of SQLite for the number of a row, in a table that has no such column; `nil` if it has all of them.
    static func rowIdentifier(besides columns: [String]) -> String? {
        rowIdentifiers.first { name in !columns.contains { $0.isSameName(as: name) } }
    }
}

/// A `CHECK` constraint.
public struct CheckConstraint: Hashable, Sendable {
    /// The stored columns on which it depends.
    public var columns: Set<String>
    /// The tokens of its expression.
    public var expression: [String]
}

/// How the rows of a table are named.
public enum TableKey: Hashable, Sendable {
    /// An `INTEGER PRIMARY KEY`, whose numbers SQLite assigns: a row is named by its inserting client and a counter.
    case integer(column: String)
    /// An `INTEGER PRIMARY KEY` whose numbers mean something: a row is named by its number.
    case meaningful(column: String)
    /// Other columns, in ascending order of their names: a row is named by their values.
    case natural(columns: [String])
    /// None: equal rows are counted.
    case none

    /// The key's columns, in ascending order of their names.
    public var columns: [String] {
        switch self {
        case .integer(let column), .meaningful(let column): [column]
        case .natural(let columns): columns
        case .none: []
        }
    }
}

extension TableKey: CustomStringConvertible {
    /// How rows are named, for people.
    public var description: String {
        switch self {
        case .integer(let column): "by \(column), which every device numbers by itself"
        case .meaningful(let column): "by \(column), a number with a meaning"
        case .natural(let columns): "by \(columns.joined(separator: ", "))"
        case .none: "without a key, equal rows are counted"
        }
    }
}

/// A stored column.
public struct ColumnSchema: Hashable, Sendable {
    /// The column's name.
    public var name: String
    /// The declared type.
    public var type: String
    /// How SQLite converts values that are stored in the column.
    public var affinity: Affinity
    /// How SQLite compares text in the column.
    public var collation: Collation
    /// Whether it refuses `NULL`.
    public var isNotNull: Bool
    /// The default value, as an SQL expression.
    public var defaultValue: String?
}

/// How SQLite converts values that are stored in a column (https://www.sqlite.org/datatype3.html, section 3.1).
public enum Affinity: String, Hashable, Sendable {
    /// Converts numbers to text.
    case text
    /// Converts text that looks like a number.
    case numeric
    /// As ``numeric``, and differs only in `CAST`.
    case integer
    /// Converts integers to floating-point numbers too.
    case real
    /// Converts nothing.
    case blob

    /// Determines the affinity from a declared type.
    init(type: String, isStrict: Bool) {
        let type = type.uppercased()
        self =
            if isStrict && type == "ANY" {
                .blob
            } else if type.contains("INT") {
                .integer
            } else if ["CHAR", "CLOB", "TEXT"].contains(where: type.contains) {
                .text
            } else if type.isEmpty || type.contains("BLOB") {
                .blob
            } else if ["REAL", "FLOA", "DOUB"].contains(where: type.contains) {
                .real
            } else {
                .numeric
            }
    }
}

extension StoredValue {
    /// The integer key of the row to which a column refers by this value, if there is such a row; `nil` if it refers to none.
    ///
    /// A value isn't a reference that SQLite wouldn't store again if the number were written, as `'07'` in a column of text.
    func rowNumber(in affinity: Affinity) -> Int64? {
        switch (affinity, self) {
        case (_, .integer(let number)): number
        case (.text, .text(let bytes)):
            Int64(String(decoding: bytes, as: UTF8.self)).flatMap { "\($0)".utf8.elementsEqual(bytes) ? $0 : nil }
        case (.real, .real(let bitPattern)): Int64(exactly: Double(bitPattern: bitPattern))
        default: nil
        }
    }

    /// What a column of an affinity stores for the integer key of a row.
    init(rowNumber number: Int64, in affinity: Affinity) {
        self =
            switch affinity {
            case .text: .text("\(number)")
            case .real: .real(Double(number))
            case .numeric, .integer, .blob: .integer(number)
            }
    }
}

/// How SQLite compares text: one of its own collations, which every device has.
public enum Collation: String, Hashable, Sendable {
    /// Compares bytes.
    case binary = "BINARY"
    /// Compares bytes without regard to the case of ASCII letters, as far as the first NUL, and then the lengths.
    case noCase = "NOCASE"
    /// Compares bytes without spaces at the end.
    case trailingSpaces = "RTRIM"

    init?(name: String) { self.init(rawValue: name.uppercased()) }
}

/// A unique constraint or index.
public struct UniqueIndex: Hashable, Sendable {
    /// One of the values that are unique in combination.
    public struct Term: Hashable, Sendable {
        /// The column; `nil` for an expression.
        public var column: String?
        /// The expression in SQL: the quoted column, or what the index has.
        public var expression: String
        /// How text is compared.
        public var collation: Collation
    }

    /// What is unique, in the order of the index.
    public var terms: [Term]
    /// The rows that a partial index has, as an SQL expression.
    public var condition: String?
    /// What a clash of two rows means.
    public var kind: Kind

    /// What it means that two devices gave two rows the same values.
    public enum Kind: String, Codable, Hashable, Sendable {
        /// The rows are the same thing and are merged.
        case identity
        /// The rows want the same position in a list, and one of them moves.
        case position
    }

    /// The columns, if there are no expressions.
    public var columns: [String]? {
        let columns = terms.compactMap(\.column)
        return columns.count == terms.count ? columns : nil
    }

    /// The index as people write it: its columns and its condition.
    public var description: String {
        "(" + terms.map { $0.column ?? $0.expression }.joined(separator: ", ") + ")"
            + (condition.map { " WHERE \($0)" } ?? "")
    }
}

/// A foreign key.
public struct ForeignKey: Hashable, Sendable {
    /// The columns that refer to another row.
    public var columns: [String]
    /// The table of the row to which they refer.
    public var parent: String
    /// The columns to which they refer, as many as ``columns``.
    public var parentColumns: [String]
    /// What happens when the row goes to which they refer.
    public var onDelete: Action

    /// What SQLite does with a row when the row goes to which it refers.
    public enum Action: String, Hashable, Sendable {
        /// Refuses the delete, at the latest when the transaction ends.
        case noAction = "NO ACTION"
        /// Refuses the delete.
        case restrict = "RESTRICT"
        /// Writes `NULL`.
        case setNull = "SET NULL"
        /// Writes the column's default.
        case setDefault = "SET DEFAULT"
        /// Deletes the row as well.
        case cascade = "CASCADE"
    }

    /// The foreign key as people write it.
    public var description: String {
        "(\(columns.joined(separator: ", "))) → \(parent)(\(parentColumns.joined(separator: ", ")))"
    }
}

/// A foreign key of a table that doesn't synchronize.
package struct UnsynchronizedReference: Hashable, Sendable {
    /// The table that doesn't synchronize.
    package var table: String
    /// Its foreign key.
    package var key: ForeignKey
}

extension String {
    /// Whether SQLite takes two names for the same: it ignores the case of ASCII letters.
    func isSameName(as other: String) -> Bool { sqlName == other.sqlName }

    /// The name with small ASCII letters.
    var sqlName: String { String(decoding: utf8.map { (65...90).contains($0) ? $0 + 32 : $0 }, as: UTF8.self) }

    /// The name in quotes, as SQL statements need it.
    package var quotedName: String { quoted(by: UInt8(ascii: "\"")) }

    /// The text between two quotes, with those in it doubled, also where a combining character follows.
    func quoted(by quote: UInt8) -> String {
        var bytes = [quote]
        for byte in utf8 {
            bytes.append(byte)
            if byte == quote { bytes.append(byte) }
        }
        bytes.append(quote)
        return String(decoding: bytes, as: UTF8.self)
    }
}
