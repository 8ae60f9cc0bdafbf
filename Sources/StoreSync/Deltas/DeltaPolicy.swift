import ContentDigests

/// Decides when a store is pushed as a delta to the previous push, and in blocks of which size.
enum DeltaPolicy {
    /// The maximum number of deltas that build on one whole copy.
    static let maximumDeltas = 16
    /// The limit for the bytes that reading a whole copy and its deltas takes, as a multiple of a new whole copy.
    private static let maximumReading = 1.5

    /// The maximum number of blocks that are remembered: 16 MiB of digests.
    static let maximumBlocks: Int64 = 1 << 20

    /// How many bytes a block has.
    ///
    /// A block is as large as a page of most SQLite databases, which changes as a whole. Of a larger page often only a
    /// part changes. A large store has larger blocks, so that their number stays within the limit.
    ///
    /// - Parameter byteCount: The store's size in bytes.
    /// - Returns: A power of two; `nil` for a store of a tebibyte and more, whose blocks aren't remembered.
    static func blockSize(_ byteCount: Int64) -> Int? {
        var blockSize = ContentRoot.pageSize
        while byteCount / Int64(blockSize) >= maximumBlocks { blockSize *= 2 }
        return blockSize <= ContentRoot.blockSize ? blockSize : nil
    }

    /// Whether a delta is worth it.
    ///
    /// - Parameters:
    ///   - byteCount: The size of the delta in bytes, before it's sealed.
    ///   - size: How many bytes the store has.
    ///   - whole: The size and the stored size of the whole copy that the delta would build on.
    ///   - deltas: The stored size of each delta that builds on the whole copy already.
    /// - Returns: Whether the delta is worth it.
    static func allows(
        _ byteCount: Int64,
        of size: Int64,
        on whole: (size: Int64, storedSize: Int64),
        after deltas: [Int64]
    ) -> Bool {
        guard deltas.count < maximumDeltas else { return false }
        // Assumes that the delta and the store compress about as well as the whole copy did.
        let ratio = whole.size == 0 ? 1 : Double(whole.storedSize) / Double(whole.size)
        let reading = deltas.reduce(Double(whole.storedSize) + Double(byteCount) * ratio) { $0 + Double($1) }
        return reading <= maximumReading * ratio * Double(size)
    }
}
