import CSQLite
import GRDB
import GRDBSQLite

/// Executes statements on a connection of GRDB with values as SQLite stores them.
///
/// GRDB converts text to `String`, which changes bytes that aren't UTF-8, and boxes every value.
final class SQLConnection {
    private let handle: OpaquePointer?
    private var statements: [String: SQLStatement] = [:]

    /// Uses a connection that lives longer than this object.
    init(_ db: Database) { handle = db.sqliteConnection }

    /// Returns a statement, prepared once.
    func prepare(_ sql: String) throws -> SQLStatement {
        if let statement = statements[sql] { return statement }
        let statement = try SQLStatement(handle, sql)
        statements[sql] = statement
        return statement
    }

    /// Returns a statement that is used apart from others of the same text, by a reader of many rows.
    func prepareApart(_ sql: String) throws -> SQLStatement { try SQLStatement(handle, sql) }

    /// Executes a statement that returns no rows.
    func execute(_ sql: String, _ values: [StoredValue] = []) throws {
        try prepare(sql).execute(values)
    }

    /// Returns the first row's values; `nil` if there is none.
    func first(_ sql: String, _ values: [StoredValue] = []) throws -> [StoredValue]? {
        let statement = try prepare(sql)
        try statement.bind(values)
        defer { statement.reset() }
        return try statement.step() ? statement.row : nil
    }

    /// Returns the values of all rows.
    func all(_ sql: String, _ values: [StoredValue] = []) throws -> [[StoredValue]] {
        let statement = try prepare(sql)
        try statement.bind(values)
        defer { statement.reset() }
        var rows: [[StoredValue]] = []
        while try statement.step() { rows.append(statement.row) }
        return rows
    }

    /// Calls `body` with each row's values, while the statement isn't used otherwise.
    func forEach(_ sql: String, _ values: [StoredValue] = [], _ body: ([StoredValue]) throws -> Void) throws {
        let statement = try prepareApart(sql)
        try statement.bind(values)
        while try statement.step() { try body(statement.row) }
    }

    /// Sets whether statements run the triggers of the schema.
    func setTriggers(enabled isEnabled: Bool) throws {
        let code = setTriggersEnabled(handle, isEnabled ? 1 : 0)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}

extension [StoredValue] {
    /// The integer in a column that holds one.
    func integer(_ index: Int) -> Int64? {
        if case .integer(let integer) = self[index] { integer } else { nil }
    }

    /// The bytes in a column that holds text or bytes.
    func bytes(_ index: Int) -> [UInt8]? {
        switch self[index] {
        case .text(let bytes), .blob(let bytes): bytes
        case .null, .integer, .real: nil
        }
    }

    func text(_ index: Int) -> String? { bytes(index).map { String(decoding: $0, as: UTF8.self) } }
}
