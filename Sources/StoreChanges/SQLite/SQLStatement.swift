import GRDB
import GRDBSQLite

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A prepared statement.
final class SQLStatement {
    private let connection: OpaquePointer?
    private var statement: OpaquePointer?
    /// The statement as GRDB executes it, for its observers.
    private var observed: Statement?

    init(_ connection: OpaquePointer?, _ sql: String) throws {
        self.connection = connection
        try check(sqlite3_prepare_v2(connection, sql, -1, &statement, nil))
    }

    /// Prepares a statement that GRDB executes, so that the connection's observers are told what it writes.
    init(_ db: Database, _ sql: String) throws {
        connection = db.sqliteConnection
        let observed = try db.makeStatement(sql: sql)
        self.observed = observed
        statement = observed.sqliteStatement
    }

    deinit {
        // GRDB finalizes its own.
        if observed == nil { sqlite3_finalize(statement) }
    }

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

    func bind(_ integer: Int64, at index: CInt) throws { try check(sqlite3_bind_int64(statement, index, integer)) }

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

    /// Binds bytes, or `NULL`.
    func bind(_ bytes: [UInt8]?, at index: CInt) throws {
        try bind(bytes.map { StoredValue.blob($0) } ?? .null, at: index)
    }

    /// Executes a statement whose values are bound, and that returns no rows.
    func run() throws {
        defer { reset() }
        if let observed { return try observed.execute() }
        while try step() {}
    }

    /// Goes to the next row; `false` at the end.
    func step() throws -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw error(code)
        }
    }

    /// Executes the statement, which returns no rows.
    ///
    /// - Parameter values: Values that are released as soon as SQLite has its copies: it copies them again into the row that it
    ///   writes.
    /// - Throws: `DatabaseError`.
    func execute(_ values: consuming [StoredValue]) throws {
        // GRDB leaves alone what is bound after this.
        observed?.setUncheckedArguments([])
        try bind(values)
        _ = consume values
        try run()
    }

    /// The integer in the first column of the first row; `nil` if there is none.
    func firstInteger(_ values: [StoredValue]) throws -> Int64? {
        try bind(values)
        defer { reset() }
        return try step() ? integer(0) : nil
    }

    /// Makes the statement ready for other values, and frees the present ones: one may be large.
    func reset() {
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
    }

    /// The values of the row.
    var row: [StoredValue] { (0..<sqlite3_column_count(statement)).map(value) }

    /// The integer in a column; `nil` if it holds something else.
    func integer(_ column: CInt) -> Int64? {
        sqlite3_column_type(statement, column) == SQLITE_INTEGER ? sqlite3_column_int64(statement, column) : nil
    }

    /// Whether a column holds `NULL`.
    func isNull(_ column: CInt) -> Bool { sqlite3_column_type(statement, column) == SQLITE_NULL }

    /// Whether a column holds exactly these bytes.
    func holds(_ bytes: [UInt8], _ column: CInt) -> Bool {
        guard let start = sqlite3_column_blob(statement, column) else { return bytes.isEmpty && !isNull(column) }
        let count = Int(sqlite3_column_bytes(statement, column))
        return bytes.withUnsafeBytes { bytes in
            bytes.count == count && bytes.baseAddress.map { memcmp($0, start, count) == 0 } ?? true
        }
    }

    /// The bytes of a column that holds a blob; `nil` if it's `NULL`.
    func blob(_ column: CInt) -> [UInt8]? {
        isNull(column) ? nil : bytes(sqlite3_column_blob(statement, column), column)
    }

    /// Writes a column's value as change sets have it.
    func write(_ column: CInt, to writer: inout ByteWriter) {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: writer.integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: writer.real(sqlite3_column_double(statement, column).bitPattern)
        case SQLITE_TEXT: writer.text(buffer(sqlite3_column_text(statement, column), column))
        case SQLITE_BLOB: writer.blob(buffer(sqlite3_column_blob(statement, column), column))
        default: writer.null()
        }
    }

    func value(_ column: CInt) -> StoredValue {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT: .text(bytes(sqlite3_column_text(statement, column), column))
        case SQLITE_BLOB: .blob(bytes(sqlite3_column_blob(statement, column), column))
        default: .null
        }
    }

    private func bytes(_ start: UnsafeRawPointer?, _ column: CInt) -> [UInt8] { Array(buffer(start, column)) }

    private func buffer(_ start: UnsafeRawPointer?, _ column: CInt) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }
}

// Never freed, and never written.
private nonisolated(unsafe) let emptyText: UnsafePointer<CChar> = {
    let text = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    text.pointee = 0
    return UnsafePointer(text)
}()
