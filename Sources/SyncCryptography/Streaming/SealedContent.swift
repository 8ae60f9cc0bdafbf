package import ContentDigests

/// A file's content, sealed while it's read.
///
/// Each pass reads the source from its beginning and returns the whole sealed file, in pieces of about a chunk. All passes have
/// the same ``salt`` and new nonces, so a write can be retried. The source must give the same bytes each time.
///
/// Chunks are compressed, sealed and digested on all cores, in order and a bounded number at a time, while the caller writes the
/// previous piece. A cancelled pass ends within one chunk.
public struct SealedContent<Source: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Source.Element == [UInt8] {
    /// The random salt that gives the file its own key: 32 bytes in its header.
    public var salt: [UInt8] { codec.header.salt }

    /// The size in bytes of the blocks to digest too, if chunks have 1 MiB; `nil` for none.
    package var blockSize: Int?

    /// The beginning of the file that exists already: the source gives the bytes after it, and a pass the bytes to append.
    package var prefix: NotedPrefix?

    /// Called for each chunk but the last, before it's returned; must not block.
    package var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

    fileprivate let source: Source
    fileprivate let codec: ChunkCodec
    fileprivate let pages: PageHash
    fileprivate let workers: SealingWorkers
    fileprivate let onEnd: (@Sendable (ContentSummary) -> Void)?

    /// Starts a pass.
    public func makeAsyncIterator() -> Iterator {
        Iterator(self)
    }

    /// Returns the pieces of a sealed file in order.
    public struct Iterator: AsyncIteratorProtocol {
        private struct Sealed: Sendable {
            var digests: ChunkDigests
            var record: [UInt8]
        }

        private let content: SealedContent
        private var plaintext: ByteStream<Source.AsyncIterator>
        private let window: ChunkWindow<Sealed>
        private var tally: ContentTally
        private var digester: FileDigester
        private var effort: CompressionEffort
        private var hasBegun: Bool
        private var isOver = false

        fileprivate init(_ content: SealedContent) {
            self.content = content
            plaintext = ByteStream(content.source.makeAsyncIterator())
            window = ChunkWindow(content.workers, from: content.prefix?.chunks.count ?? 0)
            tally = content.prefix.map { ContentTally(of: $0.chunks) } ?? ContentTally()
            digester = content.prefix?.digester ?? FileDigester(blockSize: content.blockSize, content.pages)
            hasBegun = content.prefix != nil
            effort = CompressionEffort(content.codec.compression)
        }

        /// Returns the next piece, or `nil` at the end.
        public mutating func next() async throws -> [UInt8]? {
            guard !isOver else { return nil }
            do {
                try Task.checkCancellation()
                guard hasBegun else {
                    hasBegun = true
                    tally.add(sealedBytes: content.codec.start.count)
                    return content.codec.start
                }
                if !window.isEmpty, !window.hasLast { effort.note(isIdle: window.isDone) }
                while window.isOpen { try await submitChunk() }
                guard let (index, sealed) = try await window.next() else {
                    isOver = true
                    content.onEnd?(tally.summary(digester.finalize()))
                    return nil
                }
                let (record, digests) = (sealed.record, sealed.digests)
                let seal = ChunkRecord.seal(in: record)
                tally.add(seal: seal, plainBytes: digests.byteCount, sealedBytes: record.count)
                digester.append(digests)
                if !window.isOver {
                    let chunk = NotedChunk(seal: seal, storedBytes: record.count, digest: digests.digest)
                    content.onChunk?(index, chunk)
                }
                return record
            } catch {
                isOver = true
                throw error
            }
        }

        private mutating func submitChunk() async throws {
            let codec = content.codec
            let size = codec.header.chunkSize
            let chunk = try await plaintext.take(size)
            let isLast = try await plaintext.isOver()
            window.hasLast = isLast
            let index = UInt64(window.nextIndex)
            window.append(
                content.workers.submit { [level = effort.level, pages = content.pages] workspace in
                    Sealed(
                        digests: ChunkDigests(of: chunk, chunkSize: size, by: pages),
                        record: codec.seal(chunk[...], index: index, isLast: isLast, level: level, in: workspace)
                    )
                }
            )
        }
    }
}

extension EpochKey {
    /// Seals a file of any size while it's read.
    ///
    /// - Parameters:
    ///   - source: The file's content, in pieces of any size; fastest with pieces of a chunk's size.
    ///   - context: The file's context; it opens only with the same context.
    ///   - options: The chunk size and the compression.
    ///   - workers: The workers that seal; the content can be iterated as long as they run.
    ///   - onEnd: Called with the summary at the end of each whole pass, before the iterator returns `nil`.
    /// - Returns: The sealed file. Iterating throws what the source throws, and `CancellationError`.
    public func sealing<Source: AsyncSequence & Sendable>(
        _ source: Source,
        as context: SealedContext,
        options: SealingOptions = SealingOptions(),
        on workers: SealingWorkers,
        onEnd: (@Sendable (ContentSummary) -> Void)? = nil
    ) -> SealedContent<Source> where Source.Element == [UInt8] {
        SealedContent(
            source: source,
            codec: ChunkCodec(sealing: context, with: self, options: options),
            pages: pageHash,
            workers: workers,
            onEnd: onEnd
        )
    }

    /// The size of a file's salt, in bytes.
    package static let saltBytes = SealedHeader.saltBytes

    /// Returns a random salt, for a caller that has to know a file's salt before it seals the file.
    package static func newSalt() -> [UInt8] { Sodium.randomBytes(saltBytes) }
}
