import ContentDigests
import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import GRDBSQLite

/// Replaces a local store with a downloaded one.
///
/// A rename next to an old write-ahead log or a hot journal creates a database that is corrupt or, worse, silently
/// mixed. So SQLite opens the old store, which rolls back the transaction of a writer that died. The store is then
/// locked exclusively, compared with the expectation, checkpointed, and switched to a mode without side files. Then
/// it's renamed over, with the lock still held. A failure before the rename leaves the old store intact.
struct StoreReplacement {
    /// What the local store must be to be replaced.
    enum Expectation: Sendable {
        /// No store exists.
        case absent
        /// Its snapshot has one of these digests, or the store doesn't exist any more.
        case unchanged(acceptable: Set<ContentRoot>)
        /// Anything: its content is given up.
        case anything
    }

    let store: LocalStore
    let download: URL
    let expectation: Expectation

    /// Replaces the store.
    ///
    /// Blocks. A cancellation is noticed while the store is compared, and while it's written into; the writing is then
    /// rolled back.
    ///
    /// - Parameters:
    ///   - store: The local store.
    ///   - download: The new store, in the same directory. On return it was moved or copied.
    ///   - expectation: What the local store must be.
    ///   - mode: How to replace it.
    /// - Throws: ``StoreSyncError``: `localChanges`, `busy`, `cannotWrite`, `unsupportedFormat`; `CancellationError`.
    static func replace(
        _ store: LocalStore,
        with download: URL,
        expecting expectation: Expectation,
        mode: WholeStoreDownloadRequest.Replacement = .file
    ) throws {
        let replacement = StoreReplacement(store: store, download: download, expectation: expectation)
        do {
            try replacement.run(mode)
        } catch let error as DatabaseError {
            throw StoreSyncError(database: error, at: store.url.path).orCancellation
        }
    }

    private func run(_ mode: WholeStoreDownloadRequest.Replacement) throws {
        guard access(store.directory.path, W_OK) == 0 else {
            throw StoreSyncError(writing: store.directory.path, errno: errno)
        }
        guard try store.exists else { return try createStore() }
        if case .absent = expectation { throw localChanges }
        // Taken before the store is compared: from then on the file may not change, and no other one take its name.
        let (file, fingerprint) = (store.file, store.fingerprint)
        let database: DatabaseQueue?
        do {
            database = try store.openDatabase(timeout: 2)
        } catch let error as StoreSyncError where error.code == .corrupt {
            guard case (.anything, .file) = (expectation, mode) else { throw error }
            database = nil
        }
        // Closed in every case: only that releases the locks.
        defer { try? database?.close() }
        if isReadOnly(database) {
            throw StoreSyncError(
                .cannotWrite,
                """
                \(store.path) can't be locked, because this user can't write it: another program may be using it. Check its \
                permissions.
                """
            )
        }
        switch (database, mode) {
        case (let database?, .file):
            try database.inDatabase { try replaceDatabase($0) { $0.file == file } }
        case (let database?, .transaction): try write(into: database)
        case (nil, .file): try replaceFile { $0.fingerprint == fingerprint }
        case (nil, .transaction):
            throw StoreSyncError(
                .unsupportedFormat,
                "\(store.path) isn't an SQLite database, so it can't be written into while it's open. Close it."
            )
        }
    }

    private func isReadOnly(_ database: DatabaseQueue?) -> Bool {
        database?.inDatabase { sqlite3_db_readonly($0.sqliteConnection, "main") == 1 }
            ?? (store.isDatabase && access(store.url.path, W_OK) != 0)
    }

    var localChanges: StoreSyncError { .changedMeanwhile(store) }

    /// Compares the store with the expectation; no other connection can change it while `db` reads it.
    func check(_ db: Database) throws {
        guard case .unchanged(let acceptable) = expectation else { return }
        let root = try DatabasePages.contentRoot(of: db, store.pages) ?? copiedRoot(db)
        guard acceptable.contains(root) else { throw localChanges }
    }

    private func copiedRoot(_ db: Database) throws -> ContentRoot {
        let copy = Self.temporaryURL(for: store)
        defer { try? FileManager.default.removeItem(at: copy) }
        return try StoreSnapshot.copy(db, of: store, to: copy).contentRoot
    }

    // MARK: A database that no other connection has open

