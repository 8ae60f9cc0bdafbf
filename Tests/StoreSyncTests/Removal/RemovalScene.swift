import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import Testing

@testable import StoreSync

/// What a device removes in a test.
enum RemovedSubject: String, Sendable, CaseIterable, CustomTestStringConvertible {
    case document, clientOfApplication, clientOfDocument, application

    var testDescription: String { rawValue }
}

/// An application on a kind of storage, with a document that the devices "a" and "b" have pushed and pulled.
///
/// Every run of a test starts with this state restored.
final class RemovalScene: Sendable {
    let fixture: Fixture
    let server: SimulatedServer
    /// The client identifier of "b".
    let client: RemoteIdentifier
    private let prepared: InMemoryBackend
    private let image: DeviceImage

    /// The kinds of storage on which a document can be pushed.
    static let servers = SimulatedServer.all.filter { $0.capabilities.contains(.exclusiveCreate) }

    init(_ server: SimulatedServer, isSealed: Bool) async throws {
        self.server = server
        prepared = InMemoryBackend(identity: "simulated:", capabilities: server.capabilities)
        fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let backend = SimulatedBackend(server, storage: prepared)
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.push(adding: "one")
        client = try await b.pull().value.client
        try await b.push(adding: "two")
        _ = try await a.pull().value
        image = try DeviceImage(of: ["a", "b"], in: fixture)
    }

    /// Restores the devices and the remote.
    ///
    /// Devices that were created before must not be used any more.
    func restore() async throws -> InMemoryBackend {
        try image.restore()
        return await prepared.copy()
    }

    /// The device of a name, connected to the remote by a backend whose requests can be counted and cut off.
    func device(
        _ name: String,
        at place: InMemoryBackend,
        in simulation: Simulation? = nil
    ) throws -> (device: Device, connection: DyingBackend) {
        var faults = FaultModel.none
        if simulation != nil { faults.latency = .milliseconds(5) ... .milliseconds(400) }
        let seed = (simulation?.seed ?? 0) &* 31 &+ UInt64(name.utf8.first ?? 0)
        let connection = DyingBackend(
            SimulatedBackend(server, faults: faults, seed: seed, storage: place, clock: simulation?.clock)
        )
        return (try fixture.device(name, backend: connection, simulation: simulation), connection)
    }

    /// Removes the subject, by a device other than "b".
    func remove(_ subject: RemovedSubject, by device: Device) async throws {
        switch subject {
        case .document: _ = try await device.removeDocument().value
        case .clientOfApplication: _ = try await device.remove(client).value
        case .clientOfDocument: _ = try await device.remove(client, from: fixture.document).value
        case .application: _ = try await device.removeApplication().value
        }
    }

    /// Expects that the subject is removed, that nothing else is, and that "b" is told.
    func expectRemoved(_ subject: RemovedSubject, at place: InMemoryBackend, _ comment: String) async throws {
        let (a, b) = (try device("a", at: place).device, try device("b", at: place).device)
        let names = Set(try await contents(of: place).keys)
        if subject != .application {
            let report = try await a.verify().value
            #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(comment): \(report)")
        }
        switch subject {
        case .document:
            #expect(!names.contains { $0.contains("/Documents/notes") }, "\(comment)")
            #expect(await code { try await b.pull().value } == .documentDeleted, "\(comment)")
            #expect(try await a.listDocuments().value.documents.isEmpty, "\(comment)")
            #expect(try await a.push(recreates: true).value.isUnchanged == false, "\(comment)")
            _ = try await b.pull(overwrite: true).value
        case .clientOfApplication:
            let left = names.filter { $0.contains(client.rawValue) && !$0.contains("/WholeStore/") }
            let expected = ["/DeletedClients/", "/SyncChanges/", "/SyncCommands/"]
            #expect(left.allSatisfy { name in expected.contains { name.contains($0) } }, "\(comment): \(left)")
            #expect(await code { try await b.pull().value } == .deregistered, "\(comment)")
            #expect(try await a.listClients().value.clients.map(\.description) == ["a"], "\(comment)")
        case .clientOfDocument:
            let clients = try await a.listClients(of: fixture.document).value.clients.map(\.description)
            #expect(clients == ["a"], "\(comment)")
            try b.write("three")
            #expect(await code { try await b.push().value } == .documentReplaced, "\(comment)")
            _ = try await b.pull(overwrite: true).value
        case .application:
            #expect(names.isEmpty, "\(comment): \(names)")
            #expect(await code { try await b.pull().value } == .applicationMissing, "\(comment)")
            _ = try await a.push().value
            try await expectNotes(at: place, comment)
        }
        if subject == .document { try await expectNotes(at: place, comment) }
    }

    /// Expects that a new device pulls what "a" has.
    func expectNotes(at place: InMemoryBackend, _ comment: String) async throws {
        let reader = try device("reader", at: place).device
        _ = try await reader.pull().value
        #expect(try reader.notes() == ["one", "two"], "\(comment)")
    }
}
