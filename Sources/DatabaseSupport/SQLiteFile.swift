import GRDB
import GRDBSQLite

/// A file that SQLite has open.
///
/// A separate descriptor of a database, when closed, would drop SQLite's locks on the database in this process.
package struct SQLiteFile {
    private let file: UnsafeMutablePointer<sqlite3_file>
    let methods: sqlite3_io_methods

    /// Finds a file of a connection, which must outlive this value; `nil` if that file isn't open.
    ///
    /// - Parameters:
    ///   - control: `SQLITE_FCNTL_FILE_POINTER` for the database, `SQLITE_FCNTL_JOURNAL_POINTER` for its journal or log.
    ///   - connection: The connection.
    package init?(_ control: CInt, of connection: OpaquePointer?) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(connection, "main", control, &file) == SQLITE_OK, let file,
            let methods = file.pointee.pMethods?.pointee
        else { return nil }
        self.file = file
        self.methods = methods
    }

    /// The file's length in bytes.
    package var byteCount: Int64 {
        get throws {
            var count: Int64 = 0
            try check(methods.xFileSize?(file, &count))
            return count
        }
    }

    /// Reads bytes, all of which must exist.
    package func read(at offset: Int64, count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            try check(read(into: UnsafeMutableRawBufferPointer(buffer), at: offset))
            initialized = count
        }
    }

    /// Reads as many bytes as there is room for; returns SQLite's code.
    func read(into bytes: UnsafeMutableRawBufferPointer, at offset: Int64) -> CInt {
        methods.xRead?(file, bytes.baseAddress, CInt(bytes.count), offset) ?? SQLITE_ERROR
    }

    /// Lets SQLite call other methods of the file; returns the former ones.
    @discardableResult
    func replaceMethods(_ methods: UnsafePointer<sqlite3_io_methods>?) -> UnsafePointer<sqlite3_io_methods>? {
        defer { file.pointee.pMethods = methods }
        return file.pointee.pMethods
    }

    private func check(_ code: CInt?) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code ?? SQLITE_ERROR)) }
    }
}
