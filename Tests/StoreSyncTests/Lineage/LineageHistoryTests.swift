import Foundation
import Testing

@testable import StoreSync

/// Random histories, each of which is determined by its seed.
///
/// `STORESYNC_LINEAGE_HISTORIES` sets the number of histories, `STORESYNC_LINEAGE_SEED` the first seed.
@Suite("No edit vanishes", .timeLimit(.minutes(600)))
struct LineageHistoryTests {
    private static func number(_ variable: String) -> UInt64? {
        ProcessInfo.processInfo.environment[variable].flatMap { UInt64($0) }
    }

    private static let histories = number("STORESYNC_LINEAGE_HISTORIES") ?? 60
    private static let first = number("STORESYNC_LINEAGE_SEED") ?? 0

    @Test(
        "D16: after any successful command of two to five devices, each edit not given up is in the store or in a head"
    )
    func histories() async throws {
        let successes = try await withThrowingTaskGroup(of: Int.self) { group in
            for worker in 0..<2 as Range<UInt64> {
                group.addTask {
                    var successes = 0
                    for seed in stride(from: Self.first + worker, to: Self.first + Self.histories, by: 2) {
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
        print("\(Self.histories) histories, \(successes) commands that succeeded")
        #expect(successes > Self.histories, "on average more than one command of a history must succeed")
    }
}
