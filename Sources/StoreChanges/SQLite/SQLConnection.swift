import CSQLite
import GRDB
import GRDBSQLite

/// Executes statements on a connection of GRDB with values as SQLite stores them.
///
/// GRDB converts text to `String`, which changes bytes that aren't UTF-8, and boxes every value.
final class SQLConnection {
    private let db: Database
    private var handle: OpaquePointer? { db.sqliteConnection }
    private var statements: [String: SQLStatement] = [:]
    /// Whether the connection's observers are told what is written.
    private let isObserved: Bool
    private var observedStatements: [String: SQLStatement] = [:]

    /// Uses a connection that lives longer than this object.
    ///
    /// - Parameters:
    ///   - db: The connection.
    ///   - isObserved: Whether GRDB's observers of the connection are told what ``execute(_:_:)`` writes.
    init(_ db: Database, isObserved: Bool = false) {
        (self.db, self.isObserved) = (db, isObserved)
    }

    /// Returns a statement, prepared once.
    func prepare(_ sql: String) throws -> SQLStatement {
        if let statement = statements[sql] { return statement }
        let statement = try prepareApart(sql)
        statements[sql] = statement
        return statement
    }

    /// Returns a statement that is used apart from others of the same text, by a reader of many rows.
    func prepareApart(_ sql: String) throws -> SQLStatement {
        // GRDB notes what any statement on its connection reads, and forgets it only when it prepares a statement itself. The
        // note would grow with every statement here, and each column that one reads would cost a copy of it.
        _ = try db.allStatements(sql: " ").next()
        return try SQLStatement(handle, sql)
    }

    /// Executes a statement that returns no rows.
    func execute(_ sql: String, _ values: consuming [StoredValue] = []) throws {
        guard isObserved else { return try prepare(sql).execute(values) }
        let statement = try observedStatements[sql] ?? SQLStatement(db, sql)
        // GRDB doesn't use a statement again that failed.
        observedStatements[sql] = nil
        try statement.execute(values)
        observedStatements[sql] = statement
    }

    /// Whether a transaction is in progress: a constraint with `ON CONFLICT ROLLBACK` ends it.
    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// How many rows the last `INSERT`, `UPDATE` or `DELETE` wrote, without what its triggers wrote.
    var writtenCount: Int { Int(sqlite3_changes(handle)) }

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

    /// What a connection does besides executing statements.
    enum Setting {
        /// Statements run the triggers of the schema.
        case triggers
        /// Statements observe foreign keys.
        case foreignKeys
        /// Names in double quotes are text where there is no such column.
        case doubleQuotedText
    }

    /// Changes a setting, and returns what it was.
    func set(_ setting: Setting, enabled isEnabled: Bool) throws -> Bool {
        let code =
            switch setting {
            case .triggers: SQLITE_DBCONFIG_ENABLE_TRIGGER
            case .foreignKeys: SQLITE_DBCONFIG_ENABLE_FKEY
            case .doubleQuotedText: SQLITE_DBCONFIG_DQS_DML
            }
        var former: CInt = 0
        let result = changeSetting(handle, code, isEnabled ? 1 : 0, &former)
        guard result == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
        return former != 0
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
