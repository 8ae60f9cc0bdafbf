import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Works on the chunks of sealed files, on all cores.
///
/// The workers are child tasks of ``withWorkers(count:_:)`` and end with it. All files that are sealed and opened in it share them:
///
/// ```swift
/// try await SealingWorkers.withWorkers { workers in
///     for try await piece in key.sealing(source, as: context, on: workers) { try await write(piece) }
/// }
/// ```
///
/// They run on the cooperative pool, or on the task executor that the caller prefers. That is where computing belongs:
/// there is a thread for each core and not more. What must not be done there is to wait without suspending, and a chunk waits
/// for nothing: it's at most 1 MiB in memory, a few milliseconds of work, after which a worker lets other tasks have its
/// thread. Reading the source and writing the result is done by whoever iterates, where they think best.
public final class SealingWorkers: Sendable {
    typealias Job = @Sendable (ChunkWorkspace) -> Void

    private struct State {
        /// Jobs in order; those before `next` are taken.
        var jobs: [Job?] = []
        var next = 0
        var idle: [CheckedContinuation<Job?, Never>] = []
        var isClosed = false

        mutating func take() -> Job? {
            guard next < jobs.count else { return nil }
            let job = jobs[next].take()
            next += 1
            // What is taken is dropped now and then, all at once.
            if next == jobs.count || next >= 64 {
                jobs.removeFirst(next)
                next = 0
            }
            return job
        }
    }

    /// How many chunks are worked on at once.
    public let count: Int
    private let state = Locked(State())

    private init(count: Int) {
        self.count = count
    }

    /// How many cores this machine has.
    public static var cores: Int { ProcessInfo.processInfo.activeProcessorCount }

    /// Runs `body` with workers that end with it.
    ///
    /// Cancelling the task stops them within a chunk.
    ///
    /// - Parameters:
    ///   - count: How many chunks to work on at once; as many as there are cores where it is `nil`.
    ///   - body: Seals and opens files.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public static func withWorkers<Result>(
        count: Int? = nil,
        _ body: (SealingWorkers) async throws -> Result
    ) async throws -> Result {
        let workers = SealingWorkers(count: max(count ?? cores, 1))
        return try await withThrowingTaskGroup { group in
            // However `body` ends, for the group waits for the workers.
            defer { workers.close() }
            for _ in 0..<workers.count {
                group.addTask { await workers.work() }
            }
            return try await body(workers)
        }
    }

    /// Has a worker do something with a chunk.
    ///
    /// When the workers have ended nobody does it: whoever iterates so late, a backend that goes on after its write is over,
    /// say, is told that it's cancelled.
    ///
    /// - Returns: The ticket for the result. Dropping it cancels nothing; abandoning it does, while the work hasn't begun.
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

    /// The next job, as soon as there is one; `nil` once there won't be any more.
    ///
    /// It isn't cancellable: a cancelled worker goes on to take jobs, so that each ticket learns that it was cancelled.
    private func nextJob() async -> Job? {
        await withCheckedContinuation { continuation in
            let job: Job?? = state.withLock { state in
                if let job = state.take() { return job }
                guard !state.isClosed else { return .some(nil) }
                state.idle.append(continuation)
                return .none
            }
            if case .some(let job) = job { continuation.resume(returning: job) }
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
