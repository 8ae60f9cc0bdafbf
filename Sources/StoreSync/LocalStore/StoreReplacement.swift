import Foundation
import GRDB
import SyncCryptography

/// Puts a downloaded store in the place of a local one.
///
/// A rename beside an old write-ahead log or a hot journal makes a database that is corrupt or, worse, silently mixed of
/// both. So the old store is opened by SQLite, which rolls back what a writer left that died, taken exclusively, compared
/// with what was expected, checkpointed and brought to a mode in which it has no side files; then renamed over, with the
/// lock still held. Whatever fails before the rename leaves the old store whole.
enum StoreReplacement {
    /// What the local store must be for it to be replaced.
    enum Expectation: Sendable {
        /// Nothing is there.
        case absent
        /// Its snapshot has one of these digests.
        case unchanged(acceptable: Set<ContentRoot>)
        /// Whatever it is, it's given up.
        case anything
    }

    /// How it's replaced.
    enum Mode: Sendable {
        /// By a rename. Nobody may have the store open.
        case rename
        /// By writing into it in one transaction, while others have it open.
        case writeIntoOpenStore
    }

    typealias FaultPoint = @Sendable (String) throws -> Void

    private static func prefix(_ store: LocalStore) -> String { ".\(store.url.lastPathComponent).storesync-" }

    /// A new name beside the store, for a download.
    static func temporaryURL(for store: LocalStore) -> URL {
        store.url.deletingLastPathComponent().appending(path: prefix(store) + UUID().uuidString)
    }

    /// Removes downloads that a process left beside the store when it died.
    static func removeLeftovers(of store: LocalStore) throws {
        let directory = store.url.deletingLastPathComponent()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        for name in names where name.hasPrefix(prefix(store)) {
            try? FileManager.default.removeItem(at: directory.appending(path: name))
        }
    }

    /// Replaces the store.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - store: The local store.
    ///   - download: The new one, in the same directory; it has moved when this returns, or was copied.
    ///   - expectation: What the local store must be.
    ///   - mode: How to replace it.
    ///   - faultPoint: Called before and after every step that changes something.
    /// - Throws: ``StoreSyncError``: `localChanges`, `busy`, `cannotWrite`.
    static func replace(
        _ store: LocalStore,
        with download: URL,
        expecting expectation: Expectation,
        mode: Mode = .rename,
        faultPoint: FaultPoint = { _ in }
    ) throws {
        guard try store.exists else {
            try refuseSurvivors(of: store, expectation, faultPoint)
            return try rename(download, over: store, faultPoint)
        }
        if case .absent = expectation { throw localChanges(store) }
        let database: DatabaseQueue?
        do {
            database = try store.openDatabase(timeout: 2)
        } catch let error as StoreSyncError where error.code == .corrupt {
            guard case .anything = expectation else { throw error }
            return try replaceFile(store, with: download, expectation, faultPoint)
        }
        guard let database else { return try replaceFile(store, with: download, expectation, faultPoint) }
        // Closed in every case; the locks go only then.
        defer { try? database.close() }
        switch mode {
        case .rename:
            try database.inDatabase { try replaceDatabase($0, store, download, expectation, faultPoint) }
        case .writeIntoOpenStore:
            try write(download, into: database, store, expectation, faultPoint)
        }
    }

    private static func localChanges(_ store: LocalStore) -> StoreSyncError {
        StoreSyncError(
            .localChanges,
            "\(store.path) was changed while its replacement was downloaded. Push it first, or pull with --overwrite to lose these changes."
        )
    }

    // MARK: An SQLite store that nobody else has open

    private static func replaceDatabase(
        _ db: Database,
        _ store: LocalStore,
        _ download: URL,
        _ expectation: Expectation,
        _ faultPoint: FaultPoint
    ) throws {
        do {
            // In this mode a lock once taken stays, across the end of transactions, until the connection is closed.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.inTransaction(.exclusive) { .commit }
        } catch {
            throw StoreSyncError(database: error, at: store.path)
        }
        try faultPoint("store locked")
        try check(db, store, download, expectation)
        let journalMode = try String.fetchOne(db, sql: "PRAGMA journal_mode") ?? "delete"
        do {
            try removeSideFiles(db, store, faultPoint)
            // The device keeps the kind of journal that it had.
            if journalMode == "wal", SQLiteHeader.isAtStart(of: download) {
                try SQLiteHeader.setUsesLog(true, in: download)
            }
            try rename(download, over: store, faultPoint)
        } catch {
            if journalMode == "wal" { try? db.execute(sql: "PRAGMA journal_mode = WAL") }
            throw error is DatabaseError ? StoreSyncError(database: error, at: store.path) : error
        }
    }

    /// Compares the store, which nobody else can change now, with what was expected.
    private static func check(
        _ db: Database,
        _ store: LocalStore,
        _ download: URL,
        _ expectation: Expectation
    ) throws {
        guard case .unchanged(let acceptable) = expectation else { return }
        let copy = temporaryURL(for: store)
        defer { try? FileManager.default.removeItem(at: copy) }
        try StoreSnapshot.copy(db, of: store, to: copy)
        guard acceptable.contains(try StoreSnapshot(at: copy).contentRoot) else { throw localChanges(store) }
    }

