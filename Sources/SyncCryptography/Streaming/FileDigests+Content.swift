package import ContentDigests

extension ContentRoot {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of a block's size.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> (byteCount: Int64, root: ContentRoot) where Source.Element == [UInt8] {
        let digests = try await FileDigests.of(source, blockSize: nil, pages, on: workers)
        return (digests.byteCount, digests.root)
    }
}

extension FileDigests {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of 1 MiB.
    ///   - blockSize: The size in bytes of the blocks to digest too; `nil` for none.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: The digests.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        blockSize: Int?,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> FileDigests where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkDigests>(workers)
        var digester = FileDigester(blockSize: blockSize, pages)
        var isOver = false
        while true {
            while !window.isFull, !isOver {
                let block = try await content.take(size)
                isOver = block.count < size
                guard !block.isEmpty else { break }
                window.append(workers.submit { _ in ChunkDigests(of: block, chunkSize: size, by: pages) })
            }
            guard let chunk = try await window.next() else { break }
            digester.append(chunk)
        }
        return digester.finalize()
    }
}
