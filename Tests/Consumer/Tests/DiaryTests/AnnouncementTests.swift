import Diary
import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import StoreSync
import Testing

@Suite("An announcement", .timeLimit(.minutes(10)))
struct AnnouncementTests {
    /// A registered diary and its devices, which any number of simulated runs can share: both are values.
    private static func registered() async throws -> (DocumentRegistration, ClientList) {
        let (folder, questions, backend) = (try Folder(), Questions(), InMemoryBackend())
        for device in ["laptop", "phone"] {
            let diary = try folder.manager(of: device, backend, questions).document(folder.diary)
            _ = try await diary.register().value
        }
        let diary = try folder.manager(of: "laptop", backend, questions).document(folder.diary)
        return (try await diary.register().value, try await diary.listClients().value)
    }

    @Test("It keeps the promises of every operation, wherever it is cancelled")
    func conformance() async throws {
        let (document, devices) = try await Self.registered()
        let report = try await OperationConformance.check { _ in
            let backend = RingingBackend(InMemoryBackend()) { _ in }
            return Announcement(of: 7, in: document, to: devices, backend: backend)
        }
        #expect(report.cancelledRuns > 0)
    }

    @Test("Whatever the order of two announcements, every device ends with the newer one")
    func races() async throws {
        let (document, devices) = try await Self.registered()
        let exploration = try await Simulation.explore(seeds: 0..<300) { simulation in
            let backend = InMemoryBackend()
            let supervisor = OperationSupervisor(.init(simulation: simulation))
            for generation in [3, 4] {
                supervisor.add(Announcement(of: generation, in: document, to: devices, backend: backend))
            }
            try await supervisor.drain()
            for device in devices.clients {
                let note = try await Announcement.read(by: device.client, in: document, backend: backend)
                try #require(note == 4)
            }
        }
        #expect(exploration.distinctOrders > 10)
    }
}
