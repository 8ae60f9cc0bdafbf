import Dispatch

/// Runs jobs that block (files, SQLite, password hashing) on threads of their own.
///
/// The cooperative pool has as many threads as the machine has cores; a job that waits there for a disk stops the
/// tasks of the whole process. Everything of ours that blocks goes through ``runBlocking(on:_:)`` with an executor
/// that is injected, so that a simulation can put its own in this one's place.
package final class BlockingExecutor: TaskExecutor {
    /// The executor that is used where none is injected.
    package static let shared = BlockingExecutor()

    private let queue: DispatchQueue

    /// Creates an executor with its own threads, made as they are needed.
    ///
    /// - Parameters:
    ///   - label: What the threads are called in a debugger.
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
///   - executor: Where to block; ``BlockingExecutor/shared`` where it is `nil`.
///   - body: The work. It runs to its end even if the task is cancelled: check inside where that takes long.
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
