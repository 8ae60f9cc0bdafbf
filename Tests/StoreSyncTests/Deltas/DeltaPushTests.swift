import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Pushing deltas", .timeLimit(.minutes(60)))
struct DeltaPushTests {
    private func written(by device: Device, _ body: () async throws -> Void) async throws -> Int64 {
        let backend = try #require(device.backend as? ObservedBackend)
        let before = backend.writtenBytes.withLock { $0 }
        try await body()
        return backend.writtenBytes.withLock { $0 } - before
    }

    @Test(
        "A push writes at most 3 % of the bytes if 1 % of the rows changed, and only its time if none changed",
        arguments: ["delete", "wal"]
    )
    func amounts(journalMode: String) async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a") { _ in }, try scene.fixture.device("b"))
        var generator = SplitMix64(seed: 1)
        try RowStore.insert(2000, into: a.store, &generator)
        // A store with a log is read in place, a store without one is copied.
        try Store.setJournalMode(journalMode, of: a.store)
        let first = try await a.push().value
        for round in 0..<3 {
            try RowStore.update(20, in: a.store, &generator)
            var pushed: WholeStoreUpload?
            let written = try await written(by: a) { pushed = try await a.push().value }
            print("of \(first.bytes) bytes \(written) were written")
            #expect(Double(written) <= 0.03 * Double(first.bytes), "\(written) of \(first.bytes)")
            #expect(try await scene.newest(a).bases.count == round + 1)
            let upload = try #require(pushed)
            #expect(upload.bytes >= first.bytes && upload.storedBytes <= written)
            try await scene.expectPulled(b, is: a.store)
        }
        var again: WholeStoreUpload?
        let time = try await written(by: a) { again = try await a.push().value }
        let times = try scene.fixture.files().filter { $0.key.hasSuffix("\(first.client).recentsync") }
        #expect(times.count == 1 && times.values.first.map { Int64($0.count) } == time && again?.isUnchanged == true)
        let report = try await b.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
        let status = try await b.status().value
        #expect(status.documents.first?.stores.first?.generation == 4)
        #expect(try await b.pull().value.storedBytes > first.storedBytes)
    }

    @Test("A file that isn't a database is split into blocks of 4 KiB, and may grow and shrink")
    func otherFiles() async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        var generator = SplitMix64(seed: 2)
        var bytes = DeltaModel.noise(300_000, &generator)
        for change in 0..<5 {
            switch change {
            case 1: bytes[150_000] &+= 1
            case 2: bytes += DeltaModel.noise(9_999, &generator)
            case 3: bytes.removeLast(70_001)
            case 4: bytes.removeLast(1)
            default: break
            }
            try Data(bytes).write(to: a.store)
            _ = try await a.push().value
            #expect(try await scene.newest(a).isDelta == (change > 0))
            _ = try await b.pull(overwrite: true).value
            #expect(try Data(contentsOf: b.store) == Data(bytes))
        }
    }

    @Test("After sixteen deltas, or half the bytes of the whole copy, a push is a whole copy, and unneeded uploads go")
    func folding() async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        var generator = SplitMix64(seed: 3)
        try RowStore.insert(100, into: a.store, &generator)
        var depths: [Int] = []
        for _ in 0..<20 {
            try RowStore.update(1, in: a.store, &generator)
            _ = try await a.push().value
            depths.append(try await scene.newest(a).bases.count)
            try await scene.expectPulled(b, is: a.store)
            let manifests = try await scene.manifests(a)
            #expect(manifests.allSatisfy { (try? StoreChain($0, among: manifests)) != nil })
        }
        #expect(depths == Array(0...16) + Array(0...2))
        // The newest upload and the two that it builds on.
        #expect(try await scene.manifests(a).map(\.name.generation) == [18, 19, 20])
        try RowStore.update(60, in: a.store, &generator)
        _ = try await a.push().value
        #expect(try await !scene.newest(a).isDelta)
        let report = try await a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test("An unencrypted application has only whole copies, and nothing is remembered for deltas")
    func unencrypted() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a")
        var generator = SplitMix64(seed: 4)
        try RowStore.insert(50, into: a.store, &generator)
        for generation in 1...3 {
            try RowStore.update(1, in: a.store, &generator)
            #expect(try await a.push().value.generation == generation)
        }
        let names = try FileManager.default.subpathsOfDirectory(atPath: fixture.share.path)
        #expect(!names.contains { $0.hasSuffix("WholeStoreDelta.ticdsync") })
        #expect(!FileManager.default.fileExists(atPath: a.state.url.appending(path: "pushed").path))
    }

    /// The damage to the memory of the last push.
    enum Memory: String, CaseIterable, Sendable {
        case lost, damaged, outdated, ofAnotherDocument, ofAnotherClient, ofAnotherEpoch, ofAnotherContent, lying
    }

    @Test(
        "D13: If the memory of the last push is lost, damaged, outdated or another's, the next push is a whole copy",
        arguments: Memory.allCases
    )
    func memory(_ memory: Memory) async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        var generator = SplitMix64(seed: 5)
        try RowStore.insert(50, into: a.store, &generator)
        _ = try await a.push().value
        let url = try scene.pushedBlocks(of: a)
        let former = try Data(contentsOf: url)
        try RowStore.update(1, in: a.store, &generator)
        _ = try await a.push().value
        #expect(try await scene.newest(a).isDelta)
        func write(_ change: (inout PushedBlocks) -> Void) throws {
            var blocks = try #require(PushedBlocks.File.decode(Array(try Data(contentsOf: url))))
            change(&blocks)
            try Data(PushedBlocks.File.encode(blocks).flatMap(\.self)).write(to: url)
        }
        switch memory {
        case .lost: try FileManager.default.removeItem(at: url)
        case .damaged:
            var bytes = try Data(contentsOf: url)
            bytes[bytes.count / 2] ^= 1
            try bytes.write(to: url)
        case .outdated: try former.write(to: url)
        case .ofAnotherDocument: try write { $0.subject.document.document = "other" }
        case .ofAnotherClient: try write { $0.subject.client = UUID().uuidString }
        case .ofAnotherEpoch: try write { $0.subject.epoch = UUID() }
        case .ofAnotherContent: try write { $0.subject.contentRoot = String(repeating: "ab", count: 32) }
        case .lying: try write { $0.subject.uploads.removeFirst() }
        }
        try RowStore.update(1, in: a.store, &generator)
        _ = try await a.push().value
        #expect(try await !scene.newest(a).isDelta)
        try await scene.expectPulled(b, is: a.store)
        try RowStore.update(1, in: a.store, &generator)
        _ = try await a.push().value
        #expect(try await scene.newest(a).isDelta)
        try await scene.expectPulled(b, is: a.store)
    }

    @Test("A state directory that was restored from a backup pushes as a new client, and a whole copy")
    func backup() async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        var generator = SplitMix64(seed: 6)
        try RowStore.insert(50, into: a.store, &generator)
        let client = try await a.push().value.client
        let (state, backup) = (a.state.url, scene.fixture.folder.appending(path: "backup"))
        try FileManager.default.copyItem(at: state, to: backup)
        try RowStore.update(1, in: a.store, &generator)
        _ = try await a.push().value
        try FileManager.default.removeItem(at: state)
        try FileManager.default.moveItem(at: backup, to: state)
        let again = try scene.fixture.device("a")
        try RowStore.update(1, in: again.store, &generator)
        let upload = try await again.push().value
        #expect(upload.client != client)
        #expect(try await scene.manifests(b).filter { $0.name.client == upload.client }.map(\.isDelta) == [false])
        _ = try await b.pull(from: upload.client, overwrite: true).value
        #expect(try Data(contentsOf: b.store) == scene.snapshot(of: again.store))
    }

    @Test("A delta builds on the client's own last push, even if another client has pushed since")
    func otherClient() async throws {
        let scene = try DeltaFixture()
        let (a, b, c) = (
            try scene.fixture.device("a"), try scene.fixture.device("b"), try scene.fixture.device("c")
        )
        var generator = SplitMix64(seed: 7)
        try RowStore.insert(50, into: a.store, &generator)
        _ = try await a.push().value
        _ = try await b.pull().value
        try RowStore.update(2, in: b.store, &generator)
        let client = try await b.push().value.client
        _ = try await a.pull().value
        #expect(try await a.push().value.isUnchanged)
        try RowStore.update(2, in: a.store, &generator)
        _ = try await a.push().value
        let newest = try await scene.newest(a)
        #expect(newest.bases.map(\.generation) == [1] && newest.name.generation == 3)
        #expect(newest.includes.filter { $0.client == client }.map(\.generation) == [2])
        try await scene.expectPulled(c, is: a.store)
        try await scene.expectPulled(b, is: a.store)
    }
}

