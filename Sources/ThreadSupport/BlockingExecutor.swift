import DequeModule
import Dispatch
import Foundation

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

/// Runs `body`, which may block, on as many threads of `executor` as there are cores, at most 16.
///
/// The threads share work: each takes the next part of it until nothing is left. If one throws, the others are cancelled.
///
/// - Parameters:
///   - executor: The executor to block on; ``BlockingExecutor/shared`` where this is `nil`.
///   - body: Takes and does parts of the work. Before each it should check for cancellation.
/// - Throws: What `body` throws.
package func runBlockingOnAllCores(
    on executor: (any TaskExecutor)? = nil,
    _ body: @escaping @Sendable () throws -> Void
) async throws {
    // Other jobs of the executor need threads, too.
    let threadCount = min(ProcessInfo.processInfo.activeProcessorCount, 16)
    try await withThrowingTaskGroup { group in
        for _ in 0..<threadCount { group.addTask { try await runBlocking(on: executor, body) } }
        // The first error ends the loop, and so cancels the others.
        for try await _ in group {}
    }
}
