import DatabaseSupport
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
    /// - Returns: The new sets; none if nothing changed.
    /// - Throws: ``StoreChangesError``.
    package func recordChanges(allowsDeletions: Bool = false, taking side: TakenSide? = nil) throws -> [SyncChangeSet] {
        try locked {
            try replicaDatabase.write { _ in
                let side = try recover(taking: side)
                _ = try replica.captureVoidSetsAgain(at: now().millisecondsSince1970)
                guard try unchangedVersion(taking: side) == nil else { return [] }
                let status = trustedStatus()
                let sets = try withSnapshot(readingPages: side == nil) { db, pages, _ in
                    try capture(db, allowsDeletions, since: pages, taking: side)
                }
                try replica.remember(status)
                return sets
            }
        }
    }

    /// The store's version, if the store is as it was captured last, to judge by the status of its files.
    func unchangedVersion(taking side: TakenSide?) throws -> Int? {
        guard side == nil else { return nil }
        return try store.read { db in
            // Before the status, in which every later commit shows.
            let version = try StoreConnection.version(db)
            return try replica.hasCaptured(StoreStatus(ofStoreAt: url.path)) ? version : nil
        }
    }

    /// The status of the store's files; `nil` if a later write might not show in it.
    func trustedStatus() -> StoreStatus? {
        let (now, status) = (now(), StoreStatus(ofStoreAt: url.path))
        return status.settled < now ? status : nil
    }

    /// The status of the files of a store that was just written, so that it needn't be read before the next edit.
    ///
    /// This waits until a later write would show in the status.
    ///
    /// - Parameter state: The state in which the store was left.
    /// - Returns: The status; `nil` if it can't be told that the store has still this state.
    func settledStatus(leftIn state: StoreConnection.LeftState) -> StoreStatus? {
        guard StoreStatus(ofStoreAt: url.path).byteCount > largestReread else { return nil }
        try? store.checkpoint()
        let delay = StoreStatus(ofStoreAt: url.path).settled.timeIntervalSince(now())
        if (0...StoreStatus.tick).contains(delay) { Thread.sleep(forTimeInterval: delay) }
        let now = now()
        guard let status = try? store.status(ofStoreAt: url.path, leftIn: state), status.settled < now else {
            return nil
        }
        return status
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
    ) throws -> [SyncChangeSet] {
        // In WAL mode only the log changes until the next checkpoint.
        let modified = [url.path, url.path + "-wal"].compactMap { path in
            try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }.max()
        let time = min(modified ?? now(), now()).millisecondsSince1970
        if let side { return try replica.capture(db, taking: side, at: time, allowsDeletions: allowsDeletions) }
        return try replica.capture(db, at: time, allowsDeletions: allowsDeletions, since: pages)
    }
}

extension Date {
    /// The time as stamps have it: 0 before 1970.
    var millisecondsSince1970: UInt64 { UInt64(max(0, timeIntervalSince1970 * 1000)) }
}
