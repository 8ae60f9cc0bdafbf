// The members of SQLite's structures belong to the one of both modules that the compiler reads first.
import CSQLite
import Foundation
import GRDB
import GRDBSQLite

/// A file that SQLite has open.
///
/// A separate descriptor of a database, when closed, would drop SQLite's locks on the database in this process.
package struct SQLiteFile {
    private let file: UnsafeMutablePointer<sqlite3_file>
    private let methods: sqlite3_io_methods

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

    /// Reads bytes of a file that no connection needs to have open; `nil` if they don't exist.
    ///
    /// `immutable` keeps SQLite from checking for files next to it: next to a file that isn't a database, SQLite would
    /// remove a file that it takes for a stale log.
    package static func bytes(ofFileAt path: String, at offset: Int64, count: Int) -> [UInt8]? {
        var database: OpaquePointer?
        defer { sqlite3_close(database) }
        let path = path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? path
        let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
        guard sqlite3_open_v2("file:\(path)?immutable=1", &database, flags, nil) == SQLITE_OK else { return nil }
        return try? SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: database)?.read(at: offset, count: count)
    }

    /// Whether a file begins as an SQLite database does.
    ///
    /// SQLite takes any file of less than 512 bytes for an empty database.
    package static func isDatabase(at path: String) -> Bool {
        let magic = Array("SQLite format 3\0".utf8)
        return bytes(ofFileAt: path, at: 0, count: magic.count) == magic
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
            try check(methods.xRead?(file, buffer.baseAddress, CInt(count), offset))
            initialized = count
        }
    }

    /// Reads all bytes, and keeps none.
    func readThrough() throws {
        let (count, block) = (try byteCount, Int64(1 << 20))
        for offset in stride(from: 0, to: count, by: Int(block)) {
            _ = try read(at: offset, count: Int(min(block, count - offset)))
        }
    }

    /// The first bytes of the memory that all connections to a database share; `nil` if there is none.
    ///
    /// - Parameter count: How many bytes.
    /// - Returns: The bytes, which other connections may change meanwhile.
    func sharedMemory(upTo count: Int) -> [UInt8]? {
        guard methods.iVersion >= 2 else { return nil }
        var memory: UnsafeMutableRawPointer?
        // SQLite maps it in parts of 32 KiB, and has mapped the first already. If it may only read them, it says so, and they are there.
        _ = withUnsafeMutablePointer(to: &memory) { methods.xShmMap?(file, 0, 32_768, 0, $0) }
        return memory.map { Array(UnsafeRawBufferPointer(start: $0, count: count)) }
    }

    /// Takes a lock, as a connection would; returns SQLite's code.
    fileprivate func lock(_ lock: CInt) -> CInt { methods.xLock?(file, lock) ?? SQLITE_ERROR }

    private func check(_ code: CInt?) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code ?? SQLITE_ERROR)) }
    }
}

/// SQLite's exclusive lock on a file, which needn't be a database that SQLite can open.
///
/// A connection excludes it while it reads or writes, and as long as it's open if the database is in WAL mode.
package final class SQLiteLock {
    private var connection: OpaquePointer?

    /// Takes the lock, without waiting; `nil` if this user or the file system can't lock the file.
    ///
    /// - Parameter path: The file.
    /// - Throws: `DatabaseError` with `SQLITE_BUSY` if a connection has a lock on it.
    package init?(ofFileAt path: String) throws {
        guard sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK,
            let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: connection)
        else { return nil }
        // SQLite takes the exclusive lock only after the shared one.
        for lock in [SQLITE_LOCK_SHARED, SQLITE_LOCK_EXCLUSIVE] {
            let code = ResultCode(rawValue: file.lock(lock))
            guard code.primaryResultCode != .SQLITE_BUSY else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
            guard code == .SQLITE_OK else { return nil }
        }
    }

    /// Releases the lock.
    package func release() {
        sqlite3_close(connection)
        connection = nil
    }

    deinit { release() }
}
