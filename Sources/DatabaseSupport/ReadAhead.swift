package import GRDB
import GRDBSQLite

/// Lets SQLite read a database's file in blocks, where otherwise each page would be a system call of its own.
///
/// Use it while a transaction reads most of the database in the order of the file. No page that the transaction needs from
/// the file changes before it ends: with a rollback journal writers wait, and with a write-ahead log newer pages stay
/// there. So a page may be read before it's needed.
package enum ReadAhead {
    private static let blockBytes = 1 << 18

    /// Calls `body`, in which SQLite reads the file in blocks.
    ///
    /// - Parameters:
    ///   - db: A connection in a transaction that has read something, and that `body` doesn't end.
    ///   - body: Reads.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    package static func reading<Result>(_ db: Database, _ body: () throws -> Result) rethrows -> Result {
        guard let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: db.sqliteConnection) else { return try body() }
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: blockBytes, alignment: 1 << 12)
        defer { block.deallocate() }
        var methods = Methods(of: file, block)
        return try withUnsafeMutablePointer(to: &methods) { methods in
            // SQLite calls the file's methods through this pointer only.
            let own = file.replaceMethods(UnsafeRawPointer(methods).assumingMemoryBound(to: sqlite3_io_methods.self))
            defer { file.replaceMethods(own) }
            return try body()
        }
    }

    /// The file's methods with another `xRead`, and what `xRead` needs.
    ///
    /// `methods` comes first, because SQLite's pointer leads there.
    private struct Methods {
        private let methods: sqlite3_io_methods
        private let file: SQLiteFile
        private let block: UnsafeMutableRawBufferPointer
        /// The part of the file that is in the block.
        private var range: Range<Int64> = 0..<0

        init(of file: SQLiteFile, _ block: UnsafeMutableRawBufferPointer) {
            self.file = file
            self.block = block
            var methods = file.methods
            methods.xRead = { file, bytes, count, offset in
                guard let file, let bytes else { return SQLITE_IOERR }
                return UnsafeMutableRawPointer(mutating: file.pointee.pMethods)
                    .assumingMemoryBound(to: Methods.self)
                    .pointee.read(UnsafeMutableRawBufferPointer(start: bytes, count: Int(count)), at: offset)
            }
            self.methods = methods
        }

        private mutating func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int64) -> CInt {
            let wanted = offset..<offset + Int64(bytes.count)
            if wanted.clamped(to: range) != wanted { readBlock(at: offset, pageSize: bytes.count) }
            // A block that can't be read may have pages that can, and SQLite wants to know where the file ends early.
            guard wanted.clamped(to: range) == wanted else { return file.read(into: bytes, at: offset) }
            bytes.copyMemory(
                from: UnsafeRawBufferPointer(rebasing: block[Int(offset - range.lowerBound)...].prefix(bytes.count))
            )
            return SQLITE_OK
        }

        private mutating func readBlock(at offset: Int64, pageSize: Int) {
            range = 0..<0
            guard let size = try? file.byteCount, offset < size else { return }
            // Whole pages, as SQLite itself reads.
            let count = min(block.count, Int(size - offset)) / pageSize * pageSize
            guard file.read(into: UnsafeMutableRawBufferPointer(rebasing: block.prefix(count)), at: offset) == SQLITE_OK
            else {
                return
            }
            range = offset..<offset + Int64(count)
        }
    }
}
