#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// How thorough the tests are, set by the environment variable `STORESYNC_TEST_DEPTH`.
///
/// Every depth tests every promise. A deeper one tries more seeds, more places for an accident, and more servers.
package enum TestDepth: String, CaseIterable, Sendable {
    /// The default: all tests within minutes, to run before every commit.
    case quick
    /// What continuous integration runs.
    case ci
    /// Hours: all seeds and all combinations, best with a `--filter`.
    case deep

    /// The depth of this run.
    package static let current: TestDepth = {
        guard let name = ProcessInfo.processInfo.environment["STORESYNC_TEST_DEPTH"] else { return .quick }
        guard let depth = TestDepth(rawValue: name) else {
            let names = allCases.map(\.rawValue).joined(separator: ", ")
            fatalError("STORESYNC_TEST_DEPTH is \"\(name)\", but must be one of: \(names)")
        }
        return depth
    }()

    /// Whether all combinations are tried instead of a sample.
    package static var isDeep: Bool { current == .deep }

    /// Returns the value for the depth of this run.
    ///
    /// Without a value for `ci`, that depth is as `quick`.
    package static func choose<Value>(quick: Value, ci: Value? = nil, deep: Value) -> Value {
        switch current {
        case .quick: quick
        case .ci: ci ?? quick
        case .deep: deep
        }
    }

    /// Returns the seeds that a randomized test tries, from 0 on.
    ///
    /// The environment variable `STORESYNC_TEST_SEEDS` replaces them, to replay a failure (`7`) or to run a part (`0..<500`).
    package static func seeds(quick: UInt64, ci: UInt64? = nil, deep: UInt64) -> Range<UInt64> {
        namedSeeds ?? 0..<choose(quick: quick, ci: ci, deep: deep)
    }

    /// Returns the seeds that a randomized test tries, from 0 on, and the seeds that failed once.
    package static func seeds(quick: UInt64, ci: UInt64? = nil, deep: UInt64, besides former: [UInt64]) -> [UInt64] {
        namedSeeds.map(Array.init) ?? Array(0..<choose(quick: quick, ci: ci, deep: deep)) + former
    }

    private static let namedSeeds: Range<UInt64>? = {
        guard let text = ProcessInfo.processInfo.environment["STORESYNC_TEST_SEEDS"] else { return nil }
        let bounds = text.components(separatedBy: "..<").map(UInt64.init)
        switch (bounds.first ?? nil, bounds.last ?? nil, bounds.count) {
        case (let seed?, _, 1): return seed..<seed + 1
        case (let first?, let end?, 2) where first < end: return first..<end
        default:
            fatalError("STORESYNC_TEST_SEEDS is \"\(text)\", but must be a seed such as 7 or a range such as 0..<500")
        }
    }()
}
