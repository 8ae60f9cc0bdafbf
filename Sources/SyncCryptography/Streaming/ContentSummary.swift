package import ContentDigests

/// The summary of a pass over a whole sealed file.
public struct ContentSummary: Hashable, Sendable {
    /// The size of the file, in bytes.
    public var plainBytes: Int64 { digests.byteCount }
    /// The size of the sealed file, in bytes.
    public let sealedBytes: Int64
    /// The digests of the file's content.
    package let digests: FileDigests
}

/// Adds up the summary of a pass, chunk by chunk in order.
struct ContentTally: Sendable {
    private var digester: FileDigester
    private var sealedBytes: Int64 = 0

    /// Digests the chunks for this tally.
    var pages: PageDigester { digester.pages }

    /// - Parameter blockSize: The size in bytes of the blocks to digest, if chunks have 1 MiB; `nil` for none.
    init(blockSize: Int? = nil) {
        digester = FileDigester(blockSize: blockSize)
    }

    /// Adds a chunk.
    mutating func add(_ chunk: ChunkDigests, sealedBytes: Int) {
        digester.append(chunk)
        add(sealedBytes: sealedBytes)
    }

    /// Adds bytes of the sealed file that belong to no chunk.
    mutating func add(sealedBytes: Int) {
        self.sealedBytes += Int64(sealedBytes)
    }

    /// Returns the summary of all chunks.
    consuming func finalize() -> ContentSummary {
        ContentSummary(sealedBytes: sealedBytes, digests: digester.finalize())
    }
}
