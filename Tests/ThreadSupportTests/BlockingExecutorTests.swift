import Dispatch
import Testing
import ThreadSupport

@Suite("Blocking work", .timeLimit(.minutes(60)))
struct BlockingExecutorTests {
    @Test("Blocking work returns its result")
    func returnsTheResult() async throws {
        let value = try await runBlocking { 6 * 7 }
        #expect(value == 42)
    }

    @Test("Blocking work rethrows the error that it throws")
    func throwsTheError() async {
        struct Failure: Error {}
        await #expect(throws: Failure.self) {
            try await runBlocking { throw Failure() }
        }
    }

    @Test("Blocking work blocks neither other blocking work nor the cooperative pool")
    func waitingJobs() async throws {
        // Not the shared one, whose threads other tests need meanwhile.
        let executor = BlockingExecutor()
        let (arrived, meeting) = (Locked(0), DispatchSemaphore(value: 0))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<32 {
                group.addTask {
                    try await runBlocking(on: executor) {
                        if arrived.withLock({
                            $0 += 1; return $0
                        }) == 32 {
                            meeting.signal()
                        }
                        meeting.wait()
                        meeting.signal()
                    }
                }
            }
            // Needs the cooperative pool while all the others block.
            group.addTask { await Task.yield() }
            try await group.waitForAll()
        }
        #expect(arrived.withLock { $0 } == 32)
    }

    private func hold(at gate: DispatchSemaphore) { gate.wait() }

    @Test("An executor with one thread runs one job at a time, in order, however many wait")
    func oneThread() async throws {
        let executor = BlockingExecutor(maximumThreads: 1)
        let (log, running) = (Locked<[Int]>([]), Locked(0))
        let gate = DispatchSemaphore(value: 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask(executorPreference: executor) {
                    // The first job holds up the others until all have been added.
                    if number == 0 { hold(at: gate) }
                    #expect(
                        running.withLock {
                            $0 += 1; return $0
                        } == 1
                    )
                    log.withLock { $0.append(number) }
                    running.withLock { $0 -= 1 }
                }
            }
            gate.signal()
            try await group.waitForAll()
        }
        #expect(log.withLock { $0 } == Array(0..<100))
    }
}
