import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing

@testable import StoreSync

/// In deep tests the store is a gigabyte, and the progress is printed.
@Suite("The progress of a transfer", .timeLimit(.minutes(60)))
struct ProgressTests {
    private static let megabytes = TestDepth.choose(quick: 32, deep: 1_000)

    private struct Step {
        var seconds: Double
        var progress: OperationProgress
    }

    /// Returns the progress reports of an operation until it has ended.
    private func steps<Output>(of handle: OperationHandle<Output>) async throws -> [Step] {
        let clock = ContinuousClock()
        let start = clock.now
        var steps: [Step] = []
        for await event in handle.events {
            guard case .progress(let progress) = event else { continue }
            steps.append(Step(seconds: (clock.now - start) / .seconds(1), progress: progress))
        }
        _ = try await handle.value
        return steps
    }

    /// Checks that the progress never falls, never jumps, and counts every byte.
    private func check(_ steps: [Step], _ name: String, bytes: Int64) throws {
        var last = 0.0
        var printed = -1.0
        for step in steps {
            let fraction = step.progress.fractionCompleted
            #expect(fraction >= last && fraction - last <= 0.05, "\(name): from \(last) to \(fraction)")
            last = fraction
            guard Self.megabytes > 100, fraction - printed >= 0.05 else { continue }
            printed = fraction
            let done = step.progress.completedUnitCount ?? 0
            print(String(format: "%@ %8.2f s %13lld bytes %6.3f", name, step.seconds, done, fraction))
        }
        let end = try #require(steps.last)
        #expect(last > 0.95 && end.progress.completedUnitCount == end.progress.totalUnitCount)
        #expect(end.progress.totalUnitCount ?? 0 >= bytes)
    }

    @Test("D7: The progress of a push and a pull rises evenly from start to end, in bytes of all files")
    func evenly() async throws {
        let scene = try DeltaFixture()
        let (a, b) = (try scene.fixture.device("a"), try scene.fixture.device("b"))
        try Data().write(to: a.store)
        let handle = try FileHandle(forWritingTo: a.store)
        var generator = SplitMix64(seed: 1)
        let noise = DeltaModel.noise(1_000_000, &generator)
        for megabyte in 0..<Self.megabytes {
            try handle.write(contentsOf: noise[(megabyte % 1000 * 1000)...] + noise[..<(megabyte % 1000 * 1000)])
        }
        try handle.close()
        let up = try await steps(of: a.push())
        try check(up, "up", bytes: Int64(Self.megabytes) * 1_000_000)
        let down = try await steps(of: b.pull())
        try check(down, "down", bytes: Int64(Self.megabytes) * 500_000)
    }
}
