package import ContentDigests

/// The summary of a pass over a whole sealed file.
public struct ContentSummary: Hashable, Sendable {
    /// The size of the file, in bytes.
    public let plainBytes: Int64
    /// The size of the sealed file, in bytes.
    public let sealedBytes: Int64
    /// The digest of the seals of all chunks, in 32 bytes, which the article <doc:Formats> describes.
    ///
    /// If two sealed files have the same context and salt, and this digest is the same too, they have the same content.
    public let seals: [UInt8]
    /// The digests of the file's content, from a pass that sealed it.
    package let digests: FileDigests?
}

/// Adds up the summary of a pass, chunk by chunk in order.
struct ContentTally: Sendable {
    private(set) var plainBytes: Int64 = 0
    private(set) var sealedBytes: Int64 = 0
    /// The message of which the digest of the seals is taken.
    private var seals = FileMagic.seals.bytes

    /// The tally of an empty file.
    init() {}

    /// The tally of the beginning of a sealed file, which ends with some chunks.
    init(of chunks: some Collection<NotedChunk>) {
        add(sealedBytes: SealedHeader.byteCount)
        for chunk in chunks { add(seal: chunk.seal, plainBytes: ContentRoot.blockSize, sealedBytes: chunk.storedBytes) }
    }

    /// Adds a chunk.
    mutating func add(seal: [UInt8], plainBytes: Int, sealedBytes: Int) {
        precondition(seal.count == ChunkRecord.sealBytes, "a seal can't have \(seal.count) bytes")
        seals += seal
        self.plainBytes += Int64(plainBytes)
        add(sealedBytes: sealedBytes)
    }

    /// Adds bytes of the sealed file that belong to no chunk.
    mutating func add(sealedBytes: Int) {
        self.sealedBytes += Int64(sealedBytes)
    }

    /// Returns the summary of all chunks.
    func summary(_ digests: FileDigests? = nil) -> ContentSummary {
        ContentSummary(
            plainBytes: plainBytes,
            sealedBytes: sealedBytes,
            seals: Blake2b.digest(of: seals),
            digests: digests
        )
    }
}
