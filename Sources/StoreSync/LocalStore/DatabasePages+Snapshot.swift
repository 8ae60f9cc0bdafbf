import ContentDigests
import DatabaseSupport
import GRDB

/// What a snapshot of a database would hold.
extension DatabasePages {
    /// The offset of the page on which SQLite sets its locks: its content is meaningless, and no copy contains it.
    private static let lockByte: Int64 = 1 << 30

    /// Begins a read transaction that reads nothing but the database file, to which no connection writes meanwhile.
    ///
    /// The result is `nil`, without a transaction, if part of the database is in a log that others are reading.
    static func hold(_ db: Database) throws -> DatabasePages? {
        try emptyLog(of: db)
        try db.beginTransaction(.deferred)
        do {
            if let pages = try DatabasePages(of: db) { return pages }
        } catch {
            try? db.rollback()
            throw error
        }
        try db.rollback()
        return nil
    }

    /// Reads a part of the database in the transaction, with the bytes that a snapshot has.
    ///
    /// Blocks. At offset 0, `count` is at least 100. The result has fewer bytes than `count` only at the end.
    func readSnapshot(_ db: Database, at offset: Int64, upTo count: Int) throws -> [UInt8] {
        var bytes = try read(db, at: offset, upTo: count)
        if offset == 0 { SQLiteHeader.normalize(&bytes, pageCount: UInt32(byteCount / Int64(pageSize))) }
        let end = offset + Int64(bytes.count)
        let lockPage = (Self.lockByte..<Self.lockByte + Int64(pageSize)).clamped(to: offset..<end)
        for index in lockPage { bytes[Int(index - offset)] = 0 }
        return bytes
    }

    /// The digest that a snapshot of a database would have; `nil` if the file can't be kept unchanged.
    ///
    /// Blocks. The connection has no transaction.
    static func contentRoot(of db: Database, _ hash: PageHash) throws -> ContentRoot? {
        guard let pages = try hold(db) else { return nil }
        defer { try? db.rollback() }
        var hasher = ContentRootHasher(hash)
        while hasher.byteCount < pages.byteCount {
            try Task.checkCancellation()
            hasher.update(try pages.readSnapshot(db, at: hasher.byteCount, upTo: ContentRoot.blockSize))
        }
        return hasher.finalize()
    }
}
