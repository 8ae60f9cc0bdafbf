import Testing
import ThreadSupport

@Suite("Blocking work", .timeLimit(.minutes(60)))
struct BlockingExecutorTests {
    @Test("runs on the executor it is given and returns the result")
    func returnsTheResult() async throws {
        let value = try await runBlocking { 6 * 7 }
        #expect(value == 42)
    }

    @Test("rethrows the error that the work throws")
    func throwsTheError() async {
        struct Failure: Error {}
        await #expect(throws: Failure.self) {
            try await runBlocking { throw Failure() }
        }
    }

    @Test("doesn't hold up the cooperative pool: many blocked jobs run concurrently")
    func manyJobsBlockSideBySide() async throws {
        let meeting = Locked(0)
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<16 {
                group.addTask {
                    try await runBlocking {
                        meeting.withLock { count in
                            count += 1; return count
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(meeting.withLock { $0 } == 16)
    }
}
