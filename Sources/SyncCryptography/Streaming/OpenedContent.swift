package import ContentDigests

/// A sealed file's content, opened while it's read.
///
/// Each pass reads the source from its beginning and returns the content chunk by chunk. Every returned chunk is authentic: it was
/// sealed for this position of this file. Only when the pass ends with `nil` is it known that no chunk is missing. Until then, do
/// nothing with the chunks that can't be undone: write them into a temporary file.
///
/// Chunks are opened and decompressed on all cores, in order and a bounded number at a time, while the caller writes the
/// previous chunk. A cancelled pass ends within one chunk.
public struct OpenedContent<Source: AsyncSequence & Sendable>: AsyncSequence, Sendable
where Source.Element == [UInt8] {
    /// The beginning of the file that was opened before: the source gives the bytes after it.
    package var prefix: OpenedPrefix?

    /// Called for each chunk but the last, before it's returned; must not block.
    package var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?

    fileprivate let source: Source
    fileprivate let key: EpochKey
    fileprivate let context: SealedContext
    fileprivate let salt: [UInt8]?
    fileprivate let workers: SealingWorkers
    fileprivate let onEnd: (@Sendable (ContentSummary) -> Void)?

    /// Starts a pass.
    public func makeAsyncIterator() -> Iterator {
        Iterator(self)
    }

    /// Returns the chunks of a file in order.
    public struct Iterator: AsyncIteratorProtocol {
        private struct Opened: Sendable {
            var plaintext: [UInt8]
            var seal: [UInt8]
            var sealedBytes: Int
        }

        private let content: OpenedContent
        private var sealed: ByteStream<Source.AsyncIterator>
        private let window: ChunkWindow<Opened>
        private var tally: ContentTally
        private var codec: ChunkCodec?
        private var isOver = false
        /// The error that ends the pass, after the chunks before it are returned.
        private var failure: (any Error)?

        fileprivate init(_ content: OpenedContent) {
            self.content = content
            sealed = ByteStream(content.source.makeAsyncIterator())
            window = ChunkWindow(content.workers, from: content.prefix?.count ?? 0)
            tally = content.prefix?.tally ?? ContentTally()
        }

        /// Returns the next chunk, or `nil` at the end, when the content is known to be complete.
        public mutating func next() async throws -> [UInt8]? {
            guard !isOver else { return nil }
            do {
                try Task.checkCancellation()
                let codec = try await begun()
                while window.isOpen, failure == nil {
                    do {
                        try await submitChunk(codec)
                    } catch {
                        try Task.checkCancellation()
                        failure = error
                    }
                }
                guard let (index, opened) = try await window.next() else {
                    if let failure { throw failure }
                    isOver = true
                    content.onEnd?(tally.summary())
                    return nil
                }
                let (seal, sealedBytes) = (opened.seal, opened.sealedBytes)
                tally.add(seal: seal, plainBytes: opened.plaintext.count, sealedBytes: sealedBytes)
                if !window.isOver { content.onChunk?(index, NotedChunk(seal: seal, storedBytes: sealedBytes)) }
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
            var bytes = try await sealed.take(ChunkRecord.wordBytes)
            guard bytes.count == ChunkRecord.wordBytes else { throw CryptographyError.truncated }
            let record = try ChunkRecord(bytes[...], in: codec.header)
            bytes.reserveCapacity(record.byteCount)
            try await sealed.append(record.byteCount - bytes.count, to: &bytes)
            guard bytes.count == record.byteCount else { throw CryptographyError.truncated }
            window.hasLast = record.isLast
            if record.isLast, try await !sealed.isOver() { throw CryptographyError.extended }
            let index = UInt64(window.nextIndex)
            window.append(
                content.workers.submit { [bytes] workspace in
                    Opened(
                        plaintext: try codec.open(bytes[...], record, index: index, in: workspace),
                        seal: ChunkRecord.seal(in: bytes),
                        sealedBytes: bytes.count
                    )
                }
            )
        }
    }
}

extension EpochKey {
    /// Opens a sealed file of any size while it's read.
    ///
    /// - Parameters:
    ///   - source: The sealed file, in pieces of any size.
    ///   - context: The context that it must be sealed for.
    ///   - salt: The salt that its header must have, if that is known: it distinguishes files that were sealed for the same
    ///     context.
    ///   - workers: The workers that open; the content can be iterated as long as they run.
    ///   - onEnd: Called with the summary at the end of each whole pass, before the iterator returns `nil`.
    /// - Returns: The content. Iterating throws what the source throws, `CancellationError`, and
    ///   ``CryptographyError/Code/tampered``, ``CryptographyError/Code/truncated``,
    ///   ``CryptographyError/Code/otherEpoch`` or ``CryptographyError/Code/unsupportedFormat``.
    public func opening<Source: AsyncSequence & Sendable>(
        _ source: Source,
        as context: SealedContext,
        salt: [UInt8]? = nil,
        on workers: SealingWorkers,
        onEnd: (@Sendable (ContentSummary) -> Void)? = nil
    ) -> OpenedContent<Source> where Source.Element == [UInt8] {
        OpenedContent(source: source, key: self, context: context, salt: salt, workers: workers, onEnd: onEnd)
    }
}
