/// What a pass over a whole sealed file came to.
public struct ContentSummary: Hashable, Sendable {
    /// How many bytes the file has.
    public internal(set) var plainBytes: Int64 = 0
    /// How many bytes it has sealed.
    public internal(set) var sealedBytes: Int64 = 0
    /// The digest of the file's content.
    package internal(set) var contentRoot: ContentRoot
    /// The digests of the file's blocks, if they were asked for.
    package internal(set) var blocks: BlockDigests?

    /// The root of an empty file, until there is more.
    init() {
        contentRoot = ContentRootHasher().finalize()
    }
}

/// What a chunk adds to a summary, found out beside the other work on it.
struct ChunkSummary: Sendable {
    /// How many bytes the chunk has.
    let plainBytes: Int
    /// The chunk's digest, where a chunk is a block of the content root.
    let digest: [UInt8]?
    /// The chunk itself, where it isn't: blocks are then put together of several, in order.
    let plaintext: [UInt8]?
    /// The digests of the chunk's pages, likewise, and the fingerprints if they're made.
    let pages: (digests: [UInt8], fingerprints: [UInt8]?)?

    init(of plaintext: [UInt8], at index: Int, chunkSize: Int, _ digester: PageDigester) {
        let isBlock = chunkSize == ContentRoot.blockSize && !plaintext.isEmpty
        plainBytes = plaintext.count
        pages = isBlock ? digester.digests(of: plaintext, at: Int64(index) * Int64(chunkSize)) : nil
        digest = pages.map { Blake2b.digest(of: $0.digests) }
        self.plaintext = isBlock ? nil : plaintext
    }
}

/// Adds up what comes of the chunks of a pass, in order.
struct ContentTally: Sendable {
    private var hasher = ContentRootHasher()
    private var summary = ContentSummary()
    /// Digests the chunks for this tally.
    let digester: PageDigester

    /// - Parameters:
    ///   - blockSize: How many bytes the blocks have whose digests are wanted, of chunks of 1 MiB.
    ///   - former: What is known of a former state, which need not be digested again.
    init(blockSize: Int? = nil, since former: BlockDigests? = nil) {
        summary.blocks = blockSize.map { BlockDigests(blockSize: $0, comparableWith: former) }
        digester = PageDigester(summary.blocks?.fingerprints, since: former)
    }

    /// Adds a chunk.
    mutating func add(_ chunk: ChunkSummary, sealedBytes: Int) {
        summary.plainBytes += Int64(chunk.plainBytes)
        add(sealedBytes: sealedBytes)
        if let digest = chunk.digest { hasher.append(blockDigest: digest, byteCount: chunk.plainBytes) }
        if let (digests, fingerprints) = chunk.pages {
            summary.blocks?.append(pageDigests: digests, fingerprints: fingerprints, byteCount: chunk.plainBytes)
        }
        if let plaintext = chunk.plaintext { hasher.update(plaintext) }
    }

    /// Adds bytes of the sealed file that belong to no chunk.
    mutating func add(sealedBytes: Int) {
        summary.sealedBytes += Int64(sealedBytes)
    }

    /// What it came to.
    consuming func finalize() -> ContentSummary {
        summary.contentRoot = hasher.finalize()
        return summary
    }
}
