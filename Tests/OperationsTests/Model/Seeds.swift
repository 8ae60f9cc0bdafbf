#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The seeds that a randomized test tries.
///
/// The environment variable `STORESYNC_SEEDS` multiplies their number: `STORESYNC_SEEDS=20 swift test` tries twenty times
/// as many.
func seeds(_ usualCount: Int) -> Range<UInt64> {
    let factor = ProcessInfo.processInfo.environment["STORESYNC_SEEDS"].flatMap(Int.init) ?? 1
    return 0..<UInt64(usualCount * max(1, factor))
}

extension RandomNumberGenerator {
    /// Returns `true` with a probability of 1 in `count`.
    mutating func oneIn(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self) == 0 }
}
