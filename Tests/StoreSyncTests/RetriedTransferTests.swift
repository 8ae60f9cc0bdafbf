import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

@Suite("Transfers that are retried", .timeLimit(.minutes(60)))
struct RetriedTransferTests {
    @Test(
        "F21, D10: A push and a pull of which any one request fails succeed in the next attempt of the same run",
        arguments: [nil, "secret"]
    )
    func everyRequest(password: String?) async throws {
        let fixture = try Fixture(password: password)
        var generator = SplitMix64(seed: 1)
        let (pushing, pulling) = (FailingRequest(), FailingRequest())
        let a = try fixture.device("a", hook: pushing.check)
        let b = try fixture.device("b", hook: pulling.check)
        try RowStore.insert(40, into: a.store, &generator)
        let first = try await a.registerDocument().value
        pushing.arm(after: 2)
        _ = try await a.push(to: first, options: .retriedOnce).value
        #expect(pushing.disarm(), "the first upload fails, too")
        _ = try await b.pull().value
        var (number, hasFailed, deltas) = (0, true, 0)
        while hasFailed {
            try RowStore.update(1, in: a.store, &generator)
            let document = try await a.registerDocument().value
            pushing.arm(after: number)
            let upload = try await a.push(to: document, options: .retriedOnce).value
            hasFailed = pushing.disarm()
            deltas += upload.storedBytes < upload.bytes / 4 ? 1 : 0
            let registered = try await b.registerDocument(mayCreate: false).value
            pulling.arm(after: number)
            _ = try await b.supervisor.add(
                WholeStoreDownloadOperation(
                    WholeStoreDownloadRequest(url: b.store),
                    document: registered,
                    backend: b.backend,
                    state: b.state
                ),
                options: .retriedOnce
            ).value
            hasFailed = pulling.disarm() || hasFailed
            #expect(try RowStore.rows(in: b.store) == RowStore.rows(in: a.store), "request \(number)")
            number += TestDepth.choose(quick: 3, deep: 1)
        }
        #expect(number > 10)
        #expect(deltas > 0 || password == nil)
        #expect(try await a.verify().value.problems.isEmpty)
    }
}
