import Synchronization

/// One task that runs operation after operation.
final class Worker: Sendable {
    private struct State {
        var task: Task<Void, Never>?
        var isPoisoned = false
    }

    private let state = Mutex(State())

    /// Whether the worker was cancelled with one of its operations, and so must take no other.
    var isPoisoned: Bool { state.withLock { $0.isPoisoned } }

    func start(on executor: (any TaskExecutor)?, _ body: @escaping @Sendable () async -> Void) {
        let task = Task.detached(executorPreference: executor, operation: body)
        let isPoisoned = state.withLock { state in
            state.task = task
            return state.isPoisoned
        }
        // The operation may have been cancelled before its task was known here.
        if isPoisoned { task.cancel() }
    }

    func poison() {
        state.withLock { $0.isPoisoned = true }
    }

    func cancel() {
        state.withLock { $0.task }?.cancel()
    }
}
