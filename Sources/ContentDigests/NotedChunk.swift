/// A note on a transferred chunk of 1 MiB, by which an interrupted transfer resumes.
package struct NotedChunk: Hashable, Sendable {
    /// The seal of the chunk in the sealed file.
    package let seal: [UInt8]
    /// The size of the chunk in the sealed file, in bytes.
    package let sealedBytes: Int
    /// The digest of the chunk's content, which is a block of the content root; `nil` for a chunk that was opened.
    package let digest: [UInt8]?

    /// Creates a note.
    package init(seal: [UInt8], sealedBytes: Int, digest: [UInt8]? = nil) {
        self.seal = seal
        self.sealedBytes = sealedBytes
        self.digest = digest
    }
}
