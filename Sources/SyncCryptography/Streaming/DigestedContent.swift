package import ContentDigests

/// A file's content, digested while it's read.
///
/// Each pass reads the source from its beginning and returns its bytes in chunks of 1 MiB; the last one may be shorter.
///
/// Chunks are digested on all cores, in order and a bounded number at a time, while the caller writes the previous chunk. A
/// cancelled pass ends within one chunk.
package struct DigestedContent<Source: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Source.Element == [UInt8] {
    /// The beginning of the file that was digested before: the source gives the bytes after it.
    package var prefix: NotedPrefix?

    /// Called for each chunk but the last, before it's returned; must not block.
    package var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

    private let source: Source
    private let pages: PageHash
    private let workers: SealingWorkers
    private let onEnd: @Sendable (FileDigests) -> Void

    /// Creates the content.
    ///
    /// - Parameters:
    ///   - source: The file's content, in pieces of any size; fastest with pieces of 1 MiB.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest; the content can be iterated as long as they run.
    ///   - onEnd: Called at the end of each whole pass, before its last chunk is returned: a reader that knows the file's size
    ///     may not wait for the `nil` after it.
    package init(
        _ source: Source,
        _ pages: PageHash,
        on workers: SealingWorkers,
        onEnd: @escaping @Sendable (FileDigests) -> Void
    ) {
        self.source = source
        self.pages = pages
        self.workers = workers
        self.onEnd = onEnd
    }

    /// Starts a pass.
    package func makeAsyncIterator() -> Iterator {
        Iterator(self)
    }

    /// Returns the chunks of a file in order.
    package struct Iterator: AsyncIteratorProtocol {
        private struct Digested: Sendable {
            var chunk: [UInt8]
            var digests: ChunkDigests
        }

        private let content: DigestedContent
        private var bytes: ByteStream<Source.AsyncIterator>
        private let window: ChunkWindow<Digested>
        private var digester: FileDigester
        private var isOver = false

        fileprivate init(_ content: DigestedContent) {
            self.content = content
            bytes = ByteStream(content.source.makeAsyncIterator())
            window = ChunkWindow(content.workers, from: content.prefix?.chunks.count ?? 0)
            digester = content.prefix?.digester ?? FileDigester(content.pages)
        }

        /// Returns the next chunk, or `nil` at the end.
        package mutating func next() async throws -> [UInt8]? {
            guard !isOver else { return nil }
            do {
                try Task.checkCancellation()
                while window.isOpen { try await submitChunk() }
                let next = try await window.next()
                if let next { digester.append(next.result.digests) }
                if window.isOver {
                    isOver = true
                    content.onEnd(digester.finalize())
                } else if let next {
                    content.onChunk?(next.index, NotedChunk(next.result.digests))
                }
                return next?.result.chunk
            } catch {
                isOver = true
                throw error
            }
        }

        private mutating func submitChunk() async throws {
            let chunk = try await bytes.take(ContentRoot.blockSize)
            window.hasLast = try await bytes.isOver()
            // Only an empty file has no chunk.
            guard !chunk.isEmpty else { return }
            window.append(
                content.workers.submit { [pages = content.pages] _ in
                    Digested(
                        chunk: chunk,
                        digests: ChunkDigests(of: chunk, chunkSize: ContentRoot.blockSize, by: pages)
                    )
                }
            )
        }
    }
}
