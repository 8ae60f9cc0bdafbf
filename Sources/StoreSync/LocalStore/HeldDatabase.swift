import Foundation
import GRDB
import GRDBSQLite

/// A database that stands still while it's read as a file, although others have it open.
///
/// In WAL mode, a read transaction that begins when all of the log has been copied into the database file and the log is
/// empty reads that file alone, and SQLite keeps everybody from copying newer pages into it until the transaction ends.
/// Writers go on in the log. With a rollback journal a read transaction keeps writers out, as it would while a copy is
/// made, which takes longer. So the file can be read as it stands, without a copy on this device.
///
/// It gives the same bytes as a ``StoreSnapshot`` of that moment holds.
final class HeldDatabase: @unchecked Sendable {
    // Sendable: the connection is used in its queue only.
    private let pages: DatabasePages
    private let store: LocalStore
    private let queue: DatabaseQueue
    private let fingerprint: LocalStore.Fingerprint?

    /// Its size in bytes.
    var byteCount: Int64 { pages.byteCount }

    /// Holds a database.
    ///
    /// Blocks, but doesn't wait for others.
    ///
    /// - Returns: `nil` if it can't be held: somebody is just writing to the file or reading from the log, or it can't be
    ///   opened. ``StoreSnapshot/take(of:at:whileCopying:)`` then copies it, or says why not.
    init?(_ store: LocalStore) {
        do {
            guard SQLiteHeader.isAtStart(of: store.url) else { return nil }
            var configuration = Configuration()
            // The transaction stays open between reads.
            configuration.allowsUnsafeTransactions = true
            configuration.busyMode = .immediateError
            let queue = try DatabaseQueue(path: store.path, configuration: configuration)
            guard let pages = try queue.inDatabase(DatabasePages.hold) else {
                try? queue.close()
                return nil
            }
            self.queue = queue
            self.store = store
            self.pages = pages
            fingerprint = store.fingerprint
        } catch {
            return nil
        }
    }

    /// Reads a piece of the database.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - offset: Where it begins, in bytes.
    ///   - count: How many bytes are wanted, at least 100 at the beginning.
    /// - Returns: The bytes; fewer than wanted only at the end.
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if they can't be read.
    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        do {
            return try queue.inDatabase { try pages.read($0, at: offset, upTo: count) }
        } catch {
            throw StoreSyncError(
                .storeChanged,
                "\(store.path) could not be read on. Nothing was published. Try again.",
                cause: error
            )
        }
    }

    /// Lets others write to the file again.
    ///
    /// - Throws: ``StoreSyncError/Code/storeChanged`` if somebody has done so before, past SQLite.
    func release() throws {
        let after = store.fingerprint
        try? queue.inDatabase { try $0.rollback() }
        try? queue.close()
        guard fingerprint == after else {
            throw StoreSyncError(
                .storeChanged,
                "Something other than SQLite wrote to \(store.path) while it was read. Nothing was published. Try again."
            )
        }
    }

    deinit { try? queue.close() }
}
