import Dispatch
import Operations
import Testing
import ThreadSupport

@Suite("Work that blocks, and steps that aren't cancelled", .timeLimit(.minutes(60)))
struct BlockingWorkTests {
    /// Runs jobs on a queue of its own, and counts them.
    private final class CountingExecutor: TaskExecutor {
        private let queue = DispatchQueue(label: "BlockingWorkTests")
        private let count = Locked(0)

        var jobCount: Int { count.withLock { $0 } }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            count.withLock { $0 += 1 }
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }

    @Test("Blocking work runs on the configured executor, and sees the cancellation of its operation")
    func blocking() async throws {
        let executor = CountingExecutor()
        let supervisor = OperationSupervisor(.init(width: 1, blockingExecutor: executor))
        let gate = Gate()
        let handle = supervisor.add { context in
            try? await gate.wait()
            return try await context.blocking { Task.isCancelled }
        }
        await gate.arrival()
        #expect(executor.jobCount == 0)
        handle.cancel()
        #expect(try await handle.value)
        #expect(executor.jobCount > 0)
    }

    @Test("An operation fails with the error of its blocking work")
    func failure() async throws {
        let handle = OperationSupervisor(width: 1).add { context in
            try await context.blocking { () throws -> Int in throw ProbeError() }
        }
        await #expect(throws: ProbeError()) { try await handle.value }
    }

    @Test("Shielded steps run to their end, and aren't cancelled with the operation")
    func shielded() async throws {
        let gate = Gate()
        let handle = OperationSupervisor(width: 1).add { context in
            try await context.shielded {
                try await gate.wait()
                return Task.isCancelled
            }
        }
        await gate.arrival()
        handle.cancel()
        gate.open()
        #expect(try await handle.value == false)
    }
}
