import SyncCryptography

/// When a store is pushed as a delta to the one before, and in what blocks.
enum DeltaPolicy {
    /// So many deltas may stand on a whole copy.
    static let mostDeltas = 16
    /// Who reads a store with all that it builds on reads at most so many times what a whole copy would have.
    private static let mostReading = 1.5

    /// So many blocks are remembered: 32 MiB of digests.
    static let mostBlocks: Int64 = 1 << 20

    /// How many bytes a block has.
    ///
    /// As many as most SQLite databases' pages, which change as a whole; of a larger page often only a part changes. Of a large
    /// store blocks are larger, so that there aren't more than can be remembered.
    ///
    /// - Parameter byteCount: The store's size in bytes.
    /// - Returns: A power of two; `nil` for a store of a tebibyte and more, of which nothing is remembered.
    static func blockSize(_ byteCount: Int64) -> Int? {
        var blockSize = ContentRoot.pageSize
        while byteCount / Int64(blockSize) >= mostBlocks { blockSize *= 2 }
        return blockSize <= ContentRoot.blockSize ? blockSize : nil
    }

    /// Whether a delta is worth it.
    ///
    /// - Parameters:
    ///   - byteCount: How many bytes it has before it's sealed.
    ///   - size: How many bytes the store has.
    ///   - whole: The whole copy that it would stand on, with its size and its stored size.
    ///   - deltas: How many bytes each delta takes on the remote that stands there already.
    /// - Returns: Whether it is.
    static func allows(
        _ byteCount: Int64,
        of size: Int64,
        on whole: (size: Int64, storedSize: Int64),
        after deltas: [Int64]
    ) -> Bool {
        guard deltas.count < mostDeltas else { return false }
        // All is compressed about as well as the whole copy was.
        let ratio = whole.size == 0 ? 1 : Double(whole.storedSize) / Double(whole.size)
        let reading = deltas.reduce(Double(whole.storedSize) + Double(byteCount) * ratio) { $0 + Double($1) }
        return reading <= mostReading * ratio * Double(size)
    }
}
