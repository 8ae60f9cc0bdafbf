import Foundation
import Keychain
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

/// A backend on which every request takes a second of simulated time.
///
/// The seconds that pass are therefore the length of the longest chain of requests that waited for each other.
actor DistantBackend: ObservingBackend {
    nonisolated let base: any RemoteBackend
    private let clock: SimulatedClock
    private let observer: @Sendable (String) -> Void

    /// - Parameters: `observer` is called with each request.
    init(
        _ near: InMemoryBackend,
        _ clock: SimulatedClock,
        _ observer: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        base = near
        self.clock = clock
        self.observer = observer
    }

    func observe<Answer: Sendable>(
        _ request: ObservedRequest,
        _ send: () async throws -> Answer
    ) async throws -> Answer {
        observer(request.name)
        try await clock.sleep(for: .seconds(1))
        return try await send()
    }
}

@Suite("The depth of operations in round trips", .timeLimit(.minutes(60)))
struct RoundTripDepthTests {
    /// Returns the length of the longest chain of requests that waited for each other while `body` ran.
    private func depth(
        of fixture: Fixture,
        _ name: String,
        _ near: InMemoryBackend,
        _ body: @escaping @Sendable (Device) async throws -> Void
    ) async throws -> Int64 {
        try await fixture.depth(of: name, at: { DistantBackend(near, $0) }, body)
    }

    @Test(
        "Registering, pushing and pulling stay within their limits of round trips",
        arguments: [RemoteCapabilities.all, .all.subtracting(.exclusiveDirectoryMove)],
        [false, true]
    )
    func limits(capabilities: RemoteCapabilities, isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil)
        let near = InMemoryBackend(capabilities: capabilities)
        let first = try await depth(of: fixture, "a", near) { _ = try await $0.register().value }
        #expect(first <= 6)
        let known = try await depth(of: fixture, "a", near) { _ = try await $0.register().value }
        #expect(known <= 2)
        try fixture.device("a", backend: near).write("one")
        let push = try await depth(of: fixture, "a", near) { _ = try await $0.push().value }
        try fixture.device("a", backend: near).write("two")
        let again = try await depth(of: fixture, "a", near) { _ = try await $0.push().value }
        try fixture.device("b", backend: near).write("other")
        let pull = try await depth(of: fixture, "c", near) { _ = try await $0.pull().value }
        #expect(push <= 12)
        // Six up to the commit. After it the fixed names are refreshed, the store before the applied sets.
        #expect(again <= (isSealed ? 6 : 6 + 2))
        #expect(pull <= 12)
    }

    @Test("A push of a delta needs no more round trips than a push of a whole copy")
    func delta() async throws {
        let fixture = try Fixture(password: "correct horse")
        let near = InMemoryBackend(capabilities: .all)
        var generator = SplitMix64(seed: 1)
        try RowStore.insert(30, into: fixture.device("a", backend: near).store, &generator)
        _ = try await depth(of: fixture, "a", near) { _ = try await $0.push().value }
        for _ in 0..<3 {
            try RowStore.update(1, in: fixture.device("a", backend: near).store, &generator)
            let again = try await depth(of: fixture, "a", near) { device in
                let upload = try await device.push().value
                #expect(upload.storedBytes < upload.bytes / 4)
            }
            // The removals after the commit run one after the other.
            #expect(again <= 6)
        }
    }

    @Test("A push by an unregistered device to an empty remote stays within its limit of round trips")
    func everythingNew() async throws {
        let fixture = try Fixture()
        let near = InMemoryBackend(capabilities: .all)
        try fixture.device("a", backend: near).write("one")
        let push = try await depth(of: fixture, "a", near) { _ = try await $0.push().value }
        #expect(push <= 16)
    }

    @Test(
        "Synchronizing keychain items makes a push no deeper, and costs no round trip if there are no items"
    )
    func keychain() async throws {
        let fixture = try Fixture(password: "correct horse")
        let near = InMemoryBackend(capabilities: .all)
        let (a, b) = (try fixture.device("a", backend: near), try fixture.device("b", backend: near))
        try await a.push(adding: "one")
        let unused = try await depth(of: fixture, "a", near) { _ = try await $0.synchronizeKeychain().value }
        #expect(unused <= 2)
        for device in [a, b] {
            let item = KeychainItem(service: "service", account: device.name, isSynchronizable: true)
            try await device.keychain().add(SecretBytes("1"), as: item)
        }
        #expect(try await b.synchronizeKeychain().value.hasPublished)
        try a.write("two")
        let push = try await depth(of: fixture, "a", near) { device in
            let asker = Asker()
            let manager = device.manager(asker)
            let registration = manager.register(uploading: device.store)
            let keychain = manager.synchronizeKeychain(registeredBy: registration)
            let pushing = manager.document(device.document)
                .upload(WholeStoreUploadRequest(url: device.store), registeredBy: registration)
            let (upload, synchronization) = try await (pushing.value, keychain.value)
            #expect(upload.generation == 2 && synchronization.hasPublished)
            withExtendedLifetime(asker) {}
        }
        #expect(push <= 6)
        #expect(try await a.items() == ["a": "1", "b": "1"])
    }

    @Test("The status of 100 documents is four round trips deep")
    func status() async throws {
        let fixture = try Fixture()
        let near = InMemoryBackend()
        try await Simulation.run(seed: 2) { simulation in
            let device = try fixture.device("a", backend: near, simulation: simulation)
            let upload = try await device.push(adding: "one")
            #expect(upload.generation == 1)
            let documents = fixture.hierarchy.documents
            let template = documents.appending(fixture.document)
            for number in 0..<99 {
                let copy = try documents.appending("document-\(number)")
                try await Self.copy(near, template, to: copy)
            }
        }
        let status = try await depth(of: fixture, "a", near) { device in
            let status = try await device.status().value
            #expect(status.documents.count == 100)
            #expect(status.documents.allSatisfy { $0.stores.count == 1 })
        }
        #expect(status <= 4)
    }

    private static func copy(_ backend: InMemoryBackend, _ source: RemotePath, to destination: RemotePath) async throws
    {
        for item in try await backend.list(source) ?? [] {
            let (from, to) = (try source.appending(item.name), try destination.appending(item.name))
            if item.kind == .directory {
                try await backend.createDirectory(at: to)
                try await copy(backend, from, to: to)
            } else {
                try await backend.copy(from, to: to, when: .ifAbsent)
            }
        }
    }
}
