import Foundation
import GRDB
import SyncCryptography

/// Puts a downloaded store in the place of a local one.
///
/// A rename beside an old write-ahead log or a hot journal makes a database that is corrupt or, worse, silently mixed of
/// both. So the old store is opened by SQLite, which rolls back what a writer left that died, taken exclusively, compared
/// with what was expected, checkpointed and brought to a mode in which it has no side files; then renamed over, with the
/// lock still held. Whatever fails before the rename leaves the old store whole.
struct StoreReplacement {
    /// What the local store must be for it to be replaced.
    enum Expectation: Sendable {
        /// Nothing is there.
        case absent
        /// Its snapshot has one of these digests; or it has gone.
        case unchanged(acceptable: Set<ContentRoot>)
        /// Whatever it is, it's given up.
        case anything
    }

    /// How it's replaced.
    enum Mode: Sendable {
        /// By a rename. Nobody may have the store open.
        ///
        /// An idle connection to a store with a rollback journal has no lock and can't be noticed. It goes on reading the old
        /// store; SQLite doesn't let it write any more.
        case rename
        /// By writing into it in one transaction, while others have it open.
        case writeIntoOpenStore
    }

    typealias FaultPoint = @Sendable (String) throws -> Void

    let store: LocalStore
    let download: URL
    let expectation: Expectation
    let faultPoint: FaultPoint

    /// Replaces the store.
    ///
    /// Blocks. A cancellation is noticed while the store is compared, and while it's written into, which is then undone.
    ///
    /// - Parameters:
    ///   - store: The local store.
    ///   - download: The new one, in the same directory; it has moved when this returns, or was copied.
    ///   - expectation: What the local store must be.
    ///   - mode: How to replace it.
    ///   - faultPoint: Called before and after every step that changes something.
    /// - Throws: ``StoreSyncError``: `localChanges`, `busy`, `cannotWrite`, `unsupportedFormat`; `CancellationError`.
    static func replace(
        _ store: LocalStore,
        with download: URL,
        expecting expectation: Expectation,
        mode: Mode = .rename,
        faultPoint: @escaping FaultPoint = { _ in }
    ) throws {
        let replacement = StoreReplacement(
            store: store,
            download: download,
            expectation: expectation,
            faultPoint: faultPoint
        )
        do {
            try replacement.run(mode)
        } catch let error as DatabaseError {
            throw StoreSyncError(database: error, at: store.path).orCancellation
        }
    }

    private func run(_ mode: Mode) throws {
        guard access(store.directory.path, W_OK) == 0 else {
            throw StoreSyncError(writing: store.directory.path, errno: errno)
        }
        guard try store.exists else { return try fillEmptyPlace() }
        if case .absent = expectation { throw localChanges }
        let database: DatabaseQueue?
        do {
            database = try store.openDatabase(timeout: 2)
        } catch let error as StoreSyncError where error.code == .corrupt {
            guard case .anything = expectation else { throw error }
            return try replaceFile()
        }
        // Closed in every case; the locks go only then.
        defer { try? database?.close() }
        switch (database, mode) {
        case (let database?, .rename): try database.inDatabase(replaceDatabase)
        case (let database?, .writeIntoOpenStore): try write(into: database)
        case (nil, .rename): try replaceFile()
        case (nil, .writeIntoOpenStore):
            throw StoreSyncError(
                .unsupportedFormat,
                "\(store.path) isn't an SQLite database, so it can't be written into while it's open. Close it."
            )
        }
    }

    /// The error of a store that its replacement would lose something of.
    var localChanges: StoreSyncError {
        StoreSyncError(
            .localChanges,
            "\(store.path) was changed while its replacement was downloaded. Push it first, or pull with --overwrite to lose these changes."
        )
    }

    /// Compares the store, which nobody else can change while `db` reads it, with what was expected.
    func check(_ db: Database) throws {
        guard case .unchanged(let acceptable) = expectation else { return }
        guard acceptable.contains(try DatabasePages.contentRoot(of: db) ?? copiedRoot(db)) else { throw localChanges }
    }

    private func copiedRoot(_ db: Database) throws -> ContentRoot {
        let copy = Self.temporaryURL(for: store)
        defer { try? FileManager.default.removeItem(at: copy) }
        return try StoreSnapshot.copy(db, of: store, to: copy).contentRoot
    }

    // MARK: A database that nobody else has open

    private func replaceDatabase(_ db: Database) throws {
        // In this mode a lock once taken stays, across the end of transactions, until the connection is closed.
        try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
        try db.inTransaction(.exclusive) { .commit }
        try faultPoint("store locked")
        try check(db)
        let usesLog = try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
        do {
            // The device keeps the kind of journal that it had, also where this process dies.
            if usesLog { try Self.markLog(of: store) }
            try removeSideFiles(db)
            if usesLog, SQLiteHeader.isAtStart(of: download) { try SQLiteHeader.setUsesLog(true, in: download) }
            try rename()
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
        try LocalFile.synchronize(store.directory.path)
        try faultPoint("side files removed")
    }

    // MARK: Files

    private func replaceFile() throws {
        try refuseSurvivors()
        if case .unchanged(let acceptable) = expectation {
            guard acceptable.contains(try StoreSnapshot.digest(store).root) else { throw localChanges }
        }
        try rename()
    }

    private func fillEmptyPlace() throws {
        try refuseSurvivors()
        try rename()
    }

    /// Side files of a store that isn't there, or can't be read, would be taken for those of the new one.
    private func refuseSurvivors() throws {
        let survivors = store.sideFiles
        guard !survivors.isEmpty else { return }
        guard case .anything = expectation else {
            throw StoreSyncError(
                .localChanges,
                "\(survivors[0]) is left of a former \(store.path) and may hold its changes. Move it away, or pull with --overwrite to lose them."
            )
        }
        for file in survivors { unlink(file) }
        try LocalFile.synchronize(store.directory.path)
        try faultPoint("side files removed")
    }

    private func rename() throws {
        let former = store.status
        if let former {
            try LocalFile.adopt(former, download.path)
        } else {
            try LocalFile.adoptDefaults(download.path)
        }
        try LocalFile.synchronize(download.path)
        try faultPoint("before the rename")
        if former != nil {
            try LocalFile.rename(download.path, to: store.path)
        } else if try !LocalFile.renameExclusively(download.path, to: store.path) {
            throw localChanges
        }
        try? faultPoint("after the rename")
        // Renamed is replaced: if the directory can't be synced, the new store is there all the same.
        try? LocalFile.synchronize(store.directory.path)
    }
}
