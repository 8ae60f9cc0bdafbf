import ArgumentParser
import Foundation
import Operations
import StoreSync
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSyncCommand

@Suite("How a command reports an error", .timeLimit(.minutes(60)))
struct FailureTests {
    @Test("An interrupted command that ends as busy says that it was interrupted, and any other error stays")
    func interrupted() {
        let busy = StoreSyncError(.busy, "Another program has the store.")
        #expect(Failure(busy, signal: SIGTERM).code == "interrupted" && Failure(busy, signal: SIGTERM).status == 143)
        #expect(Failure(busy, signal: nil).code == "busy" && Failure(busy, signal: nil).status == EX_TEMPFAIL)
        let corrupt = StoreSyncError(.corrupt, "A file is damaged.")
        #expect(Failure(corrupt, signal: SIGINT).code == "corrupt")
    }

    @Test("A command that fails cancels its other operations, and ends when they have cleaned up")
    func otherOperations() async {
        await #expect(processExitsWith: .success) {
            let isClean = Locked(false)
            let (started, start) = AsyncStream<Never>.makeStream()
            let (endless, held) = AsyncStream<Never>.makeStream()
            try? await Session.run(OutputOptions.parse([])) { interruption in
                interruption.supervisor.add { context in
                    start.finish()
                    for await _ in endless {}
                    try await context.shielded {
                        await Task.yield()
                        isClean.withLock { $0 = true }
                    }
                }
                for await _ in started {}
                throw StoreSyncError(.corrupt, "A file is damaged.")
            }
            withExtendedLifetime(held) {}
            exit(isClean.withLock(\.self) ? EXIT_SUCCESS : EXIT_FAILURE)
        }
    }

    @Test("A supervisor's error is reported by its message, without its code")
    func supervisor() async throws {
        let supervisor = OperationSupervisor()
        await supervisor.shutdown(grace: .zero)
        let thrown = await #expect(throws: OperationError.self) { try await supervisor.add { _ in }.value }
        let error = try #require(thrown)
        let failure = Failure(error, signal: nil)
        #expect(failure.code == "unexpected")
        #expect(failure.message == "Something unexpected went wrong: \(error.message)")
    }
}
