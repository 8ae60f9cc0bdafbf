import Foundation
import GRDB

/// Finding what the user changed, while an app may write to the store.
extension SynchronizedStore {
    /// Captures what the user changed, without writing to the store.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - side: What counts if another store was written last.
    /// - Returns: The new set; `nil` if nothing changed.
    /// - Throws: ``StoreChangesError``.
    package func recordChanges(allowsDeletions: Bool = false, taking side: TakenSide? = nil) throws -> SyncChangeSet? {
        try locked {
            try replicaDatabase.write { _ in
                let side = try recover(taking: side)
                guard let status = try changedStatus(taking: side) else { return nil }
                let set = try withSnapshot(readingPages: side == nil) { db, pages, _ in
                    try capture(db, allowsDeletions, since: pages, taking: side)
                }
                try replica.remember(status)
                return set
            }
        }
    }

    /// The status of the store's files, if it may have changed since the last capture; `nil` if nothing is to be done.
    func changedStatus(taking side: TakenSide?) throws -> StoreStatus?? {
        let (status, now) = (StoreStatus(ofStoreAt: url.path), Int64(now().timeIntervalSince1970))
        if try side == nil && replica.isIdle(status) { return .none }
        return .some(status.isTrusted(at: now) ? status : nil)
    }

    /// Calls `body` with a consistent view of the store, its pages, and its version.
    ///
    /// In WAL mode readers and writers don't wait for each other. With a rollback journal an app can't write while the
    /// store is read; so the store is copied unless few rows have to be read, and an app waits only until then.
    ///
    /// - Parameters:
    ///   - readsPages: Whether `body` gets the pages, and reads only rows that may have changed.
    ///   - body: Reads the store.
    /// - Returns: What `body` returns.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func withSnapshot<Result>(
        readingPages readsPages: Bool = true,
        _ body: (Database, RememberedPages?, Int) throws -> Result
    ) throws -> Result {
        let mode = try store.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        try? FileManager.default.removeItem(at: copyURL)
        defer { try? FileManager.default.removeItem(at: copyURL) }
        let snapshot: Snapshot<Result> = try store.read { source in
            let version = try StoreConnection.version(source)
            let pages = readsPages ? try replica.pages(of: source) : nil
            guard mode != "wal", pages?.areMostlyUnchanged != true else {
                return .read(try body(source, pages, version))
            }
            let copy = try DatabaseQueue(path: copyURL.path, configuration: Self.discardable)
            try copy.writeWithoutTransaction { try source.backup(to: $0) }
            return .copied(copy, pages, version)
        }
        switch snapshot {
        case .read(let result): return result
        case .copied(let copy, let pages, let version): return try copy.read { try body($0, pages, version) }
        }
    }

    /// What was read of a store, or a copy of it with its pages and its version.
    private enum Snapshot<Result> {
        case read(Result)
        case copied(DatabaseQueue, RememberedPages?, Int)
    }

    func capture(
        _ db: Database,
        _ allowsDeletions: Bool,
        since pages: RememberedPages?,
        taking side: TakenSide? = nil
    ) throws -> SyncChangeSet? {
        // In WAL mode only the log changes until the next checkpoint.
        let modified = [url.path, url.path + "-wal"].compactMap { path in
            try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }.max()
        let time = UInt64(max(0, min(modified ?? now(), now()).timeIntervalSince1970 * 1000))
        if let side { return try replica.capture(db, taking: side, at: time, allowsDeletions: allowsDeletions) }
        return try replica.capture(db, at: time, allowsDeletions: allowsDeletions, since: pages)
    }
}
