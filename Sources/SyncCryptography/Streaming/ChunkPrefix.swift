package import ContentDigests

/// The beginning of a sealed file that was transferred before, after which a pass resumes.
package struct ChunkPrefix: Sendable {
    /// The number of bytes before the first chunk of a sealed file.
    package static let startBytes = SealedHeader.byteCount

    /// The number of chunks, at least 1.
    package let count: Int
    /// The sealed file's first ``startBytes`` bytes, which a pass that opens the file needs.
    package var start: [UInt8] = []
    /// The tally of the chunks and the bytes before the first chunk.
    let tally: ContentTally
    /// The number of the file's bytes in the chunks.
    package let plainBytes: Int64
    /// The size of the chunks in the sealed file, including the bytes before the first chunk.
    package let sealedBytes: Int64

    /// Returns the noted chunks that still match a file's content.
    ///
    /// - Parameters:
    ///   - noted: The noted chunks.
    ///   - source: The file's content, or its beginning.
    ///   - blockSize: As in ``SealedContent/blockSize``.
    ///   - workers: The workers that digest.
    /// - Returns: The chunks before the first that differs; `nil` if the first chunk differs.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ noted: [NotedChunk],
        in source: Source,
        blockSize: Int? = nil,
        on workers: SealingWorkers
    ) async throws -> ChunkPrefix? where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkDigests>(workers)
        var tally = ContentTally(blockSize: blockSize)
        tally.add(sealedBytes: startBytes)
        let pages = tally.pages
        var (submitted, count, sealedBytes) = (0, 0, Int64(startBytes))
        while count < noted.count {
            while !window.isFull, submitted < noted.count {
                let block = try await content.take(size)
                guard block.count == size else { break }
                window.append(
                    workers.submit { [submitted] _ in
                        ChunkDigests(of: block, at: submitted, chunkSize: size, by: pages)
                    }
                )
                submitted += 1
            }
            let chunk = noted[count]
            guard let found = try await window.next(), found.digest == chunk.digest else { break }
            tally.add(found, sealedBytes: chunk.sealedBytes)
            sealedBytes += Int64(chunk.sealedBytes)
            count += 1
        }
        guard count > 0 else { return nil }
        return ChunkPrefix(
            count: count,
            tally: tally,
            plainBytes: Int64(count) * Int64(size),
            sealedBytes: sealedBytes
        )
    }
}
