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
    package func recordChanges(allowsDeletions: Bool = false, taking side: TakenSide? = nil) throws -> [OwnSet] {
        try locked { try recordChangesLocked(allowsDeletions: allowsDeletions, taking: side) }
    }

    /// As ``recordChanges(allowsDeletions:taking:)``, with the replica's lock held, maybe after a row was restored.
    func recordChangesLocked(
        allowsDeletions: Bool,
        taking side: TakenSide? = nil,
        writtenAgain: RowWrittenAgain? = nil
    ) throws -> [OwnSet] {
        try replicaDatabase.write { _ in
            let side = try recover(taking: side)
            // These sets are about the replica's store.
            if side == nil { _ = try replica.captureVoidSetsAgain(at: now().millisecondsSince1970) }
            guard try unchangedVersion(taking: side) == nil else { return [] }
            return try captureSnapshot(readingPages: side == nil) {
                try capture($0, allowsDeletions: allowsDeletions, taking: side, writtenAgain: writtenAgain)
            }
        }
    }

    /// The store's version, if the store is as it was captured last, to judge by the status of its files.
    func unchangedVersion(taking side: TakenSide?) throws -> Int? {
        guard side == nil else { return nil }
        return try store.read { db in
            // Before the status, in which every later commit shows.
            let version = try StoreConnection.version(db)
            let status = StoreStatus(ofStoreAt: url.path, log: try WriteAheadLog(of: db))
            return try replica.hasCaptured(status) ? version : nil
        }
    }

    /// The status of the files of a store that was just written, so that it needn't be read before the next edit.
    ///
    /// This waits until a later write would show in the status.
    ///
    /// - Parameter state: The state in which the store was left.
    /// - Returns: The status; `nil` if it can't be told that the store has still this state.
    func settledStatus(leftIn state: StoreConnection.LeftState) -> StoreStatus? {
        guard StoreStatus(ofStoreAt: url.path).byteCount > largestReread else { return nil }
        try? store.emptyLog()
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
        var db: Database
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
    /// store is read; so the store is copied unless few rows have to be read, and an app waits only until then.
    ///
    /// - Parameters:
    ///   - readsPages: Whether the view has the pages.
    ///   - body: Captures the view.
    /// - Returns: What `body` returns.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func captureSnapshot<Result>(readingPages readsPages: Bool = true, _ body: (View) throws -> Result) throws -> Result
    {
        try? FileManager.default.removeItem(at: copyURL)
        defer { try? FileManager.default.removeItem(at: copyURL) }
        let begin = now()
        // The files of a small store stay as they are: all its rows are compared in a fifth of a second.
        let movesLog = readsPages && StoreStatus(ofStoreAt: url.path).byteCount > largestReread
        let (snapshot, status) = try store.read(movingLog: movesLog) { source, files in
            let pages = readsPages ? try replica.pages(of: source) : nil
            let view = View(db: source, pages: pages, version: files.version, time: time(ofEditsUntil: files.modified))
            let readsInPlace = try source.usesLog || pages?.areMostlyUnchanged == true
            let snapshot: Snapshot<Result> =
                readsInPlace ? .captured(try body(view)) : .copied(try copy(source), view)
            // A later write shows in the status. Pages are read from a file that doesn't change in the transaction.
            let status = files.status.flatMap { $0.settled < (pages == nil ? begin : now()) ? $0 : nil }
            return (snapshot, status)
        }
        let result: Result
        switch snapshot {
        case .captured(let captured): result = captured
        case .copied(let copy, var view):
            result = try copy.read { db in
                view.db = db
                return try body(view)
            }
        }
        try replica.remember(status)
        return result
    }

    /// What was captured, or a copy of the store with its pages and its version.
    private enum Snapshot<Result> {
        case captured(Result)
        case copied(DatabaseQueue, View)
    }

    private func copy(_ source: Database) throws -> DatabaseQueue {
        let copy = try DatabaseQueue(path: copyURL.path, configuration: Self.discardable)
        try copy.writeWithoutTransaction { try source.backup(to: $0) }
        return copy
    }

    /// The time of edits in a store, in milliseconds since 1970: when it was last written.
    func time(ofEditsUntil modified: Date?) -> UInt64 { min(modified ?? now(), now()).millisecondsSince1970 }

    func capture(
        _ view: View,
        allowsDeletions: Bool,
        taking side: TakenSide? = nil,
        writtenAgain: RowWrittenAgain? = nil
    ) throws -> [OwnSet] {
        if let side {
            return try replica.capture(view.db, taking: side, at: view.time, allowsDeletions: allowsDeletions)
        }
        // A backup may have been restored into the file since the store's token was read last.
        try refuseOtherStore(view.db)
        return try replica.capture(
            view.db,
            at: view.time,
            allowsDeletions: allowsDeletions,
            since: view.pages,
            writtenAgain: writtenAgain
        )
    }

    /// Checks that a connection is still to the store: its file may have been replaced, or a backup restored into it.
    ///
    /// - Parameter db: The connection, in a transaction.
    /// - Throws: ``StoreChangesError`` with `storeReplaced`.
    func refuseOtherStore(_ db: Database) throws {
        guard try !replica.isOwnStore(db) else { return }
        throw StoreChangesError(
            .storeReplaced,
            store.app == nil
                ? """
                During the synchronization, \(url.lastPathComponent) was replaced, or a backup was restored into it. Nothing \
                was captured from it or written into it. Synchronize again.
                """
                : """
                The file at the store's path was replaced after the app opened it, or a backup was restored into it. Close \
                the app's connection and open it again, then synchronize again.
                """
        )
    }
}

extension Date {
    /// The time as stamps have it: 0 before 1970.
    var millisecondsSince1970: UInt64 { UInt64(max(0, timeIntervalSince1970 * 1000)) }
}
