/// The digests of a chunk of a file, computed together with the other work on the chunk.
package struct ChunkDigests: Sendable {
    /// The size of the chunk, in bytes.
    package let byteCount: Int
    /// The chunk's digest, if a chunk is a block of the content root.
    package let digest: [UInt8]?
    /// The digests of the chunk's pages, if it's a block.
    let pages: [UInt8]?
    /// The chunk itself, if it isn't a block: blocks then consist of several chunks, in order.
    let content: [UInt8]?

    /// Digests a chunk.
    ///
    /// - Parameters:
    ///   - content: The chunk.
    ///   - chunkSize: The size in bytes of all chunks but the last.
    ///   - hash: How its pages are digested.
    package init(of content: [UInt8], chunkSize: Int, by hash: PageHash) {
        let isBlock = chunkSize == ContentRoot.blockSize && !content.isEmpty
        byteCount = content.count
        pages = isBlock ? hash.digests(of: content) : nil
        digest = pages.map { Blake2b.digest(of: $0) }
        self.content = isBlock ? nil : content
    }
}
