import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

/// Counts the manifests and files of change sets that are read, and the maximum that are read concurrently.
private final class ManifestCounter: Sendable {
    struct Counts {
        var read = 0
        var pending = 0
        var most = 0
    }
    let counts = Locked(Counts())
}

/// A storage on which reading a manifest or a file of change sets takes a second of simulated time.
private actor CountingBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let clock: SimulatedClock
    private let counter: ManifestCounter

    init(_ base: any RemoteBackend, _ clock: SimulatedClock, _ counter: ManifestCounter) {
        (self.base, self.clock, self.counter) = (base, clock, counter)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        let name = path.lastComponent ?? ""
        guard name.hasPrefix("manifest-") || name.hasSuffix(".syncchg") else {
            return try await base.read(path, range: range)
        }
        counter.counts.withLock {
            $0.read += 1
            $0.pending += 1
            $0.most = max($0.most, $0.pending)
        }
        defer { counter.counts.withLock { $0.pending -= 1 } }
        try await clock.sleep(for: .seconds(1))
        return try await base.read(path, range: range)
    }
}

@Suite("The remote can't make a device use much memory", .timeLimit(.minutes(60)))
struct RemoteMemoryTests {
    /// Pushes a document as `a`, plants more manifests under a client's name, and returns the client of `a`.
    private static func plant(
        _ planted: Int,
        above: Bool,
        in fixture: Fixture,
        _ near: InMemoryBackend
    ) async throws -> RemoteIdentifier {
        let a = try fixture.device("a", backend: near)
        let client = try await a.push(adding: "one").client
        let hierarchy = fixture.hierarchy.document(fixture.document)
        // Below the real generation, 1, there is no free one, so these manifests have another client.
        let victim = above ? client : try RemoteIdentifier("planted")
        for generation in 2..<(planted + 2) {
            let name = UploadName(client: victim, generation: generation, upload: UUID().uuidString)
            try await near.write(Array("planted".utf8), to: hierarchy.manifest(name), when: .ifAbsent)
        }
        return client
    }

    private func counted(
        _ fixture: Fixture,
        _ near: InMemoryBackend,
        _ body: @escaping @Sendable (Device) async throws -> Void
    ) async throws -> ManifestCounter.Counts {
        let counter = ManifestCounter()
        try await Simulation.run(seed: 1) { simulation in
            let backend = CountingBackend(near, simulation.clock, counter)
            try await body(fixture.device("b", backend: backend, simulation: simulation))
        }
        return counter.counts.withLock { $0 }
    }

    @Test("Of 3,000 manifests of a client 64 are read, 16 at a time, and the user is warned", arguments: [false, true])
    func manifests(isSealed: Bool) async throws {
        let fixture = try Fixture(password: isSealed ? "correct horse" : nil, isVolatile: false)
        let near = InMemoryBackend()
        let client = try await Self.plant(3_000, above: false, in: fixture, near)
        let counts = try await counted(fixture, near) { device in
            let pulled = try await device.pull().value
            #expect(pulled.from == client)
            #expect(pulled.warnings.filter { $0.contains("There are 3000 manifests of client planted") }.count == 1)
        }
        #expect(counts.read == PublishedStores.manifestsRead + 1)
        #expect(counts.most == 16)
        let pushed = try await counted(fixture, near) { device in
            let warnings = try await device.push(adding: "two").warnings
            #expect(warnings.contains { $0.contains("There are 3000 manifests") })
        }
        #expect(pushed.read == PublishedStores.manifestsRead + 1 && pushed.most == 16)
    }

    @Test("Manifests planted above all of a client's own manifests hide these, and the error says so")
    func hidden() async throws {
        let fixture = try Fixture(isVolatile: false)
        let near = InMemoryBackend()
        _ = try await Self.plant(100, above: true, in: fixture, near)
        let counts = try await counted(fixture, near) { device in
            #expect(await code { try await device.pull().value } == .tampered)
            #expect(!FileManager.default.fileExists(atPath: device.store.path))
        }
        #expect(counts.read == PublishedStores.manifestsRead)
    }

    @Test("Change sets are read from four files at a time, of all clients together")
    func changeSets() async throws {
        let fixture = try Fixture()
        let near = InMemoryBackend()
        let writers = try (1...3).map { try fixture.device("writer \($0)", backend: near) }
        try writers[0].execute("CREATE TABLE note (id INTEGER PRIMARY KEY, bytes BLOB)")
        // In so large a store, the edits are too few for a baseline.
        try writers[0].execute("INSERT INTO note (bytes) VALUES (randomblob(8000000))")
        for writer in writers {
            for _ in 0..<8 {
                _ = try await writer.synchronize().value
                try writer.execute("INSERT INTO note (bytes) VALUES (randomblob(70000))")
            }
            _ = try await writer.synchronize().value
        }
        let counts = try await counted(fixture, near) { device in
            _ = try await device.synchronize().value
            #expect(try device.query("SELECT id FROM note").count == 25)
        }
        #expect(counts.read >= 24 && (2...4).contains(counts.most), "\(counts)")
    }

    @Test("A file that announces more bytes than it has makes a device reserve at most 1 MiB")
    func announcedLength() async throws {
        let content = RemoteContent(length: 1 << 30) {
            var chunk: [UInt8]? = [1, 2, 3]
            return { chunk.take() }
        }
        let bytes = try await content.bytes(upTo: 1 << 30)
        #expect(bytes == [1, 2, 3] && bytes.capacity <= 2 * RemoteContent.chunkSize)
    }

    @Test("status reads one manifest of each client, at most 128 at a time, for any number of clients and documents")
    func status() async throws {
        let fixture = try Fixture(isVolatile: false)
        let near = InMemoryBackend()
        _ = try await Self.plant(0, above: false, in: fixture, near)
        for document in 0..<20 {
            let hierarchy = fixture.hierarchy.document(try RemoteIdentifier("document-\(document)"))
            for client in 0..<20 {
                for generation in 1...2 {
                    let client = try RemoteIdentifier("client-\(client)")
                    let name = UploadName(client: client, generation: generation, upload: UUID().uuidString)
                    try await near.write(Array("planted".utf8), to: hierarchy.manifest(name), when: .ifAbsent)
                }
            }
        }
        let counts = try await counted(fixture, near) { device in
            let status = try await device.status().value
            #expect(status.documents.count == 21)
        }
        #expect(counts.read == 401 && counts.most == 128)
    }
}
