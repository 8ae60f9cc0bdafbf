/// What a pass over a file's content computes: its length, its root and, if they were requested, its blocks' digests.
package struct FileDigests: Hashable, Sendable {
    /// The size of the file, in bytes.
    package let byteCount: Int64
    /// The digest of the file's content.
    package let root: ContentRoot
    /// The digests of the file's blocks, if they were requested.
    package let blocks: BlockDigests?
}

/// Adds up the digests of a file's chunks, in order.
package struct FileDigester: Sendable {
    /// How pages are digested.
    package let pages: PageHash
    private var hasher: ContentRootHasher
    private var blocks: BlockDigests?

    /// Creates the digester of an empty file.
    ///
    /// - Parameters:
    ///   - blockSize: The size in bytes of the blocks to digest, if chunks have 1 MiB; `nil` for none.
    ///   - pages: How pages are digested.
    package init(blockSize: Int? = nil, _ pages: PageHash) {
        self.pages = pages
        hasher = ContentRootHasher(pages)
        blocks = blockSize.map { BlockDigests(blockSize: $0, pages) }
    }

    /// Appends the next chunk.
    package mutating func append(_ chunk: ChunkDigests) {
        switch chunk.content {
        case .block(let digest, let pageDigests):
            hasher.append(blockDigest: digest, byteCount: chunk.byteCount)
            blocks?.append(pageDigests: pageDigests, byteCount: chunk.byteCount, by: pages)
        case .part(let bytes): hasher.update(bytes)
        }
    }

    /// Returns the digests of all chunks.
    package consuming func finalize() -> FileDigests {
        FileDigests(byteCount: hasher.byteCount, root: hasher.finalize(), blocks: blocks)
    }
}