// MARK: - Cancellation

extension DeltaPushTests {
    /// Runs an operation on a device that has a delta to push or pull, and cancels it at a step.
    ///
    /// Returns whether the operation reached that step.
    private func run(
        cancellingAt step: Int,
        _ act: @escaping @Sendable (_ a: Device, _ b: Device) -> any OperationReference
    ) async throws -> Bool {
        let scene = try DeltaFixture()
        var generator = SplitMix64(seed: 8)
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        try RowStore.insert(30, into: a.store, &generator)
        _ = try await a.push().value
        _ = try await b.pull().value
        try RowStore.update(1, in: a.store, &generator)
        _ = try await a.push().value
        try RowStore.update(1, in: a.store, &generator)
        let point = CancellationPoint(step: step)
        let wasReached = try await Simulation.run(seed: 1, cancellingAt: point) { [scene] simulation in
            let a = try scene.fixture.device("a", simulation: simulation)
            let b = try scene.fixture.device("b", simulation: simulation)
            let handle = act(a, b)
            point.arm {
                a.supervisor.cancelAll()
                b.supervisor.cancelAll()
            }
            try await a.supervisor.drain()
            try await b.supervisor.drain()
            point.disarm()
            #expect(handle.state == .finished || handle.state == .cancelled, "at step \(step): \(handle.state)")
            return point.wasReached
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: scene.fixture.temporary.path).isEmpty)
        _ = try await a.verify(repairs: true).value
        _ = try await a.push().value
        try await scene.expectPulled(b, is: a.store, "at step \(step)")
        let report = try await b.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "at step \(step): \(report)")
        return wasReached
    }

    @Test("F17: A push or pull of a delta cancelled at any step leaves nothing behind, and completes when run again")
    func cancelled() async throws {
        // Primes, so that steps that recur at regular intervals aren't all skipped.
        let stride = TestDepth.choose(quick: 97, deep: 1)
        let acts: [@Sendable (Device, Device) -> any OperationReference] = [{ a, _ in a.push() }, { _, b in b.pull() }]
        for act in acts {
            var step = 0
            while try await run(cancellingAt: step, act) { step += stride }
            #expect(step > 100)
            print("cancelled at up to \(step) steps")
        }
    }
}
