/// The digests of a chunk of a file, computed together with the other work on the chunk.
package struct ChunkDigests: Sendable {
    /// The size of the chunk, in bytes.
    package let byteCount: Int
    /// The chunk's digest, if a chunk is a block of the content root.
    package let digest: [UInt8]?
    /// The chunk itself, if it isn't a block: blocks then consist of several chunks, in order.
    let content: [UInt8]?
    /// The digests of the chunk's pages if it's a block, and their fingerprints if they're computed.
    let pages: (digests: [UInt8], fingerprints: [UInt8]?)?

    /// Digests a chunk.
    ///
    /// - Parameters:
    ///   - content: The chunk.
    ///   - index: Its index in the file, from 0.
    ///   - chunkSize: The size in bytes of all chunks but the last.
    ///   - digester: The digester of the pages, from ``FileDigester/pages``.
    package init(of content: [UInt8], at index: Int, chunkSize: Int, by digester: PageDigester) {
        let isBlock = chunkSize == ContentRoot.blockSize && !content.isEmpty
        byteCount = content.count
        pages = isBlock ? digester.digests(of: content, at: Int64(index) * Int64(chunkSize)) : nil
        digest = pages.map { Blake2b.digest(of: $0.digests) }
        self.content = isBlock ? nil : content
    }
}
