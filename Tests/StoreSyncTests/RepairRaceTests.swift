import Foundation
import Operations
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

@Suite("A repair concurrent with other operations of the device", .timeLimit(.minutes(60)))
struct RepairRaceTests {
    /// A push of a device's second generation, which stops before it publishes the manifest.
    private struct Scene {
        let fixture: Fixture
        /// The same device, for another operation, and its connection.
        let device: Device
        let connection: DyingBackend
        private let push: Task<WholeStoreUpload, any Error>
        private let continuation: AsyncStream<Void>.Continuation

        init(password: String?) async throws {
            fixture = try Fixture(password: password)
            connection = DyingBackend(fixture.remote)
            device = try fixture.device("a", backend: connection)
            try await device.push(adding: "one")
            try device.write("two")
            let line = DyingBackend(fixture.remote)
            let (stopped, stopping) = AsyncStream.makeStream(of: Void.self)
            let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
            await line.meet(at: { $0.hasPrefix("write of ") && $0.contains("/manifest-") }) {
                stopping.finish()
                for await _ in stream {}
            }
            let pushing = try fixture.device("a", backend: line)
            push = Task { try await pushing.push().value }
            self.continuation = continuation
            for await _ in stopped {}
        }

        /// Lets the push publish, and returns when it has ended.
        func finishPush() async throws {
            continuation.finish()
            _ = try await push.value
        }
    }

    @Test(
        "A push that ends between any two requests of a repair stays published, and isn't taken for an attack",
        arguments: [nil, "correct horse"]
    )
    func push(password: String?) async throws {
        var number = 0
        while true {
            let scene = try await Scene(password: password)
            await scene.connection.meet(atRequest: number) { try? await scene.finishPush() }
            let report = try await scene.device.verify(repairs: true).value
            #expect(report.problems.isEmpty, "before request \(number)")
            let count = await scene.connection.requests.count
            try await scene.finishPush()
            let other = try scene.fixture.device("b")
            #expect(try await other.pull().value.warnings == [], "before request \(number)")
            #expect(try other.notes() == ["one", "two"], "before request \(number)")
            let later = try await scene.device.verify().value
            #expect(later.problems.isEmpty && later.warnings.isEmpty, "before request \(number): \(later)")
            number += TestDepth.choose(quick: 7, deep: 1)
            guard number < count else { return }
        }
    }

    @Test("A repair between any two requests of the first registration leaves what that still needs")
    func registration() async throws {
        var number = 0
        while true {
            let fixture = try Fixture(password: "correct horse")
            let connection = DyingBackend(fixture.remote)
            let (device, repairing) = (try fixture.device("a", backend: connection), try fixture.device("a"))
            await connection.meet(atRequest: number) { _ = try? await repairing.verify(repairs: true).value }
            _ = try await device.register().value
            let count = await connection.requests.count
            _ = try await fixture.device("b").register().value
            #expect(try await device.verify().value.problems.isEmpty, "before request \(number)")
            number += 1
            guard number < count else { return }
        }
    }
}
