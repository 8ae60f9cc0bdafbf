extension ContentRoot {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest if they're of a block's size.
    ///   - workers: Who digests.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        on workers: SealingWorkers
    ) async throws -> (byteCount: Int64, root: ContentRoot) where Source.Element == [UInt8] {
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkSummary>(workers)
        var tally = ContentTally()
        var isOver = false
        while true {
            while !window.isFull, !isOver {
                let block = try await content.take(blockSize)
                isOver = block.count < blockSize
                guard !block.isEmpty else { break }
                window.append(workers.submit { _ in ChunkSummary(of: block, chunkSize: blockSize) })
            }
            guard let summary = try await window.next() else { break }
            tally.add(summary, sealedBytes: 0)
        }
        let summary = tally.finalize()
        return (summary.plainBytes, summary.contentRoot)
    }
}
