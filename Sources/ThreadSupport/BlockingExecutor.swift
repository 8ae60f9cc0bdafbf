import Dispatch

/// Runs jobs that block (files, SQLite, password hashing) on dedicated threads.
///
/// The cooperative pool has as many threads as the machine has cores, so a job that waits there for a disk stops the
/// tasks of the whole process. All blocking work of this package goes through ``runBlocking(on:_:)`` with an injected
/// executor, so that a simulation can inject its own.
package final class BlockingExecutor: TaskExecutor {
    /// The executor that is used if none is injected.
    package static let shared = BlockingExecutor()

    private let queue: DispatchQueue

    /// Creates an executor with its own threads, which are created on demand.
    ///
    /// - Parameters:
    ///   - label: The name of the threads in a debugger.
    ///   - isSerial: Whether it runs one job at a time.
    package init(label: String = "swift-store-sync.blocking", isSerial: Bool = false) {
        queue = DispatchQueue(label: label, attributes: isSerial ? [] : .concurrent)
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in
            job.runSynchronously(on: asUnownedTaskExecutor())
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
