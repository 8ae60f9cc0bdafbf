import RemoteStorageHTTP
import Testing
import ThreadSupport

@MainActor
@Suite("Work that callers share", .timeLimit(.minutes(60)))
struct SharedTaskTests {
    private let shared = SharedTask<Int>(keepsValue: false)
    /// The work ends with this stream.
    private let gate = AsyncStream<Never>.makeStream()
    private let runs = Locked(0)

    /// Work that returns the number of its run.
    private var work: SharedTask<Int>.Work {
        { [gate, runs] in
            let number = runs.withLock { runs in
                runs += 1
                return runs
            }
            for await _ in gate.stream {}
            try Task.checkCancellation()
            return number
        }
    }

    /// Starts callers, and returns when all of them wait.
    private func callers(_ count: Int) async -> [Task<Int, any Error>] {
        let callers = (0..<count).map { _ in Task { try await shared.value(work) } }
        // The main actor runs these tasks up to their waits, in their order.
        await Task {}.value
        return callers
    }

    @Test("A cancelled caller of shared work returns at once, and doesn't cancel the work for the others")
    func cancelledCaller() async throws {
        let callers = await callers(3)
        callers[0].cancel()
        await #expect(throws: CancellationError.self) { try await callers[0].value }
        gate.continuation.finish()
        #expect(try await callers[1].value == 1)
        #expect(try await callers[2].value == 1)
        #expect(runs.withLock(\.self) == 1)
    }

    @Test("A caller that is cancelled already starts no work")
    func cancelledBefore() async throws {
        let cancelled = Task { try await shared.value(work) }
        // The main actor runs that task after this line.
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        gate.continuation.finish()
        #expect(try await callers(1)[0].value == 1)
    }

    @Test("Shared work is cancelled with its last caller")
    func lastCaller() async throws {
        let callers = await callers(2)
        for caller in callers { caller.cancel() }
        for caller in callers { await #expect(throws: CancellationError.self) { try await caller.value } }
        // The gate is open since the work was cancelled.
        #expect(try await self.callers(1)[0].value == 2)
    }
}
