import Foundation
import StoreSync
import Testing

@testable import StoreSyncCommand

@Suite("How a command reports an error")
struct FailureTests {
    @Test("An interrupted command that ends as busy says that it was interrupted, and any other error stays")
    func interrupted() {
        let busy = StoreSyncError(.busy, "Another program has the store.")
        #expect(Failure(busy, signal: SIGTERM).code == "interrupted" && Failure(busy, signal: SIGTERM).status == 143)
        #expect(Failure(busy, signal: nil).code == "busy" && Failure(busy, signal: nil).status == EX_TEMPFAIL)
        let corrupt = StoreSyncError(.corrupt, "A file is damaged.")
        #expect(Failure(corrupt, signal: SIGINT).code == "corrupt")
    }
}
