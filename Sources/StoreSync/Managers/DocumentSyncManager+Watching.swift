public import Operations
import ThreadSupport

extension DocumentSyncManager {
    /// Synchronizes a store at once, and then whenever the store or the remote changes.
    ///
    /// The watch retries temporary failures itself: an operation isn't retried, unless `options` say so.
    /// ``SynchronizationRequest/takenSide`` and ``SynchronizationRequest/rebuildsReplica`` count until a synchronization has
    /// succeeded.
    ///
    /// - Parameters:
    ///   - request: The store.
    ///   - policy: When the store is synchronized, and how often the remote is asked.
    ///   - options: Priority, retry, keys and the rest, of each synchronization.
    /// - Returns: The watch, which begins when it's iterated.
    public func watch(
        _ request: SynchronizationRequest,
        policy: WatchPolicy = WatchPolicy(),
        options: OperationOptions? = nil
    ) -> StoreWatch {
        var options = options ?? OperationOptions()
        options.retry = options.retry ?? RetryPolicy(maximumAttempts: 1)
        var later = request
        (later.takenSide, later.rebuildsReplica) = (nil, false)
        let hasSucceeded = Locked(false)
        return StoreWatch(
            environment: WatchEnvironment(
                store: request.url,
                document: ApplicationHierarchy(manager.application).document(document),
                backend: manager.backend,
                supervisor: manager.supervisor
            ) { [later, options] in
                let isFirst = !hasSucceeded.withLock(\.self)
                let handle = synchronize(isFirst ? request : later, options: options)
                if isFirst {
                    handle.whenEnded { result in
                        if case .success = result { hasSucceeded.withLock { $0 = true } }
                    }
                }
                return handle
            },
            policy: policy
        )
    }
}
