package import ContentDigests

/// The beginning of a file that was sent before, sealed or not, after which a pass resumes.
package struct NotedPrefix: Sendable {
    /// The size of the seal of a sealed file's chunk, in bytes.
    package static let sealBytes = ChunkRecord.sealBytes

    /// The chunks, at least one.
    package let chunks: ArraySlice<NotedChunk>
    /// The digests of the chunks' content.
    let digester: FileDigester

    /// The number of the file's bytes in the chunks.
    package var plainBytes: Int64 { Int64(chunks.count * ContentRoot.blockSize) }
    /// The size of the chunks on the remote, without what a sealed file has before the first chunk.
    package var storedBytes: Int64 { chunks.reduce(0) { $0 + Int64($1.storedBytes) } }

    /// Returns the noted chunks that still match a file's content.
    ///
    /// - Parameters:
    ///   - noted: The noted chunks.
    ///   - source: The file's content, or its beginning.
    ///   - blockSize: The size in bytes of the blocks to digest too; `nil` for none.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: The chunks before the first that differs; `nil` if the first chunk differs.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ noted: ArraySlice<NotedChunk>,
        in source: Source,
        blockSize: Int? = nil,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> NotedPrefix? where Source.Element == [UInt8] {
        let size = ContentRoot.blockSize
        var content = ByteStream(source.makeAsyncIterator())
        let window = ChunkWindow<ChunkDigests>(workers)
        var digester = FileDigester(blockSize: blockSize, pages)
        var matching = noted.prefix(0)
        while matching.count < noted.count {
            while window.isOpen, window.nextIndex < noted.count {
                let block = try await content.take(size)
                guard block.count == size else { break }
                window.append(workers.submit { _ in ChunkDigests(of: block, chunkSize: size, by: pages) })
            }
            guard let (_, found) = try await window.next(), found.digest == noted[matching.endIndex].digest else {
                break
            }
            digester.append(found)
            matching = noted.prefix(matching.count + 1)
        }
        return matching.isEmpty ? nil : NotedPrefix(chunks: matching, digester: digester)
    }
}
