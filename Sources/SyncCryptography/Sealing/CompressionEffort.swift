/// How hard zstd tries, from chunk to chunk.
///
/// Where the processors are what a transfer waits for, as with a folder of this device, less effort ends it sooner; where it
/// waits for the medium, as with most servers, more effort does.
struct CompressionEffort: Sendable {
    /// zstd's levels; the negative ones are its fast ones.
    static let levels: [Int32] = [-7, -3, -1, 1, 3]
    /// So many chunks in a row have to agree before it changes.
    static let patience = 4

    private let compression: SealingOptions.Compression
    private var index: Int
    /// How many times in a row workers were idle (negative: busy).
    private var run = 0

    /// Begins with what the options say.
    init(_ compression: SealingOptions.Compression) {
        self.compression = compression
        index = Self.levels.firstIndex(of: compression.level) ?? 0
    }

    /// The level for the next chunk.
    var level: Int32 { compression.adapts ? Self.levels[index] : compression.level }

    /// A chunk was read and another one written since the last time.
    ///
    /// - Parameter isIdle: Whether the workers had nothing left to do by then: the transfer waits for the medium.
    mutating func note(isIdle: Bool) {
        run = isIdle ? max(run, 0) + 1 : min(run, 0) - 1
        guard abs(run) == Self.patience else { return }
        index = min(max(index + run.signum(), 0), Self.levels.count - 1)
        run = 0
    }
}
