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
        guard let file = SQLiteFile(SQLITE_FCNTL_FILE_POINTER, of: database) else { return false }
        return (try? file.read(at: 0, count: magic.count)) == magic
    }

    /// Sets whether a database, which nobody has open, is opened with a write-ahead log.
    static func setUsesLog(_ usesLog: Bool, in url: URL) throws {
        let version: UInt8 = usesLog ? 2 : 1
        try overwrite(url, [(versions, [version, version])])
    }

    /// What is put in the place of fields that say nothing of a database's content.
    ///
    /// So equal content has equal bytes on every device: the journal mode is a device's own affair; the counters of changes
    /// and of changes of the schema tell connections of one file when their caches are outdated, and this is a new file;
    /// the last two fields say which SQLite wrote last, and at which count, without which the file's length in the header
    /// would not be believed.
    private static let normalFields: [(offset: UInt64, bytes: [UInt8])] = {
        let one: [UInt8] = [0, 0, 0, 1]
        // Version 3.7.0 was the first to write the last two.
        return [(versions, [1, 1]), (24, one), (40, one), (92, one), (96, [0, 0x2D, 0xE2, 0x18])]
    }()

    /// Takes out of a database, which nobody has open, what says nothing of its content.
    static func normalize(_ url: URL) throws {
        try overwrite(url, normalFields)
    }

    /// Takes the same out of the first bytes of a database, and puts its length in, in pages: who wrote it before version 3.7.0
    /// left that outdated.
    static func normalize(_ start: inout [UInt8], pageCount: UInt32) {
        let length = (28 as UInt64, withUnsafeBytes(of: pageCount.bigEndian, Array.init))
        for (offset, bytes) in normalFields + [length] {
            start.replaceSubrange(Int(offset)..<Int(offset) + bytes.count, with: bytes)
        }
    }

    private static func overwrite(_ url: URL, _ fields: [(offset: UInt64, bytes: [UInt8])]) throws {
        do {
            let handle = try FileHandle(forUpdating: url)
            defer { try? handle.close() }
            for field in fields {
                try handle.seek(toOffset: field.offset)
                try handle.write(contentsOf: field.bytes)
            }
        } catch {
            throw StoreSyncError(writing: url, error)
        }
    }
}
