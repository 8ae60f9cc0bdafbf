import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Workers that seal and open the chunks of files, on all cores.
///
/// The workers are child tasks of ``withWorkers(count:_:)`` and end with it. All files that are sealed and opened in it share the
/// workers:
///
/// ```swift
/// try await SealingWorkers.withWorkers { workers in
///     for try await piece in key.sealing(source, as: context, on: workers) { try await write(piece) }
/// }
/// ```
///
/// They run on the cooperative pool, or on the task executor that the caller prefers. The pool suits computations, since it has one
/// thread for each core. Code on it must not block, and the work on a chunk never does. A chunk has at most 1 MiB in memory and
/// takes a few milliseconds, after which the worker yields its thread to other tasks. The caller that iterates reads the source
/// and writes the result, on its own executor.
public final class SealingWorkers: Sendable {
    typealias Job = @Sendable (ChunkWorkspace) -> Void

    private struct State {
        /// The jobs that no worker has taken yet, in order: few, since each pass submits a bounded number.
        var jobs: [Job] = []
        var idle: [CheckedContinuation<Job?, Never>] = []
        var isClosed = false
    }

    /// The number of chunks in progress at the same time.
    public let count: Int
    private let state = Locked(State())

    private init(count: Int) {
        self.count = count
    }

    /// The number of this machine's cores.
    public static var cores: Int { ProcessInfo.processInfo.activeProcessorCount }

    /// Runs `body` with workers that end with it.
    ///
    /// Cancelling the task stops them within a chunk.
    ///
    /// - Parameters:
    ///   - count: The number of chunks to work on at the same time; the number of cores if it's `nil`.
    ///   - body: Seals and opens files.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public static func withWorkers<Result>(
        count: Int? = nil,
        _ body: (SealingWorkers) async throws -> Result
    ) async throws -> Result {
        let workers = SealingWorkers(count: max(count ?? cores, 1))
        return try await withThrowingTaskGroup { group in
            // Also if `body` throws: the group waits for the workers.
            defer { workers.close() }
            for _ in 0..<workers.count {
                group.addTask { await workers.work() }
            }
            return try await body(workers)
        }
    }

    /// Submits work on a chunk to the workers.
    ///
    /// After the workers have ended, the work isn't done and the ticket throws `CancellationError`. That happens to a caller that
    /// iterates too late, for example a backend that continues after its write has ended.
    ///
    /// - Returns: The ticket for the result. Releasing it cancels nothing; abandoning it cancels work that hasn't started.
    func submit<Value: Sendable>(
        _ work: @escaping @Sendable (ChunkWorkspace) throws -> Value
    ) -> Ticket<Value> {
        let ticket = Ticket<Value>()
        let job: Job = { workspace in
            guard !ticket.isAbandoned else { return }
            ticket.finish(
                Result {
                    try Task.checkCancellation()
                    return try work(workspace)
                }
            )
        }
        let (isClosed, idle): (Bool, CheckedContinuation<Job?, Never>?) = state.withLock { state in
            guard !state.isClosed else { return (true, nil) }
            let idle = state.idle.popLast()
            if idle == nil { state.jobs.append(job) }
            return (false, idle)
        }
        idle?.resume(returning: job)
        if isClosed { ticket.finish(.failure(CancellationError())) }
        return ticket
    }

    @concurrent
    private func work() async {
        let workspace = ChunkWorkspace()
        while let job = await nextJob() {
            job(workspace)
            await Task.yield()
        }
    }

    /// Returns the next job as soon as there is one; `nil` after the workers are closed.
    ///
    /// It isn't cancellable: a cancelled worker still takes jobs, so that each ticket gets its `CancellationError`.
    private func nextJob() async -> Job? {
        await withCheckedContinuation { continuation in
            let (job, isIdle): (Job?, Bool) = state.withLock { state in
                if !state.jobs.isEmpty { return (state.jobs.removeFirst(), false) }
                guard !state.isClosed else { return (nil, false) }
                state.idle.append(continuation)
                return (nil, true)
            }
            if !isIdle { continuation.resume(returning: job) }
        }
    }

    private func close() {
        let idle = state.withLock { state in
            state.isClosed = true
            defer { state.idle = [] }
            return state.idle
        }
        for worker in idle { worker.resume(returning: nil) }
    }
}
