import Foundation
import GRDBSQLite

/// The first bytes of an SQLite database, as its file format documents them.
enum SQLiteHeader {
    private static let magic = Array("SQLite format 3\0".utf8)
    /// Where the format's write and read version stand: 1 with a rollback journal, 2 with a write-ahead log.
    private static let versions: UInt64 = 18

    /// Whether a file is an SQLite database.
    ///
    /// It's read through SQLite's own file handle: a descriptor of ours, when closed, would take the locks away that SQLite
    /// has on the file in this process. And without a look at what stands beside it: beside a file that isn't a database
    /// SQLite would remove what it takes for an outdated log.
    static func isAtStart(of url: URL) -> Bool {
        var database: OpaquePointer?
        defer { sqlite3_close(database) }
        let path = url.path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? url.path
        let flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
        guard sqlite3_open_v2("file:\(path)?immutable=1", &database, flags, nil) == SQLITE_OK else { return false }
        var file: UnsafeMutablePointer<sqlite3_file>?
        guard sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK,
            let file, let read = file.pointee.pMethods?.pointee.xRead
        else { return false }
        var start = [UInt8](repeating: 0, count: magic.count)
        return read(file, &start, Int32(start.count), 0) == SQLITE_OK && start == magic
    }

    /// Sets whether a database, which nobody has open, is opened with a write-ahead log.
    ///
    /// Which journal a store has is a device's own affair: it isn't part of what is synchronized.
    static func setUsesLog(_ usesLog: Bool, in url: URL) throws {
        let version: UInt8 = usesLog ? 2 : 1
        let handle = try FileHandle(forUpdating: url)
        defer { try? handle.close() }
        try handle.seek(toOffset: versions)
        try handle.write(contentsOf: [version, version])
    }
}
