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

    /// Executes a statement that returns no rows.
    func execute(_ sql: String, _ values: [StoredValue] = []) throws {
        let statement = try prepare(sql)
        try statement.bind(values)
        defer { statement.reset() }
        while try statement.step() {}
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
        // Not cached, because `body` may execute the same statement.
        let statement = try SQLStatement(handle, sql)
        try statement.bind(values)
        while try statement.step() { try body(statement.row) }
    }

    /// Sets whether statements run the triggers of the schema.
    func setTriggers(enabled isEnabled: Bool) throws {
        let code = setTriggersEnabled(handle, isEnabled ? 1 : 0)
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}

/// A prepared statement.
final class SQLStatement {
    private let connection: OpaquePointer?
    private var statement: OpaquePointer?

    init(_ connection: OpaquePointer?, _ sql: String) throws {
        self.connection = connection
        try check(sqlite3_prepare_v2(connection, sql, -1, &statement, nil))
    }

    deinit { sqlite3_finalize(statement) }

    private func check(_ code: CInt) throws {
        guard code == SQLITE_OK else { throw error(code) }
    }

    private func error(_ code: CInt) -> DatabaseError {
        let extended = sqlite3_extended_errcode(connection)
        return DatabaseError(
            resultCode: ResultCode(rawValue: extended == SQLITE_OK ? code : extended),
            message: sqlite3_errmsg(connection).map { String(cString: $0) }
        )
    }

    func bind(_ values: [StoredValue]) throws {
        reset()
        for (index, value) in values.enumerated() { try bind(value, at: CInt(index + 1)) }
    }

    private func bind(_ value: StoredValue, at index: CInt) throws {
        // SQLite copies the bytes before the call returns.
        let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch value {
        case .null: try check(sqlite3_bind_null(statement, index))
        case .integer(let integer): try check(sqlite3_bind_int64(statement, index, integer))
        case .real(let bitPattern): try check(sqlite3_bind_double(statement, index, Double(bitPattern: bitPattern)))
        case .text(let bytes):
            try bytes.withUnsafeBytes { bytes in
                // Empty text needs an address too, or it becomes NULL.
                let start = bytes.bindMemory(to: CChar.self).baseAddress
                let count = UInt64(bytes.count)
                try check(sqlite3_bind_text64(statement, index, start ?? emptyText, count, copies, UInt8(SQLITE_UTF8)))
            }
        case .blob(let bytes):
            try bytes.withUnsafeBytes { bytes in
                bytes.isEmpty
                    ? try check(sqlite3_bind_zeroblob(statement, index, 0))
                    : try check(sqlite3_bind_blob64(statement, index, bytes.baseAddress, UInt64(bytes.count), copies))
            }
        }
    }

    /// Goes to the next row; `false` at the end.
    func step() throws -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw error(code)
        }
    }

    func reset() { sqlite3_reset(statement) }

    /// The values of the row.
    var row: [StoredValue] { (0..<sqlite3_column_count(statement)).map(value) }

    private func value(_ column: CInt) -> StoredValue {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT: .text(bytes(sqlite3_column_text(statement, column), column))
        case SQLITE_BLOB: .blob(bytes(sqlite3_column_blob(statement, column), column))
        default: .null
        }
    }

    private func bytes(_ start: UnsafeRawPointer?, _ column: CInt) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
    }
}

// Never freed, and never written.
private nonisolated(unsafe) let emptyText: UnsafePointer<CChar> = {
    let text = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    text.pointee = 0
    return UnsafePointer(text)
}()

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
