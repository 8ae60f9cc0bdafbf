package import ContentDigests

extension ContentRoot {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of a block's size.
    ///   - workers: The workers that digest.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        on workers: SealingWorkers
    ) async throws -> (byteCount: Int64, root: ContentRoot) where Source.Element == [UInt8] {
        let digests = try await FileDigests.of(source, blockSize: nil, on: workers)
        return (digests.byteCount, digests.root)
    }
}

extension FileDigests {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of 1 MiB.
    ///   - blockSize: The size in bytes of the blocks to digest too; `nil` for none.
    ///   - former: The digests of a former state, by which unchanged content is found fast.
    ///   - workers: The workers that digest.
    /// - Returns: The digests.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        blockSize: Int?,
        since former: BlockDigests? = nil,
        on workers: SealingWorkers
    ) async throws -> FileDigests where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkDigests>(workers)
        var digester = FileDigester(blockSize: blockSize, since: former)
        let pages = digester.pages
        var (isOver, index) = (false, 0)
        while true {
            while !window.isFull, !isOver {
                let block = try await content.take(size)
                isOver = block.count < size
                guard !block.isEmpty else { break }
                window.append(
                    workers.submit { [index] _ in ChunkDigests(of: block, at: index, chunkSize: size, by: pages) }
                )
                index += 1
            }
            guard let chunk = try await window.next() else { break }
            digester.append(chunk)
        }
        return digester.finalize()
    }
}