    private static func removeSideFiles(_ db: Database, _ store: LocalStore, _ faultPoint: FaultPoint) throws {
        _ = try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        try faultPoint("log checkpointed")
        let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE")
        guard mode == "delete" else {
            throw StoreSyncError(.busy, "\(store.path) is being used by another program. Close it there, or try again.")
        }
        try faultPoint("journal mode changed")
        // Now the connection has no journal of its own open, which it would delete by name when it's closed, and with it
        // the journal of whoever writes to the new store by then.
        _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = OFF")
        // What is left was emptied by the change of mode and is nobody's: the store is locked.
        for file in store.sideFiles { unlink(file) }
        try syncDirectory(of: store)
        try faultPoint("side files removed")
    }

    // MARK: A store that others have open

    private static func write(
        _ download: URL,
        into database: DatabaseQueue,
        _ store: LocalStore,
        _ expectation: Expectation,
        _ faultPoint: FaultPoint
    ) throws {
        do {
            let source = try DatabaseQueue(path: download.path)
            defer { try? source.close() }
            try database.inDatabase { db in
                try refuseOtherPageSize(db, source, store)
                // The comparison and the transaction that writes can't be one. What is written in between shows in the
                // data version; a moment remains between the look at it and the write lock.
                let version = try Int.fetchOne(db, sql: "PRAGMA data_version")
                try check(db, store, download, expectation)
                guard try Int.fetchOne(db, sql: "PRAGMA data_version") == version else {
                    guard case .anything = expectation else { throw localChanges(store) }
                    return
                }
            }
            try faultPoint("before the transaction")
            try source.inDatabase { from in try database.inDatabase { try from.backup(to: $0) } }
            try faultPoint("after the transaction")
        } catch let error as DatabaseError {
            throw StoreSyncError(database: error, at: store.path)
        }
    }

    private static func refuseOtherPageSize(_ db: Database, _ source: DatabaseQueue, _ store: LocalStore) throws {
        guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else { return }
        let own = try Int.fetchOne(db, sql: "PRAGMA page_size")
        let other = try source.inDatabase { try Int.fetchOne($0, sql: "PRAGMA page_size") }
        guard own != other else { return }
        throw StoreSyncError(
            .busy,
            "\(store.path) has another page size than its replacement, so it can't be replaced while it's open. Close it."
        )
    }

    // MARK: Files

    private static func replaceFile(
        _ store: LocalStore,
        with download: URL,
        _ expectation: Expectation,
        _ faultPoint: FaultPoint
    ) throws {
        try refuseSurvivors(of: store, expectation, faultPoint)
        if case .unchanged(let acceptable) = expectation {
            let copy = temporaryURL(for: store)
            defer { try? FileManager.default.removeItem(at: copy) }
            guard acceptable.contains(try StoreSnapshot.take(of: store, at: copy).contentRoot) else {
                throw localChanges(store)
            }
        }
        try rename(download, over: store, faultPoint)
    }

    /// Side files of a store that isn't there, or can't be read, would be taken for those of the new one.
    private static func refuseSurvivors(
        of store: LocalStore,
        _ expectation: Expectation,
        _ faultPoint: FaultPoint
    ) throws {
        let survivors = store.sideFiles
        guard !survivors.isEmpty else { return }
        guard case .anything = expectation else {
            throw StoreSyncError(
                .localChanges,
                "\(survivors[0]) is left of a former \(store.path) and may hold its changes. Move it away, or pull with --overwrite to lose them."
            )
        }
        for file in survivors { unlink(file) }
        try syncDirectory(of: store)
        try faultPoint("side files removed")
    }

    private static func rename(_ download: URL, over store: LocalStore, _ faultPoint: FaultPoint) throws {
        let mode = store.mode ?? (0o666 & ~currentMask)
        guard chmod(download.path, mode) == 0 else { throw StoreSyncError(writing: download.path, errno: errno) }
        try syncFile(download.path, O_RDONLY)
        try faultPoint("before the rename")
        guard Foundation.rename(download.path, store.path) == 0 else {
            throw StoreSyncError(writing: store.path, errno: errno)
        }
        try? faultPoint("after the rename")
        // Renamed is replaced: if the directory can't be synced, the new store is there all the same.
        try? syncDirectory(of: store)
    }

    /// The process's mask for new files, which can only be read by setting it.
    private static let currentMask: mode_t = {
        let mask = umask(0)
        umask(mask)
        return mask
    }()

    private static func syncDirectory(of store: LocalStore) throws {
        try syncFile(store.url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY)
    }

    private static func syncFile(_ path: String, _ flags: Int32) throws {
        let descriptor = open(path, flags | O_CLOEXEC)
        guard descriptor >= 0 else { throw StoreSyncError(writing: path, errno: errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw StoreSyncError(writing: path, errno: errno) }
    }
}
