/// A note on a transferred chunk of 1 MiB, by which an interrupted transfer resumes.
package struct NotedChunk: Hashable, Sendable {
    /// The seal of the chunk in the sealed file; empty if the file isn't sealed.
    package let seal: [UInt8]
    /// The size of the chunk on the remote, in bytes.
    package let storedBytes: Int
    /// The digest of the chunk's content, which is a block of the content root; `nil` for a chunk that was opened.
    package let digest: [UInt8]?

    /// Creates a note.
    package init(seal: [UInt8], storedBytes: Int, digest: [UInt8]? = nil) {
        self.seal = seal
        self.storedBytes = storedBytes
        self.digest = digest
    }

    /// Creates the note on a chunk that isn't sealed.
    package init(_ chunk: ChunkDigests) {
        self.init(seal: [], storedBytes: chunk.byteCount, digest: chunk.digest)
    }
}