    /// Replaces a database by a rename.
    ///
    /// An idle connection to a store with a rollback journal has no lock, so it can't be detected. It continues to read the
    /// old store, and SQLite doesn't let it write any more.
    private func replaceDatabase(_ db: Database, ifUnchanged isUnchanged: (LocalStore) -> Bool) throws {
        // In this mode a lock, once taken, outlasts the transaction until the connection is closed.
        try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
        try db.inTransaction(.exclusive) { .commit }
        try store.steps.reached("store locked")
        try check(db)
        let usesLog = try db.usesLog
        do {
            // The store keeps its kind of journal on this device, even if this process dies.
            if usesLog { try Self.markLog(of: store) }
            try removeSideFiles(db)
            if usesLog, SQLiteFile.isDatabase(at: download.path) { try SQLiteHeader.setUsesLog(true, in: download) }
            try rename(ifUnchanged: isUnchanged)
        } catch {
            if usesLog, (try? String.fetchOne(db, sql: "PRAGMA journal_mode = WAL")) == "wal" {
                Self.unmarkLog(of: store)
            }
            throw error
        }
        if usesLog { Self.unmarkLog(of: store) }
    }

    private func removeSideFiles(_ db: Database) throws {
        _ = try Row.fetchOne(db, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        try store.steps.reached("log checkpointed")
        let mode = try String.fetchOne(db, sql: "PRAGMA journal_mode = DELETE")
        guard mode == "delete" else {
            throw StoreSyncError(.busy, "\(store.path) is being used by another program. Close it there, or try again.")
        }
        try store.steps.reached("journal mode changed")
        // With this mode the connection has no journal open. Otherwise it would delete the journal by name when it's
        // closed, even if another program is then using that journal to write to the new store.
        _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = OFF")
        // The changes of mode have emptied these files, and the lock keeps other programs out: deleting them loses
        // nothing.
        for file in store.sideFiles { unlink(file) }
        try LocalFile.synchronize(store.directory.path)
        try store.steps.reached("side files removed")
    }

    // MARK: Files

    /// Replaces a file that SQLite can't open: another kind of file, or a damaged or an encrypted database.
    private func replaceFile(ifUnchanged isUnchanged: (LocalStore) -> Bool) throws {
        // Compared before it's locked: the descriptor that reads it, when closed, would drop the lock.
        if case .unchanged(let acceptable) = expectation {
            guard acceptable.contains(try StoreSnapshot.digest(store).root) else { throw localChanges }
        }
        // Held until the file is replaced: programs that use such a database have locks on it.
        let lock = try SQLiteLock(ofFileAt: store.url.path)
        defer { lock?.release() }
        try refuseSurvivors()
        try rename(ifUnchanged: isUnchanged)
    }

    private func createStore() throws {
        try refuseSurvivors()
        try rename { _ in true }
    }

    /// Refuses or removes side files of a missing or unreadable store: SQLite would take them for those of the new
    /// store.
    ///
    /// If neither store is SQLite's by its header, they may be those of an encrypted database, and nothing is removed.
    private func refuseSurvivors() throws {
        guard store.isDatabase || SQLiteFile.isDatabase(at: download.path) else {
            return try StoreSnapshot.refuseSideFiles(of: store)
        }
        try store.refuseForeignFiles()
        let survivors = store.sideFiles
        guard !survivors.isEmpty else { return }
        guard case .anything = expectation else {
            throw StoreSyncError(
                .localChanges,
                "\(survivors[0]) belongs to a former \(store.path) and may hold its changes. Move that file away, or pull with --overwrite to lose these changes."
            )
        }
        for file in survivors { unlink(file) }
        try LocalFile.synchronize(store.directory.path)
        try store.steps.reached("side files removed")
    }

    /// Renames the download to the store's name, unless a program has written to the store or replaced it meanwhile.
    private func rename(ifUnchanged isUnchanged: (LocalStore) -> Bool) throws {
        guard access(download.path, F_OK) == 0 else { throw StoreSyncError.downloadRemoved(download.path) }
        let former = try store.status
        if let former {
            try LocalFile.adopt(former, download.path)
            FileAttributes.copy(from: store.url.path, to: download.path)
        } else {
            try LocalFile.adoptDefaults(download.path)
        }
        try LocalFile.synchronize(download.path)
        try store.steps.reached("before the rename")
        if former != nil {
            if case .unchanged = expectation, !isUnchanged(store) { throw localChanges }
            try LocalFile.rename(download.path, to: store.url.path)
        } else if try !LocalFile.renameExclusively(download, to: store.url) {
            throw localChanges
        }
        try? store.steps.reached("after the rename")
        // After the rename the store is replaced, even if the directory can't be synchronized.
        try? LocalFile.synchronize(store.directory.path)
    }
}
