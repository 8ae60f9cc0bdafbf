/// A sealed file's content, opened while it's read.
///
/// Each pass reads the source anew and gives what was sealed, chunk by chunk. Every chunk that is given is authentic: it stands at
/// this place of this file. That none is missing is known only when the pass ends by `nil`: do nothing before with what came that
/// can't be undone. Write it into a temporary file.
///
/// Chunks are opened, decompressed and digested on all cores, in order and a bounded number at a time, while whoever iterates
/// writes the chunk before. A cancelled pass ends within one chunk.
public struct OpenedContent<Source: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Source.Element == [UInt8] {
    /// What of the file was opened before: the source gives what comes after that.
    package var prefix: ChunkPrefix?

    /// Is told of each chunk but the last before it's given; must not block.
    package var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

    private let source: Source
    private let key: EpochKey
    private let context: SealedContext
    private let salt: [UInt8]?
    private let workers: SealingWorkers
    private let onEnd: (@Sendable (ContentSummary) -> Void)?

    fileprivate init(
        _ source: Source,
        _ key: EpochKey,
        _ context: SealedContext,
        _ salt: [UInt8]?,
        _ workers: SealingWorkers,
        _ onEnd: (@Sendable (ContentSummary) -> Void)?
    ) {
        self.source = source
        self.key = key
        self.context = context
        self.salt = salt
        self.workers = workers
        self.onEnd = onEnd
    }

    /// Begins a pass.
    public func makeAsyncIterator() -> Iterator {
        Iterator(self)
    }

    /// Gives the chunks of a file.
    public struct Iterator: AsyncIteratorProtocol {
        private struct Opened: Sendable {
            var plaintext: [UInt8]
            var summary: ChunkSummary
            var sealedBytes: Int
        }

        private let content: OpenedContent
        private var sealed: ByteStream<Source.AsyncIterator>
        private let window: ChunkWindow<Opened>
        private var tally: ContentTally
        private var codec: ChunkCodec?
        private var index: UInt64
        /// Whether the last chunk is in the window, or was.
        private var hasLast = false
        private var isOver = false
        /// Why there are no further chunks: those that came before are given first.
        private var failure: (any Error)?

        fileprivate init(_ content: OpenedContent) {
            self.content = content
            sealed = ByteStream(content.source.makeAsyncIterator())
            window = ChunkWindow(content.workers)
            tally = content.prefix?.tally ?? ContentTally()
            index = UInt64(content.prefix?.count ?? 0)
        }

        /// The next chunk, or `nil` at the end, when everything is known to be there.
        public mutating func next() async throws -> [UInt8]? {
            guard !isOver else { return nil }
            do {
                try Task.checkCancellation()
                let codec = try await begun()
                while !window.isFull, !hasLast, failure == nil { try await submitChunk(codec) }
                guard let opened = try await window.next() else {
                    if let failure { throw failure }
                    isOver = true
                    content.onEnd?(tally.finalize())
                    return nil
                }
                tally.add(opened.summary, sealedBytes: opened.sealedBytes)
                if let onChunk = content.onChunk, !(hasLast && window.isEmpty) {
                    let chunk = NotedChunk(opened.summary, sealedBytes: opened.sealedBytes)
                    onChunk(Int(index) - 1 - window.count, chunk)
                }
                return opened.plaintext
            } catch {
                isOver = true
                throw error
            }
        }

        private mutating func begun() async throws -> ChunkCodec {
            if let codec { return codec }
            var start = content.prefix?.start ?? []
            if start.isEmpty {
                start = try await sealed.take(SealedHeader.byteCount)
                tally.add(sealedBytes: start.count)
            }
            let codec = try ChunkCodec(
                opening: start,
                as: content.context,
                with: content.key,
                salt: content.salt
            )
            self.codec = codec
            return codec
        }

        private mutating func submitChunk(_ codec: ChunkCodec) async throws {
            do {
                try await submitChunk(of: codec)
            } catch {
                try Task.checkCancellation()
                failure = error
            }
        }

        private mutating func submitChunk(of codec: ChunkCodec) async throws {
            var bytes = try await sealed.take(ChunkRecord.wordBytes)
            guard bytes.count == ChunkRecord.wordBytes else { throw CryptographyError.truncated }
            let record = try ChunkRecord(bytes[...], in: codec.header)
            bytes.reserveCapacity(record.byteCount)
            try await sealed.append(record.byteCount - bytes.count, to: &bytes)
            guard bytes.count == record.byteCount else { throw CryptographyError.truncated }
            hasLast = record.isLast
            if record.isLast, try await !sealed.isOver() { throw CryptographyError.extended }
            window.append(
                content.workers.submit { [index, bytes, digester = tally.digester] workspace in
                    let plaintext = try codec.open(bytes[...], record, index: index, in: workspace)
                    return Opened(
                        plaintext: plaintext,
                        summary: ChunkSummary(
                            of: plaintext,
                            at: Int(index),
                            chunkSize: codec.header.chunkSize,
                            digester
                        ),
                        sealedBytes: bytes.count
                    )
                }
            )
            index += 1
        }
    }
}

extension EpochKey {
    /// Opens a sealed file of any size while it's read.
    ///
    /// - Parameters:
    ///   - source: The sealed file, in pieces of any size.
    ///   - context: What it must be.
    ///   - salt: The salt that must stand in its header, where that is known: of two files that were sealed for the same place
    ///     only one has it.
    ///   - workers: Who opens; the content can be iterated as long as they work.
    ///   - onEnd: Is told at the end of each whole pass what it came to, before the iterator gives `nil`.
    /// - Returns: The content. Iterating throws what the source throws, `CancellationError`, and
    ///   ``CryptographyError/Code/tampered``, ``CryptographyError/Code/truncated``, ``CryptographyError/Code/orphan``,
    ///   ``CryptographyError/Code/unknownEpoch`` or ``CryptographyError/Code/unsupportedFormat``.
    public func opening<Source: AsyncSequence & Sendable>(
        _ source: Source,
        as context: SealedContext,
        salt: [UInt8]? = nil,
        on workers: SealingWorkers,
        onEnd: (@Sendable (ContentSummary) -> Void)? = nil
    ) -> OpenedContent<Source> where Source.Element == [UInt8] {
        OpenedContent(source, self, context, salt, workers, onEnd)
    }
}
