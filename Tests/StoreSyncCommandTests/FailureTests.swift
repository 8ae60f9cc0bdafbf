import Foundation
import Operations
import StoreSync
import Testing

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
