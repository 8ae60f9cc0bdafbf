/// The compression level of zstd, adapted from chunk to chunk.
///
/// If a transfer waits for the processors, as with a folder on this device, less effort finishes it sooner. If it waits for the
/// medium, as with most servers, more effort does.
struct CompressionEffort: Sendable {
    /// zstd's levels: lower ones are hardly faster, and higher ones make chunks hardly smaller.
    static let levels: [Int32] = [2, 3, 6]
    /// The number of chunks in a row that have to agree before the level changes.
    static let patience = 4

    private let compression: SealingOptions.Compression
    private var index: Int
    /// How many times in a row the workers were idle (negative: busy).
    private var run = 0

    /// Starts with the options' level.
    init(_ compression: SealingOptions.Compression) {
        self.compression = compression
        index = Self.levels.firstIndex(of: compression.level) ?? 0
    }

    /// The level for the next chunk.
    var level: Int32 { compression.adapts ? Self.levels[index] : compression.level }

    /// Records the workers' state after a chunk was read and another chunk written.
    ///
    /// - Parameter isIdle: Whether the workers had nothing left to do, so that the transfer waits for the medium.
    mutating func note(isIdle: Bool) {
        run = isIdle ? max(run, 0) + 1 : min(run, 0) - 1
        guard abs(run) == Self.patience else { return }
        index = min(max(index + run.signum(), 0), Self.levels.count - 1)
        run = 0
    }
}
