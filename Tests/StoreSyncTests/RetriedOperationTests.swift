import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Operations that are retried", .timeLimit(.minutes(60)))
struct RetriedOperationTests {
    private func verification(by device: Device) -> OperationHandle<VerificationReport> {
        device.supervisor.add(
            VerificationOperation(
                device.application,
                repairs: false,
                backend: device.backend,
                state: device.state
            ),
            options: .retriedOnce
        )
    }

    @Test(
        "A verification of which any one request fails reports what one without a failure reports",
        arguments: [nil, "correct horse"]
    )
    func verification(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let request = FailingRequest()
        let device = try fixture.device("a", hook: request.check)
        try await device.push(adding: "one")
        let name = WholeStoreFile.appliedSyncChangeSets.rawValue
        for path in try fixture.files().keys where path.contains("/1-") && path.hasSuffix(name) {
            try fixture.put(nil, at: path)
        }
        try fixture.put(Data([1]), at: "\(fixture.hierarchy.root)/stranger.txt")
        let expected = try await verification(by: device).value
        #expect(expected.problems.count == 1 && !expected.warnings.isEmpty)
        var (number, hasFailed) = (0, true)
        while hasFailed {
            request.arm(after: number)
            let report = try await verification(by: device).value
            hasFailed = request.disarm()
            #expect(report == expected, "request \(number)")
            number += 1
        }
        #expect(number > 10)
    }

    @Test("A retried verification doesn't report a problem that has passed")
    func passedProblem() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        try await device.push(adding: "one")
        let (path, content) = try #require(
            try fixture.files().first { $0.key.contains("/1-") && $0.key.hasSuffix(WholeStoreFile.store.rawValue) }
        )
        try fixture.put(nil, at: path)
        #expect(try await device.verify().value.problems.map(\.path) == [path])
        // The rest is read after the uploads.
        let stranger = "\(fixture.hierarchy.root)/stranger.txt"
        try fixture.put(Data([1]), at: stranger)
        let retried = try fixture.device("a") { step in
            guard step == "before read of \(stranger)", try fixture.files()[path] == nil else { return }
            try fixture.put(content, at: path)
            throw RemoteError(.unavailable, "The request was lost.")
        }
        #expect(try await verification(by: retried).value.problems == [])
    }

    @Test("A synchronization of which any one request fails counts each published edit once")
    func publishedChanges() async throws {
        let fixture = try Fixture()
        let request = FailingRequest()
        let device = try fixture.device("a", hook: request.check)
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        let document = try await device.registerDocument().value
        _ = try await device.synchronize().value
        var (number, hasFailed) = (0, true)
        while hasFailed {
            try device.execute("INSERT INTO note (title) VALUES ('\(number)')")
            request.arm(after: number)
            let result = try await device.supervisor.add(
                SynchronizationOperation(
                    SynchronizationRequest(url: device.store),
                    document: document,
                    backend: device.backend,
                    state: device.state
                ),
                options: .retriedOnce
            ).value
            hasFailed = request.disarm()
            #expect(result.publishedChanges == 1, "request \(number)")
            number += 1
        }
        #expect(number > 2)
    }

    @Test("A registration of which any one request fails says that the device is still registered")
    func registration() async throws {
        let fixture = try Fixture()
        let request = FailingRequest()
        let device = try fixture.device("a", hook: request.check)
        _ = try await device.register().value
        var (number, hasFailed) = (0, true)
        while hasFailed {
            // Created again after it's decided whether the device is set up again.
            try FileManager.default.removeItem(at: fixture.url(fixture.hierarchy.deletedDocuments))
            request.arm(after: number)
            let registered = try await device.supervisor.add(
                device.registration(registersAgain: true),
                options: .retriedOnce
            ).value
            hasFailed = request.disarm()
            #expect(registered.warnings.contains { $0.contains("still registered") }, "request \(number)")
            number += 1
        }
        #expect(number > 2)
    }
}
