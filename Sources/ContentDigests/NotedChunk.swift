/// A note on a transferred chunk of 1 MiB, by which an interrupted transfer resumes.
package struct NotedChunk: Hashable, Sendable {
    /// The digest of the chunk's content, which is a block of the content root.
    package let digest: [UInt8]
    /// The size of the chunk in the sealed file, in bytes.
    package let sealedBytes: Int

    /// Creates a note.
    package init(digest: [UInt8], sealedBytes: Int) {
        self.digest = digest
        self.sealedBytes = sealedBytes
    }

    /// Notes a chunk, which must have 1 MiB.
    package init(_ chunk: ChunkDigests, sealedBytes: Int) {
        guard let digest = chunk.digest else { preconditionFailure("only chunks of 1 MiB are noted") }
        self.init(digest: digest, sealedBytes: sealedBytes)
    }
}
