/// What a pass over a file's content computes: its length, its root and, if they were requested, its blocks' digests.
package struct FileDigests: Hashable, Sendable {
    /// The size of the file, in bytes.
    package fileprivate(set) var byteCount: Int64 = 0
    /// The digest of the file's content.
    package fileprivate(set) var root: ContentRoot
    /// The digests of the file's blocks, if they were requested.
    package fileprivate(set) var blocks: BlockDigests?

    /// Creates the digests of an empty file, without blocks.
    package init() {
        root = ContentRootHasher().finalize()
    }
}

/// Adds up the digests of a file's chunks, in order.
package struct FileDigester: Sendable {
    private var hasher = ContentRootHasher()
    private var digests = FileDigests()
    /// Digests the chunks for this digester, in any order and concurrently.
    package let pages: PageDigester

    /// Creates the digester of an empty file.
    ///
    /// - Parameters:
    ///   - blockSize: The size in bytes of the blocks to digest, if chunks have 1 MiB; `nil` for none.
    ///   - former: The digests of a former state, whose unchanged content isn't digested again.
    package init(blockSize: Int? = nil, since former: BlockDigests? = nil) {
        digests.blocks = blockSize.map { BlockDigests(blockSize: $0, comparableWith: former) }
        pages = PageDigester(digests.blocks?.fingerprints, since: former)
    }

    /// Appends the next chunk.
    package mutating func append(_ chunk: ChunkDigests) {
        digests.byteCount += Int64(chunk.byteCount)
        if let digest = chunk.digest { hasher.append(blockDigest: digest, byteCount: chunk.byteCount) }
        if let (pages, fingerprints) = chunk.pages {
            digests.blocks?.append(pageDigests: pages, fingerprints: fingerprints, byteCount: chunk.byteCount)
        }
        if let content = chunk.content { hasher.update(content) }
    }

    /// Returns the digests of all chunks.
    package consuming func finalize() -> FileDigests {
        digests.root = hasher.finalize()
        return digests
    }
}
