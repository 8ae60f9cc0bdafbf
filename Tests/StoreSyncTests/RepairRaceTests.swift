import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A repair concurrent with other operations of the device", .timeLimit(.minutes(60)))
struct RepairRaceTests {
    /// A device that has published one generation, of whose second push only the folder is left.
    private struct Scene {
        let fixture: Fixture
        let device: Device
        let connection: DyingBackend

        init(password: String?) async throws {
            fixture = try Fixture(password: password)
            connection = DyingBackend(fixture.remote)
            device = try fixture.device("a", backend: connection)
            try device.write("one")
            _ = try await device.push().value
            try device.write("two")
            let dying = DyingBackend(fixture.remote)
            await dying.refuse { $0.hasPrefix("write of ") && $0.contains("/manifest-") }
            #expect(await code { try await fixture.device("a", backend: dying).push().value } == .remoteUnavailable)
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
            let pushing = try scene.fixture.device("a")
            await scene.connection.meet(atRequest: number) { _ = try? await pushing.push().value }
            let report = try await scene.device.verify(repairs: true).value
            #expect(report.problems.isEmpty, "before request \(number)")
            let count = await scene.connection.requests.count
            // A push while the repair removes what is left over is refused, and tried again.
            _ = try await pushing.push().value
            let other = try scene.fixture.device("b")
            #expect(try await other.pull().value.warnings == [], "before request \(number)")
            #expect(try other.notes() == ["one", "two"], "before request \(number)")
            let later = try await pushing.verify().value
            #expect(later.problems.isEmpty && later.warnings.isEmpty, "before request \(number): \(later)")
            number += 1
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
