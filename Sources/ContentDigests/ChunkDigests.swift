/// The digests of a chunk of a file, computed together with the other work on the chunk.
package struct ChunkDigests: Sendable {
    /// The size of the chunk, in bytes.
    package let byteCount: Int
    let content: Content

    enum Content: Sendable {
        /// The chunk is a block of the content root: its digest, and the digests of its pages.
        case block(digest: [UInt8], pages: [UInt8])
        /// The chunk itself: a block consists of several chunks, in order.
        case part([UInt8])
    }

    /// The chunk's digest, if a chunk is a block of the content root.
    package var digest: [UInt8]? {
        guard case .block(let digest, _) = content else { return nil }
        return digest
    }

    /// Digests a chunk.
    ///
    /// - Parameters:
    ///   - content: The chunk.
    ///   - chunkSize: The size in bytes of all chunks but the last.
    ///   - hash: How its pages are digested.
    package init(of content: [UInt8], chunkSize: Int, by hash: PageHash) {
        byteCount = content.count
        if chunkSize == ContentRoot.blockSize, !content.isEmpty {
            let pages = hash.digests(of: content)
            self.content = .block(digest: Blake2b.digest(of: pages), pages: pages)
        } else {
            self.content = .part(content)
        }
    }
}
