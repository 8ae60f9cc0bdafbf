import Foundation
import Operations
import RemoteStorage
import RemoteStorageHTTP
import RemoteStorageTesting
import S3Servers
import TestSupport
import Testing

@testable import RemoteStorageS3
@testable import StoreSync

/// Pushes to a bucket on real servers that are interrupted twice, with an edit of the store after each time.
@Suite("A push to a bucket that is killed twice, with an edit after each time", .serialized, .timeLimit(.minutes(60)))
struct BucketResumptionTests {
    /// A device that pushes a store of several parts to a bucket, each time as another process, and a pulling device.
    private struct Scene {
        /// The number of chunks in a part, which take a little more than the minimum part size if they're sealed.
        private let chunksInPart: Int
        let deltas: DeltaFixture
        private let configuration: S3Configuration
        private let transport: any HTTPSending

        init(_ server: S3Server, isSealed: Bool = true, parallelParts: Int = 1, isDisguised: Bool = false) async throws
        {
            deltas = try DeltaFixture(isSealed: isSealed)
            let direct = try server.configuration()
            var configuration = isDisguised ? try server.disguisedConfiguration(prefix: direct.prefix) : direct
            // moto accepts small parts, the other servers don't.
            if server.kind == .moto { configuration.minimumPartSize = ChunkedStore.chunk }
            configuration.partSize = configuration.minimumPartSize
            chunksInPart = configuration.partSize / ChunkedStore.chunk
            configuration.parallelParts = parallelParts
            self.configuration = configuration
            self.transport = isDisguised ? DisguisedTransport(direct.transport) : direct.transport
        }

        /// Returns the device that pushes, as a new process that dies at a part.
        func pusher(dyingAt part: Int? = nil, partsInFlight: Int = 0) throws -> Device {
            let line = part.map { DyingTransport(transport, at: $0, partsInFlight: partsInFlight) }
            return try deltas.fixture.device("a", backend: S3Backend(configuration, transport: line ?? transport))
        }

        func puller(_ name: String = "b") throws -> Device {
            try deltas.fixture.device(name, backend: S3Backend(configuration, transport: transport))
        }

        /// Creates the store.
        func makeStore(parts: Int, version: Int) throws {
            try ChunkedStore(url: pusher().store).make(chunks: parts * chunksInPart, version: version)
        }

        /// Changes the first chunk of a part.
        func edit(part: Int, version: Int) throws {
            try ChunkedStore(url: pusher().store).edit(chunk: (part - 1) * chunksInPart, version: version)
        }

        /// Pushes, and dies at a part.
        func pushCutOff(at part: Int, partsInFlight: Int) async throws {
            let device = try pusher(dyingAt: part, partsInFlight: partsInFlight)
            #expect(await code { try await device.push().value } == .remoteUnavailable)
        }

        /// Completes a push, and pulls the store on the other device.
        ///
        /// The next push uploads a whole copy, too.
        func pushWhole(_ comment: String) async throws {
            let device = try pusher()
            _ = try await device.push().value
            try await deltas.expectSeals(device, comment)
            try await deltas.expectPulled(puller(), is: device.store, comment)
            if deltas.fixture.password != nil {
                try FileManager.default.removeItem(at: deltas.pushedBlocks(of: device))
            }
        }
    }

    @Test(
        "A push that was killed twice, the second time with its first parts in flight, is published completely",
        .enabled(if: S3ServerKind.seaweedFS.isInstalled),
        arguments: TestDepth.current == .quick
            ? [(true, 2), (false, 0)] : [(true, 0), (true, 2), (false, 0), (false, 2)]
    )
    func twice(isSealed: Bool, partsInFlight: Int) async throws {
        let server = try await S3Server.shared(.seaweedFS)
        let scene = try await Scene(server, isSealed: isSealed, parallelParts: 4)
        try scene.makeStore(parts: 10, version: 0)
        try await scene.pushCutOff(at: 9, partsInFlight: 0)
        try scene.edit(part: 3, version: 1)
        try await scene.pushCutOff(at: 3, partsInFlight: partsInFlight)
        try await scene.pushWhole("\(partsInFlight) in flight")
    }

    @Test(
        "On S3, after a kill and an edit at any part of a push, and at any part of the next, the third push is complete",
        arguments: S3ServerKind.plainInstalled
    )
    func everyPart(kind: S3ServerKind) async throws {
        let server = try await S3Server.shared(kind)
        let scene = try await Scene(server, isDisguised: kind == .moto)
        var version = 0
        for (first, second) in kills(from: S3ServerKind.plain.firstIndex(of: kind) ?? 0) {
            version += 2
            try scene.makeStore(parts: 8, version: version)
            try await scene.pushCutOff(at: first, partsInFlight: second % 2)
            // In the middle of the parts that have arrived, so that other parts follow the edit.
            try scene.edit(part: first / 2 + 1, version: version + 1)
            try await scene.pushCutOff(at: second, partsInFlight: first % 2)
            try await scene.pushWhole("killed at part \(first), then at \(second)")
        }
    }
}

/// Returns the eighths at which a push and the next push die: all pairs in deep tests.
///
/// Otherwise a sample of eight pairs, in which each eighth occurs once as the first and once as the second: every fourth pair
/// in continuous integration and every fifth in quick tests, from the pair of index `offset` on.
private func kills(from offset: Int) -> [(first: Int, second: Int)] {
    let pairs = (1...8).flatMap { first in (1...8).map { (first: first, second: $0) } }
    guard !TestDepth.isDeep else { return pairs }
    let sample = pairs.filter { $0.second == $0.first * 5 % 9 }
    let interval = TestDepth.choose(quick: 5, ci: 4, deep: 1)
    return stride(from: offset % interval, to: sample.count, by: interval).map { sample[$0] }
}

/// Pushes to storage that keeps nothing of an interrupted write.
@Suite("A push that is killed twice, with an edit after each time, without resumable writes", .timeLimit(.minutes(60)))
struct RestartTests {
    @Test(
        "A push without resumable writes starts over after two kills and edits, and the third push is complete",
        arguments: SimulatedServer.all.filter { $0.capabilities.contains(.exclusiveCreate) }
    )
    func everyEighth(server: SimulatedServer) async throws {
        #expect(!server.capabilities.contains(.resumableWrite))
        let deltas = try DeltaFixture()
        let place = InMemoryBackend(identity: "simulated:\(server)")
        func device(_ name: String, dyingAfter requests: Int? = nil) async throws -> Device {
            let backend = SimulatedBackend(server, storage: place)
            if let requests { await backend.die(afterRequests: requests) }
            return try deltas.fixture.device(name, backend: backend)
        }
        func push(dyingAt eighth: Int, of requests: Int) async throws {
            // Not at the very end, where no request is left that could fail.
            let device = try await device("a", dyingAfter: requests * eighth / 9)
            _ = try? await device.push().value
        }
        let store = ChunkedStore(url: try await device("a").store)
        try store.make(chunks: 4, version: 0)
        let counting = SimulatedBackend(server, storage: place)
        _ = try await deltas.fixture.device("a", backend: counting).push().value
        let requests = await counting.requestCount
        var version = 0
        for (first, second) in kills(from: SimulatedServer.all.firstIndex { "\($0)" == "\(server)" } ?? 0) {
            version += 2
            try store.edit(chunk: first % 4, version: version)
            try await push(dyingAt: first, of: requests)
            try store.edit(chunk: second % 4, version: version + 1)
            try await push(dyingAt: second, of: requests)
            _ = try await device("a").push().value
            try await deltas.expectPulled(device("b"), is: store.url, "\(first), \(second)")
        }
    }
}
