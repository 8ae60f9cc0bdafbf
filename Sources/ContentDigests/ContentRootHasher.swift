import ByteCoding

/// Digests a file's content as it arrives, in pieces of any size.
package struct ContentRootHasher: Sendable {
    /// The digests of the blocks.
    private var digests: [UInt8] = []
    private var pending: [UInt8] = []
    private let pages: PageHash

    /// The number of bytes so far.
    package private(set) var byteCount: Int64 = 0

    /// Creates the hasher of an empty file.
    package init(_ pages: PageHash = .plain) { self.pages = pages }

    /// Appends the next bytes.
    package mutating func update(_ chunk: [UInt8]) {
        byteCount += Int64(chunk.count)
        // Files usually arrive in chunks of the block's size, which are digested without a copy.
        if pending.isEmpty, chunk.count == ContentRoot.blockSize {
            digests += blockDigest(of: chunk)
            return
        }
        var rest = chunk[...]
        while !rest.isEmpty {
            let piece = rest.prefix(ContentRoot.blockSize - pending.count)
            rest = rest.dropFirst(piece.count)
            pending += piece
            guard pending.count == ContentRoot.blockSize else { return }
            digests += blockDigest(of: pending)
            pending = []
        }
    }

    private func blockDigest(of block: [UInt8]) -> [UInt8] { Blake2b.digest(of: pages.digests(of: block)) }

    /// Appends the digest of the next block, which is whole or the last.
    ///
    /// All former bytes must have been whole blocks.
    mutating func append(blockDigest: [UInt8], byteCount: Int) {
        precondition(pending.isEmpty, "a block can't follow \(pending.count) bytes of another one")
        self.byteCount += Int64(byteCount)
        digests += blockDigest
    }

    /// Returns the root of all bytes.
    package consuming func finalize() -> ContentRoot {
        if !pending.isEmpty { digests += blockDigest(of: pending) }
        let message = Array("swift-store-sync content".utf8) + byteCount.littleEndianBytes + digests
        return ContentRoot(bytes: Blake2b.digest(of: message))
    }
}
