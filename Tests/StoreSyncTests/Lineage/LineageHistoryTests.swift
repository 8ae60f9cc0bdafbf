import Foundation
import TestSupport
import Testing

@testable import StoreSync

/// Random histories, each of which is determined by its seed.
@Suite("No edit vanishes", .timeLimit(.minutes(600)))
struct LineageHistoryTests {
    @Test(
        "D16: After any successful command of two to five devices, each edit not given up is in the store or in a head"
    )
    func histories() async throws {
        let seeds = TestDepth.seeds(quick: 15, deep: 100_000)
        let successes = try await withThrowingTaskGroup(of: Int.self) { group in
            for worker in 0..<2 as Range<UInt64> {
                group.addTask {
                    var successes = 0
                    for seed in seeds where seed % 2 == worker {
                        let history = try LineageHistory(seed: seed)
                        successes += try await history.run(events: 16)
                        guard let violation = history.violation else { continue }
                        Issue.record("seed \(seed): \(violation)\n\(history.log.joined(separator: "\n"))")
                        return successes
                    }
                    return successes
                }
            }
            return try await group.reduce(0, +)
        }
        print("\(seeds.count) histories, \(successes) commands that succeeded")
        #expect(successes > seeds.count, "on average more than one command of a history must succeed")
    }
}
