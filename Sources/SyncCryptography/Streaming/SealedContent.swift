/// A file's content, sealed while it's read.
///
/// Each pass reads the source anew from its beginning and gives the whole sealed file, in pieces of about a chunk. All passes have
/// the same ``salt`` and another nonce for each chunk, so a write can be tried again; the source must give the same bytes
/// each time.
///
/// Chunks are compressed, sealed and digested on all cores, in order and a bounded number at a time, while whoever iterates writes
/// the piece before. A cancelled pass ends within one chunk.
public struct SealedContent<Source: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Source.Element == [UInt8] {
    /// Makes the file's key another than that of every other file: 32 bytes that stand in its header.
    public var salt: [UInt8] { codec.header.salt }

    /// How many bytes the blocks have whose digests are found out too, if chunks have 1 MiB; none are where it is `nil`.
    package var blockSize: Int?

    /// What of the file stands already: the source gives what comes after that, and a pass what is to be appended.
    package var prefix: ChunkPrefix?

    /// Is told of each chunk but the last before it's given; must not block.
    package var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

    private let source: Source
    private let codec: ChunkCodec
    private let workers: SealingWorkers
    private let onEnd: (@Sendable (ContentSummary) -> Void)?

    fileprivate init(
        _ source: Source,
        _ codec: ChunkCodec,
        _ workers: SealingWorkers,
        _ onEnd: (@Sendable (ContentSummary) -> Void)?
    ) {
        self.source = source
        self.codec = codec
        self.workers = workers
        self.onEnd = onEnd
    }

    /// Begins a pass.
    public func makeAsyncIterator() -> Iterator {
        Iterator(self)
    }

    /// Gives the pieces of a sealed file.
    public struct Iterator: AsyncIteratorProtocol {
        private struct Sealed: Sendable {
            var summary: ChunkSummary
            var record: [UInt8]
        }

        private let content: SealedContent
        private var plaintext: ByteStream<Source.AsyncIterator>
        private let window: ChunkWindow<Sealed>
        private var tally: ContentTally
        private var effort: CompressionEffort
        /// The chunk after those in the window, read ahead to know whether there is one; `nil` if none was read yet.
        private var ahead: [UInt8]?
        private var index: UInt64
        private var hasBegun: Bool
        /// Whether the last chunk is in the window, or was.
        private var hasLast = false
        private var isOver = false

        fileprivate init(_ content: SealedContent) {
            self.content = content
            plaintext = ByteStream(content.source.makeAsyncIterator())
            window = ChunkWindow(content.workers)
            tally = content.prefix?.tally ?? ContentTally(blockSize: content.blockSize)
            index = UInt64(content.prefix?.count ?? 0)
            hasBegun = index > 0
            effort = CompressionEffort(content.codec.compression)
        }

        /// The next piece, or `nil` at the end.
        public mutating func next() async throws -> [UInt8]? {
            guard !isOver else { return nil }
            do {
                try Task.checkCancellation()
                guard hasBegun else {
                    hasBegun = true
                    tally.add(sealedBytes: content.codec.start.count)
                    return content.codec.start
                }
                if !window.isEmpty, !hasLast { effort.note(isIdle: window.isDone) }
                while !window.isFull, !hasLast { try await submitChunk() }
                guard let sealed = try await window.next() else {
                    isOver = true
                    content.onEnd?(tally.finalize())
                    return nil
                }
                tally.add(sealed.summary, sealedBytes: sealed.record.count)
                if let onChunk = content.onChunk, !(hasLast && window.isEmpty) {
                    let chunk = NotedChunk(sealed.summary, sealedBytes: sealed.record.count)
                    onChunk(Int(index) - 1 - window.count, chunk)
                }
                return sealed.record
            } catch {
                isOver = true
                throw error
            }
        }

        private mutating func submitChunk() async throws {
            let codec = content.codec
            let size = codec.header.chunkSize
            let chunk: [UInt8]
            if let ahead { chunk = ahead } else { chunk = try await plaintext.take(size) }
            let following = chunk.count < size ? [] : try await plaintext.take(size)
            ahead = following
            hasLast = following.isEmpty
            window.append(
                content.workers.submit { [index, hasLast, level = effort.level, digester = tally.digester] workspace in
                    Sealed(
                        summary: ChunkSummary(of: chunk, at: Int(index), chunkSize: size, digester),
                        record: codec.seal(chunk[...], index: index, isLast: hasLast, level: level, in: workspace)
                    )
                }
            )
            index += 1
        }
    }
}

extension EpochKey {
    /// Seals a file of any size while it's read.
    ///
    /// - Parameters:
    ///   - source: The file's content, in pieces of any size; fastest if they're of a chunk's size.
    ///   - context: What the file is; it opens as nothing else.
    ///   - options: How it's cut and compressed.
    ///   - workers: Who seals; the content can be iterated as long as they work.
    ///   - onEnd: Is told at the end of each whole pass what it came to, before the iterator gives `nil`.
    /// - Returns: The sealed file. Iterating throws what the source throws, and `CancellationError`.
    public func sealing<Source: AsyncSequence & Sendable>(
        _ source: Source,
        as context: SealedContext,
        options: SealingOptions = SealingOptions(),
        on workers: SealingWorkers,
        onEnd: (@Sendable (ContentSummary) -> Void)? = nil
    ) -> SealedContent<Source> where Source.Element == [UInt8] {
        SealedContent(source, ChunkCodec(sealing: context, with: self, options: options), workers, onEnd)
    }

    /// A salt for a file, for those who have to know it before they seal.
    package static func newSalt() -> [UInt8] { Sodium.randomBytes(SealedHeader.saltBytes) }

    /// Seals a file with the salt that it had when somebody began to seal it.
    package func sealing<Source: AsyncSequence & Sendable>(
        _ source: Source,
        as context: SealedContext,
        options: SealingOptions = SealingOptions(),
        salt: [UInt8],
        on workers: SealingWorkers,
        onEnd: (@Sendable (ContentSummary) -> Void)? = nil
    ) -> SealedContent<Source> where Source.Element == [UInt8] {
        SealedContent(source, ChunkCodec(sealing: context, with: self, options: options, salt: salt), workers, onEnd)
    }
}
