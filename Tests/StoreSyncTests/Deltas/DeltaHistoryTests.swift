import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

/// The long life of a store: it's edited in every way, pushed by a device that may crash or forget, and then pulled.
///
/// About twenty generations, and many more in deep tests.
@Suite("A store through many generations", .timeLimit(.minutes(60)))
struct DeltaHistoryTests {
    /// The error of a device that has died.
    private struct Died: Error {}

    /// Lets a device die after a number of steps, which are requests and changes of its memory: every later step fails.
    private final class Mortality: Sendable {
        private let left = Locked<Int>(.max)

        func dies(after steps: Int) { left.withLock { $0 = steps } }

        func step() throws {
            try left.withLock { left in
                guard left > 0 else { throw Died() }
                if left < .max { left -= 1 }
            }
        }
    }

    /// The counts over all generations.
    private struct Tally: CustomStringConvertible {
        var (whole, deltas, deepest, deaths, unchanged) = (0, 0, 0, 0, 0)
        var memory = 0

        var description: String {
            "\(whole) whole copies, \(deltas) deltas, at most \(deepest) deep, \(deaths) deaths, \(unchanged) unchanged, \(memory) memories lost or outdated"
        }
    }

    @Test(
        "D13 D16: After any edits, deaths and losses of memory, each pulled store equals the pushed one byte for byte"
    )
    func generations() async throws {
        let scene = try DeltaFixture()
        let mortality = Mortality()
        var generator = SplitMix64(seed: 20)
        var tally = Tally()
        var former: Data?
        let b = try scene.fixture.device("b")
        var a = try scene.fixture.device("a") { _ in try mortality.step() }
        try RowStore.insert(60, into: a.store, &generator)
        let count = TestDepth.choose(quick: 20, deep: 1_000)
        for generation in 1...count {
            let comment = "in round \(generation)"
            try edit(a.store, &generator, isFirst: generation == 1)
            if generation > 1, Int.random(in: 0..<8, using: &generator) == 0 {
                try await otherClientEdits(b, a, &generator)
            }
            let url = try scene.pushedBlocks(of: a)
            let memory = try? Data(contentsOf: url)
            if Int.random(in: 0..<6, using: &generator) == 0 {
                tally.memory += 1
                try forget(url, former, &generator)
            }
            former = memory
            if Int.random(in: 0..<3, using: &generator) == 0 {
                mortality.dies(after: Int.random(in: 0..<60, using: &generator))
                do {
                    _ = try await a.push().value
                } catch {
                    tally.deaths += 1
                }
                mortality.dies(after: .max)
                a = try scene.fixture.device("a") { _ in try mortality.step() }
            }
            let upload = try await a.push().value
            tally.unchanged += upload.isUnchanged ? 1 : 0
            let newest = try await scene.newest(a)
            tally.whole += newest.isDelta ? 0 : 1
            tally.deltas += newest.isDelta ? 1 : 0
            tally.deepest = max(tally.deepest, newest.bases.count)
            try await scene.expectPulled(b, is: a.store, comment)
            try await check(scene, a, comment, isThorough: generation % 10 == 0)
        }
        print("\(count) rounds: \(tally)")
        #expect(tally.deltas > count / 4 && tally.whole > 0)
    }

    private func edit(_ store: URL, _ generator: inout SplitMix64, isFirst: Bool) throws {
        guard !isFirst else { return }
        switch Int.random(in: 0..<18, using: &generator) {
        case 0: break
        // A store with a log is read in place, a store without one is copied.
        case 8, 9: try Store.setJournalMode(Bool.random(using: &generator) ? "wal" : "delete", of: store)
        case 1: try RowStore.vacuum(store)
        case 2: try RowStore.delete(0.3, from: store, &generator)
        case 3: try RowStore.insert(40, into: store, &generator)
        case 4:
            try RowStore.delete(0.5, from: store, &generator)
            try RowStore.vacuum(store)
        case 5: try RowStore.vacuum(store, pageSize: [1024, 4096, 8192].randomElement(using: &generator))
        case 6: try RowStore.insert(1, into: store, &generator)
        case 7: try RowStore.update(1000, in: store, &generator)
        default: try RowStore.update(Int.random(in: 1...3, using: &generator), in: store, &generator)
        }
    }

    /// Lets another client pull, edit and push the newest store, which this client then pulls and edits.
    private func otherClientEdits(_ other: Device, _ device: Device, _ generator: inout SplitMix64) async throws {
        _ = try await device.push().value
        _ = try await other.pull(overwrite: true).value
        try RowStore.update(1, in: other.store, &generator)
        _ = try await other.push().value
        _ = try await device.pull().value
        try RowStore.update(1, in: device.store, &generator)
    }

    private func forget(_ url: URL, _ former: Data?, _ generator: inout SplitMix64) throws {
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: try? FileManager.default.removeItem(at: url)
        case 1: try former?.write(to: url)
        default:
            guard var bytes = try? Data(contentsOf: url) else { return }
            bytes[Int.random(in: bytes.indices, using: &generator)] ^= 1
            try bytes.write(to: url)
        }
    }

    /// Checks that no manifest lacks its bases, and that unneeded uploads are removed.
    private func check(_ scene: DeltaFixture, _ device: Device, _ comment: String, isThorough: Bool) async throws {
        let manifests = try await scene.manifests(device)
        for manifest in manifests {
            #expect((try? StoreChain(manifest, among: manifests)) != nil, "\(comment): \(manifest.name)")
        }
        #expect(manifests.count <= 2 * 2 * (DeltaPolicy.maximumDeltas + 1), "\(comment)")
        guard isThorough else { return }
        _ = try await device.verify(repairs: true).value
        let report = try await device.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(comment): \(report)")
    }
}
