/// The summary of a pass over a whole sealed file.
public struct ContentSummary: Hashable, Sendable {
    /// The size of the file, in bytes.
    public internal(set) var plainBytes: Int64 = 0
    /// The size of the sealed file, in bytes.
    public internal(set) var sealedBytes: Int64 = 0
    /// The digest of the file's content.
    package internal(set) var contentRoot: ContentRoot
    /// The digests of the file's blocks, if they were requested.
    package internal(set) var blocks: BlockDigests?

    /// Creates the summary of an empty file.
    init() {
        contentRoot = ContentRootHasher().finalize()
    }
}

/// A chunk's contribution to a summary, computed together with the other work on the chunk.
struct ChunkSummary: Sendable {
    /// The size of the chunk, in bytes.
    let plainBytes: Int
    /// The chunk's digest, if a chunk is a block of the content root.
    let digest: [UInt8]?
    /// The chunk itself, if it isn't a block: blocks then consist of several chunks, in order.
    let plaintext: [UInt8]?
    /// The digests of the chunk's pages if it's a block, and their fingerprints if they're computed.
    let pages: (digests: [UInt8], fingerprints: [UInt8]?)?

    init(of plaintext: [UInt8], at index: Int, chunkSize: Int, _ digester: PageDigester) {
        let isBlock = chunkSize == ContentRoot.blockSize && !plaintext.isEmpty
        plainBytes = plaintext.count
        pages = isBlock ? digester.digests(of: plaintext, at: Int64(index) * Int64(chunkSize)) : nil
        digest = pages.map { Blake2b.digest(of: $0.digests) }
        self.plaintext = isBlock ? nil : plaintext
    }
}

/// Adds up the summaries of a pass's chunks, in order.
struct ContentTally: Sendable {
    private var hasher = ContentRootHasher()
    private var summary = ContentSummary()
    /// Digests the chunks for this tally.
    let digester: PageDigester

    /// - Parameters:
    ///   - blockSize: The size in bytes of the blocks to digest, if chunks have 1 MiB; `nil` for none.
    ///   - former: The digests of a former state, whose unchanged content isn't digested again.
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

    /// Returns the summary of all chunks.
    consuming func finalize() -> ContentSummary {
        summary.contentRoot = hasher.finalize()
        return summary
    }
}
