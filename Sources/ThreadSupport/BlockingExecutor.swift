import DequeModule
import Dispatch

/// Runs jobs that block on threads of Dispatch outside the cooperative pool.
///
/// The cooperative pool has as many threads as the machine has cores, so a job that waits there for a disk stops the
/// tasks of the whole process. This package's long blocking work (files, SQLite, password hashing) goes through
/// ``runBlocking(on:_:)`` with an injected executor, so that a simulation can inject its own. Short calls, such as removing a
/// file, may run in the caller's task, and blocking work may use further threads of Dispatch for parallel computations.
package final class BlockingExecutor: TaskExecutor {
    /// The executor that is used if none is injected.
    package static let shared = BlockingExecutor()

    private struct State {
        var threadCount = 0
        /// The jobs for which no thread is left.
        var waiting: Deque<UnownedJob> = []
    }

    private let label: String
    private let maximumThreads: Int
    private let state = Locked(State())

    /// Creates an executor, which uses at most `maximumThreads` threads at a time.
    ///
    /// - Parameters:
    ///   - label: The label of its dispatch queues, which a debugger shows.
    ///   - maximumThreads: How many jobs run at the same time; with 1, they run in the order in which they are added.
    package init(label: String = "swift-store-sync.blocking", maximumThreads: Int = 32) {
        self.label = label
        self.maximumThreads = maximumThreads
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let needsThread = state.withLock { state in
            guard state.threadCount < maximumThreads else {
                state.waiting.append(job)
                return false
            }
            state.threadCount += 1
            return true
        }
        guard needsThread else { return }
        // Each serial queue gets a thread of its own. On Linux, all concurrent queues share the few threads of the cooperative
        // pool.
        DispatchQueue(label: label).async { self.work(from: job) }
    }

    /// Runs a job, and then waiting ones until there are none.
    private func work(from first: UnownedJob) {
        var job = first
        while true {
            job.runSynchronously(on: asUnownedTaskExecutor())
            let next = state.withLock { state in
                let next = state.waiting.popFirst()
                if next == nil { state.threadCount -= 1 }
                return next
            }
            guard let next else { return }
            job = next
        }
    }
}

/// Runs `body`, which may block, on `executor`.
///
/// - Parameters:
///   - executor: The executor to block on; ``BlockingExecutor/shared`` where this is `nil`.
///   - body: The work. It runs to its end even if the task is cancelled: long work should check for cancellation.
/// - Returns: What `body` returns.
/// - Throws: What `body` throws.
@concurrent
package func runBlocking<Result: Sendable>(
    on executor: (any TaskExecutor)? = nil,
    _ body: @Sendable () throws -> Result
) async throws -> Result {
    try await withTaskExecutorPreference(executor ?? BlockingExecutor.shared) { @concurrent in
        try body()
    }
}
