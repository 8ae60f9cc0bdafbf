import Testing
import ThreadSupport

@Suite("Work that isn't cancelled", .timeLimit(.minutes(60)))
struct UncancelledTests {
    private struct Failure: Error {}

    @Test("Work in an uncancelled block of a cancelled task isn't cancelled, and its result and its error arrive")
    func cancelled() async {
        await Task {
            withUnsafeCurrentTask { $0?.cancel() }
            #expect(Task.isCancelled)
            #expect(await !uncancelled { Task.isCancelled })
            await #expect(throws: Failure.self) { try await uncancelled { throw Failure() } }
        }.value
    }
}
