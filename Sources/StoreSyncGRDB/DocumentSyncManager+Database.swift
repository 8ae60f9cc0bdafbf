import Foundation
public import GRDB
public import Operations
public import StoreSync

extension DocumentSyncManager {
    /// Synchronizes an app's database record by record, through the app's connection.
    ///
    /// The app's value observations and transaction observers are notified of what other devices have edited, in one
    /// transaction. The app may read and write meanwhile. What it writes isn't overwritten: it's merged, too.
    ///
    /// ```swift
    /// var configuration = Configuration()
    /// configuration.busyMode = .timeout(10)
    /// let database = try DatabasePool(path: url.path, configuration: configuration)
    /// let result = try await notes.synchronize(database).value
    /// ```
    ///
    /// A transaction observer that throws in `databaseWillCommit()` fails the synchronization with its error, and the
    /// database stays as it is; the next synchronization writes what this one could not.
    ///
    /// For further choices, such as `takenSide`, `rules` or `isPreview`, pass `synchronize(_:after:options:)` a
    /// `SynchronizationRequest` that was created with the connection.
    ///
    /// - Parameters:
    ///   - database: A `DatabaseQueue` or a `DatabasePool` with a database in a file.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - dependencies: The operations that must end first.
    ///   - options: Priority, retry, keys and the rest, as for `synchronize(_:after:options:)` with a request.
    /// - Returns: The synchronization's handle. It fails with a `StoreSyncError`: `storeNotFound` for a database in
    ///   memory, `cannotWrite` for a connection that only reads.
    @discardableResult
    public func synchronize(
        _ database: any DatabaseWriter,
        allowsDeletions: Bool = false,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) -> OperationHandle<Synchronization> {
        let request = SynchronizationRequest(database, allowsDeletions: allowsDeletions)
        return synchronize(request, after: dependencies, options: options)
    }

    /// Synchronizes an app's database at once, and then whenever the database or the remote changes.
    ///
    /// Each synchronization goes through the app's connection, as `synchronize(_:allowsDeletions:after:options:)` does.
    ///
    /// ```swift
    /// for try await event in notes.watch(database) {
    ///     if case .synchronized(let result) = event { show(result) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - database: A `DatabaseQueue` or a `DatabasePool` with a database in a file.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - policy: When the database is synchronized, and how often the remote is asked.
    ///   - options: Priority, retry, keys and the rest, of each synchronization.
    /// - Returns: The watch, which begins when it's iterated.
    public func watch(
        _ database: any DatabaseWriter,
        allowsDeletions: Bool = false,
        policy: WatchPolicy = WatchPolicy(),
        options: OperationOptions? = nil
    ) -> StoreWatch {
        watch(SynchronizationRequest(database, allowsDeletions: allowsDeletions), policy: policy, options: options)
    }

    /// Records what the user has changed in an app's database, without the remote: the next synchronization publishes it.
    ///
    /// What this writes into the database, it writes through the app's connection.
    ///
    /// - Parameters:
    ///   - database: A `DatabaseQueue` or a `DatabasePool` with a database in a file.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: The number of edits.
    /// - Throws: A `StoreSyncError`, as `recordChanges(ofStoreAt:allowsDeletions:)` and
    ///   `synchronize(_:allowsDeletions:after:options:)` have it.
    @discardableResult
    public func recordChanges(in database: any DatabaseWriter, allowsDeletions: Bool = false) async throws -> Int {
        let url = URL(named: database.path)
        return try await recordChanges(ofStoreAt: url, through: database, allowsDeletions: allowsDeletions)
    }

    /// What merging overwrote or left out in an app's database.
    ///
    /// What the log restores is written through the app's connection, so that the app's observations are notified.
    ///
    /// - Parameter database: The app's connection.
    /// - Returns: The log, which is read when its methods are called.
    public func conflicts(in database: any DatabaseWriter) -> ConflictLog {
        var log = conflicts(ofStoreAt: URL(named: database.path))
        log.app = database
        return log
    }
}
