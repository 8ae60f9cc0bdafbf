/// What came since the newest baseline, and what another one would have besides.
///
/// Sets that a silent device hasn't seen are in every baseline. So a baseline waits until enough came in proportion to them:
/// otherwise all uploads together would grow with the square of the log.
struct LogGrowth: Hashable, Sendable {
    /// The number of change sets after which the device that wrote the newest baseline writes another, at the earliest.
    static let setsPerBaseline: UInt64 = 256
    /// The new sets are worth a baseline when they are this part of what it repeats, by bytes or by number.
    private static let part: Double = 1 / 4
    /// The size of the new sets below which a baseline is never due by size, in bytes: a head holds that much.
    private static let leastBytes: Int64 = 1 << 20

    /// How many change sets came since the newest baseline.
    var sets: UInt64
    /// Their size, in bytes.
    var bytes: Int64
    /// How many older sets another baseline would repeat.
    var olderSets: UInt64
    /// The size of the older sets, in bytes.
    var olderBytes: Int64
    /// The size of the store, in bytes.
    var storeBytes: Int64

    /// Creates what describes a log.
    ///
    /// - Parameters:
    ///   - sets: The number of the change sets since the newest baseline, and their size in bytes.
    ///   - log: The number of all sets that a baseline would have, and their size in bytes.
    ///   - storeBytes: The size of the store, in bytes.
    init(
        since sets: (count: UInt64, bytes: Int64),
        in log: (sets: UInt64, bytes: Int64),
        besides storeBytes: Int64
    ) {
        (self.sets, bytes) = sets
        olderSets = log.sets - min(sets.count, log.sets)
        olderBytes = max(0, log.bytes - sets.bytes)
        self.storeBytes = storeBytes
    }

    /// Whether a baseline is due.
    ///
    /// It is due by size when the new sets have a quarter of the bytes of the store and the older sets. It is due by number at
    /// 256 new sets, if these are a quarter of the older ones. A client with more patience waits for more in proportion.
    ///
    /// - Parameter patience: The number of sets for which the client waits at least.
    /// - Returns: Whether it is.
    func isDue(for patience: UInt64) -> Bool {
        let factor = Double(patience) / Double(Self.setsPerBaseline)
        let isLong = Double(sets) >= factor * max(Double(Self.setsPerBaseline), Double(olderSets) * Self.part)
        let isLarge = Double(bytes) > factor * Double(storeBytes + olderBytes) * Self.part
        return isLong || isLarge && bytes > Self.leastBytes
    }
}
