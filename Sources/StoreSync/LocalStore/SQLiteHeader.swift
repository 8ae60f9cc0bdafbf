import FileSupport
import Foundation
import SystemPackage

/// The first bytes of an SQLite database, as its file format documents them.
enum SQLiteHeader {
    /// The offset of the format's write and read version: 1 with a rollback journal, 2 with a write-ahead log.
    private static let versions = 18

    /// How a journal and a log begin.
    private static let sideFileMagics: [[UInt8]] = [
        [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7], [0x37, 0x7F, 0x06, 0x82], [0x37, 0x7F, 0x06, 0x83],
    ]

    /// Whether a journal or a log of SQLite may begin with these bytes, of which there are eight unless it's shorter.
    ///
    /// Empty, or with zeros at its start, it holds no transaction.
    static func maySideFileBegin(with start: [UInt8]) -> Bool {
        start.allSatisfy { $0 == 0 } || sideFileMagics.contains { start.starts(with: $0) }
    }

    /// Sets whether a database is opened with a write-ahead log; no connection may have it open.
    static func setUsesLog(_ usesLog: Bool, in url: URL) throws {
        let version: UInt8 = usesLog ? 2 : 1
        try overwrite(url, [(versions, [version, version])])
    }

    /// The fixed values of header fields that aren't part of a database's content.
    ///
    /// With them, equal content has equal bytes on every device. The journal mode is each device's own choice. The
    /// counters of changes and of schema changes tell connections of one file that their caches are stale, and a copy
    /// is a new file. The last two fields say which SQLite wrote last, and at which change count: otherwise SQLite
    /// ignores the length in the header.
    private static let normalFields: [(offset: Int, bytes: [UInt8])] = {
        let one: [UInt8] = [0, 0, 0, 1]
        // Version 3.7.0 was the first to write the last two fields.
        return [(versions, [1, 1]), (24, one), (40, one), (92, one), (96, [0, 0x2D, 0xE2, 0x18])]
    }()

    /// Sets the header fields that aren't part of the content to fixed values; no connection may have the database
    /// open.
    static func normalize(_ url: URL) throws {
        try overwrite(url, normalFields)
    }

    /// Sets the same fields in the first bytes of a database, and its length in pages.
    ///
    /// SQLite before version 3.7.0 left the length outdated.
    static func normalize(_ start: inout [UInt8], pageCount: UInt32) {
        let length = (28, withUnsafeBytes(of: pageCount.bigEndian, Array.init))
        for (offset, bytes) in normalFields + [length] {
            start.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
    }

    private static func overwrite(_ url: URL, _ fields: [(offset: Int, bytes: [UInt8])]) throws {
        try LocalFile.writing(url.path) { () throws(Errno) in
            let file = try OpenFile(path: url.path, O_WRONLY | O_NOFOLLOW)
            // Another user may have put a link in the place of this file.
            guard try file.status().linkCount <= 1 else { throw .tooManyLinks }
            for field in fields { try file.write(field.bytes, at: Int64(field.offset)) }
        }
    }
}
