/// What a pass over a whole sealed file came to.
public struct ContentSummary: Hashable, Sendable {
    /// How many bytes the file has.
    public internal(set) var plainBytes: Int64 = 0
    /// How many bytes it has sealed.
    public internal(set) var sealedBytes: Int64 = 0
    /// The digest of the file's content.
    package internal(set) var contentRoot: ContentRoot

    /// The root of an empty file, until there is more.
    init() {
        contentRoot = ContentRootHasher().finalize()
    }
}

/// Adds up what comes of the chunks of a pass, in order.
struct ContentTally: Sendable {
    private var hasher = ContentRootHasher()
    private var summary = ContentSummary()

    /// One chunk: its plaintext, and the digest of it where the chunk is a block of the content root.
    mutating func add(_ plaintext: [UInt8], digest: [UInt8]?, sealedBytes: Int) {
        summary.plainBytes += Int64(plaintext.count)
        summary.sealedBytes += Int64(sealedBytes)
        if let digest {
            hasher.append(blockDigest: digest, byteCount: plaintext.count)
        } else {
            hasher.update(plaintext)
        }
    }

    /// Bytes of the sealed file that belong to no chunk.
    mutating func add(sealedBytes: Int) {
        summary.sealedBytes += Int64(sealedBytes)
    }

    /// What it came to.
    consuming func finalize() -> ContentSummary {
        summary.contentRoot = hasher.finalize()
        return summary
    }

    /// The digest of a chunk's plaintext, computed beside the other work on it, where a chunk is a block.
    static func digest(of plaintext: [UInt8], chunkSize: Int) -> [UInt8]? {
        guard chunkSize == ContentRoot.blockSize, !plaintext.isEmpty else { return nil }
        return Blake2b.digest(of: plaintext)
    }
}
