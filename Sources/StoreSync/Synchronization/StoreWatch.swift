public import Operations

/// Synchronizes a store at once, and then whenever the store or the remote changes.
///
/// ```swift
/// for try await event in notes.watch(SynchronizationRequest(url: store)) {
///     if case .synchronized(let result) = event { show(result) }
/// }
/// ```
///
/// Nothing runs between two calls of the iterator's `next()`, so a loop that takes long delays the next synchronization.
/// Leave the loop or cancel its task to end the watch. A synchronization that runs then is cancelled, and the next one
/// completes it.
///
/// Temporary failures are events, and a retry follows: see ``StoreSyncError/Code/isTemporary``. So are `applicationMissing`,
/// `documentMissing`, `noUploadedStore` and `rolledBack`, because a share may not be mounted yet, and files may still be
/// arriving; and `identityTwice`, after which this device continues as another client. After the first success, so are
/// `storeNotFound` for a store that is missing, and `cannotWrite` for lack of space: the watch waits for the store to be back,
/// or for room. So is a refusal by the storage, such as `remoteUnauthorized`, because a gateway or an expired session may be the
/// reason; the eighth since the last success ends the sequence, so that a password that was changed doesn't lock the user's
/// account. All others end the sequence with the error.
///
/// Changes that programs of this device make are noticed at once, in the store and in a folder that is the remote. Other
/// storage is asked from time to time, as ``WatchPolicy`` says. So is the store while the system refuses to watch more files;
/// the first synchronization warns of that.
public struct StoreWatch: AsyncSequence, Sendable {
    /// What happens while a store is watched.
    public enum Event: Sendable {
        /// A synchronization begins, whose handle tells its progress. The next event is its result.
        case began(OperationHandle<Synchronization>)
        /// A synchronization has succeeded.
        case synchronized(Synchronization)
        /// A synchronization has failed, or the remote can't be reached. It's retried after the wait at the latest.
        case failed(StoreSyncError, retryIn: Duration)
    }

    /// Waits for changes and synchronizes.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let run: WatchRun

        init(_ run: WatchRun) { self.run = run }

        /// Returns the next event; `nil` if the task was cancelled while nothing was synchronized.
        ///
        /// - Throws: The error of a synchronization; `CancellationError` if one was cancelled.
        public mutating func next() async throws -> Event? { try await run.next() }
    }

    let environment: WatchEnvironment
    let policy: WatchPolicy

    /// Starts a watch of its own.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(WatchRun(environment, policy)) }
}
