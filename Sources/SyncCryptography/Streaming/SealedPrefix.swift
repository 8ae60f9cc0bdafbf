package import ContentDigests

/// The beginning of a sealed file that was written before, after which a pass resumes.
package struct SealedPrefix: Sendable {
    /// The number of bytes before the first chunk of a sealed file.
    package static let startBytes = SealedHeader.byteCount
    /// The size of a chunk's seal, in bytes.
    package static let sealBytes = ChunkRecord.sealBytes

    /// The number of chunks, at least 1.
    package let count: Int
    /// The tally of the chunks and the bytes before the first chunk.
    let tally: ContentTally
    /// The digests of the chunks' content.
    let digester: FileDigester

    /// The number of the file's bytes in the chunks.
    package var plainBytes: Int64 { tally.plainBytes }
    /// The size of the chunks in the sealed file, including the bytes before the first chunk.
    package var sealedBytes: Int64 { tally.sealedBytes }

    /// Returns the noted chunks that still match a file's content.
    ///
    /// - Parameters:
    ///   - noted: The noted chunks.
    ///   - source: The file's content, or its beginning.
    ///   - blockSize: As in ``SealedContent/blockSize``.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: The chunks before the first that differs; `nil` if the first chunk differs.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ noted: [NotedChunk],
        in source: Source,
        blockSize: Int? = nil,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> SealedPrefix? where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkDigests>(workers)
        var digester = FileDigester(blockSize: blockSize, pages)
        var tally = ContentTally()
        tally.add(sealedBytes: startBytes)
        var (submitted, count) = (0, 0)
        while count < noted.count {
            while !window.isFull, submitted < noted.count {
                let block = try await content.take(size)
                guard block.count == size else { break }
                window.append(workers.submit { _ in ChunkDigests(of: block, chunkSize: size, by: pages) })
                submitted += 1
            }
            let chunk = noted[count]
            guard let found = try await window.next(), found.digest == chunk.digest else { break }
            digester.append(found)
            tally.add(seal: chunk.seal, plainBytes: size, sealedBytes: chunk.sealedBytes)
            count += 1
        }
        guard count > 0 else { return nil }
        return SealedPrefix(count: count, tally: tally, digester: digester)
    }
}
