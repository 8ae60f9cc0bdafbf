/// What is noted of a chunk of 1 MiB that was transferred, by which a transfer that is cut off goes on.
package struct NotedChunk: Hashable, Sendable {
    /// The digest of the chunk's plaintext: that of a block of the content root.
    package let digest: [UInt8]
    /// How many bytes the chunk takes in the sealed file.
    package let sealedBytes: Int

    /// A chunk as it was noted.
    package init(digest: [UInt8], sealedBytes: Int) {
        self.digest = digest
        self.sealedBytes = sealedBytes
    }

    init(_ chunk: ChunkSummary, sealedBytes: Int) {
        guard let digest = chunk.digest else { preconditionFailure("only chunks of 1 MiB are noted") }
        self.init(digest: digest, sealedBytes: sealedBytes)
    }
}

/// The beginning of a sealed file that was transferred before: what a pass has to know that goes on after it.
package struct ChunkPrefix: Sendable {
    /// How many bytes a sealed file has before its first chunk.
    package static let startBytes = SealedHeader.byteCount

    /// How many chunks there are, more than none.
    package let count: Int
    /// The file's first bytes, where it's opened.
    let start: [UInt8]
    /// What they come to, with the bytes before the first chunk.
    let tally: ContentTally
    /// How many bytes of the file they hold.
    package let plainBytes: Int64
    /// How many bytes they take in the sealed file, with what stands before the first chunk.
    package let sealedBytes: Int64

    /// Finds out how many of the chunks that were noted are still those of a file.
    ///
    /// - Parameters:
    ///   - noted: What was noted.
    ///   - limit: How many are considered.
    ///   - source: The file's content, or its beginning.
    ///   - start: The sealed file's first ``startBytes`` bytes, where it's to be opened.
    ///   - blockSize: As in ``SealedContent/blockSize``.
    ///   - workers: Who digests.
    /// - Returns: Those before the first that differs; `nil` where that is the very first.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ noted: [NotedChunk],
        upTo limit: Int,
        in source: Source,
        start: [UInt8] = [],
        blockSize: Int? = nil,
        on workers: SealingWorkers
    ) async throws -> ChunkPrefix? where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkSummary>(workers)
        var tally = ContentTally(blockSize: blockSize)
        tally.add(sealedBytes: startBytes)
        let digester = tally.digester
        var (submitted, count, sealedBytes) = (0, 0, Int64(startBytes))
        let noted = noted.prefix(max(limit, 0))
        while count < noted.count {
            while !window.isFull, submitted < noted.count {
                let block = try await content.take(size)
                guard block.count == size else { break }
                window.append(
                    workers.submit { [submitted] _ in
                        ChunkSummary(of: block, at: submitted, chunkSize: size, digester)
                    }
                )
                submitted += 1
            }
            let chunk = noted[count]
            guard let summary = try await window.next(), summary.digest == chunk.digest else { break }
            tally.add(summary, sealedBytes: chunk.sealedBytes)
            sealedBytes += Int64(chunk.sealedBytes)
            count += 1
        }
        guard count > 0 else { return nil }
        return ChunkPrefix(
            count: count,
            start: start,
            tally: tally,
            plainBytes: Int64(count) * Int64(size),
            sealedBytes: sealedBytes
        )
    }
}
