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
                return try captureSnapshot(readingPages: side == nil) {
                    try capture($0, allowsDeletions: allowsDeletions, taking: side)
                }
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

    /// The status of the store's files; `nil` if they have changed since, or if a later write might not show.
    private func trusted(_ status: StoreStatus) -> StoreStatus? {
        status.settled < now() && status == StoreStatus(ofStoreAt: url.path) ? status : nil
    }

    /// The status of the files of a store that was just written, so that it needn't be read before the next edit.
    ///
    /// This waits until a later write would show in the status.
    ///
    /// - Parameter state: The state in which the store was left.
    /// - Returns: The status; `nil` if it can't be told that the store has still this state.
    func settledStatus(leftIn state: StoreConnection.LeftState) -> StoreStatus? {
        guard StoreStatus(ofStoreAt: url.path).byteCount > largestReread else { return nil }
        if !store.isOfApp { try? store.emptyLog() }
        let delay = StoreStatus(ofStoreAt: url.path).settled.timeIntervalSince(now())
        if (0...StoreStatus.tick).contains(delay) { Thread.sleep(forTimeInterval: delay) }
        let now = now()
        guard let status = try? store.status(ofStoreAt: url.path, leftIn: state), status.settled < now else {
            return nil
        }
        return status
    }

    /// A consistent view of a store.
    struct View {
        let db: Database
        /// The store's pages, which tell which rows may have changed; `nil` if all rows are to be compared.
        let pages: RememberedPages?
        /// The store's version.
        let version: Int
        /// When the store was last written, in milliseconds since 1970.
        let time: UInt64
    }

    /// Captures a consistent view of the store, and remembers the status of its files.
    ///
    /// In WAL mode readers and writers don't wait for each other. With a rollback journal an app can't write while the
    /// store is read; so the store is copied unless few rows have to be read, and an app waits only until then. It's copied
    /// too if other connections keep a part of it in the log, since pages are read from a file that doesn't change.
    ///
    /// - Parameters:
    ///   - readsPages: Whether the view has the pages.
    ///   - body: Captures the view.
    /// - Returns: What `body` returns.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func captureSnapshot<Result>(readingPages readsPages: Bool = true, _ body: (View) throws -> Result) throws -> Result
    {
        let mode = try store.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
        try? FileManager.default.removeItem(at: copyURL)
        defer { try? FileManager.default.removeItem(at: copyURL) }
        // Emptying the log changes the files.
        let time = lastModification()
        if readsPages { try store.emptyLog() }
        let former = StoreStatus(ofStoreAt: url.path)
        let (snapshot, status) = try store.read { source in
            let pages = readsPages ? try replica.pages(of: source) : nil
            let view = View(db: source, pages: pages, version: try StoreConnection.version(source), time: time)
            let readsInPlace = mode == "wal" ? pages != nil || !readsPages : pages?.areMostlyUnchanged == true
            let snapshot: Snapshot<Result> =
                readsInPlace ? .captured(try body(view)) : .copied(try copy(source), pages, view.version)
            // Only pages tell that nothing was in a log, and the file is as it was read until the transaction ends.
            return (snapshot, pages == nil ? nil : trusted(former))
        }
        let result: Result
        switch snapshot {
        case .captured(let captured): result = captured
        case .copied(let copy, let pages, let version):
            result = try copy.read { db in
                let pages = try pages ?? (readsPages ? replica.pages(of: db) : nil)
                return try body(View(db: db, pages: pages, version: version, time: time))
            }
        }
        try replica.remember(status)
        return result
    }

    /// What was captured, or a copy of the store with its pages and its version.
    private enum Snapshot<Result> {
        case captured(Result)
        case copied(DatabaseQueue, RememberedPages?, Int)
    }

    private func copy(_ source: Database) throws -> DatabaseQueue {
        let copy = try DatabaseQueue(path: copyURL.path, configuration: Self.discardable)
        try copy.writeWithoutTransaction { try source.backup(to: $0) }
        return copy
    }

    /// When the store was last written, in milliseconds since 1970.
    func lastModification() -> UInt64 {
        // In WAL mode only the log changes until the next checkpoint.
        let modified = [url.path, url.path + "-wal"].compactMap { path in
            try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        }.max()
        return min(modified ?? now(), now()).millisecondsSince1970
    }

    func capture(_ view: View, allowsDeletions: Bool, taking side: TakenSide? = nil) throws -> [SyncChangeSet] {
        if let side {
            return try replica.capture(view.db, taking: side, at: view.time, allowsDeletions: allowsDeletions)
        }
        return try replica.capture(view.db, at: view.time, allowsDeletions: allowsDeletions, since: view.pages)
    }
}

extension Date {
    /// The time as stamps have it: 0 before 1970.
    var millisecondsSince1970: UInt64 { UInt64(max(0, timeIntervalSince1970 * 1000)) }
}
