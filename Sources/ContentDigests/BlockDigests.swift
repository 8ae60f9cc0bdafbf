/// The digests of a file's blocks, by which changed blocks are found.
///
/// A block is one page of the ``ContentRoot`` or several pages. The digest of one page is the block's digest; for several pages,
/// it's the digest of their digests. The content of a store may be untrusted, so the digests are collision-resistant.
package struct BlockDigests: Hashable, Sendable {
    /// The size of a block in bytes; the last block may be shorter.
    package let blockSize: Int
    /// The size of the file, in bytes.
    package private(set) var byteCount: Int64 = 0
    /// The digests, in order.
    package private(set) var bytes: [UInt8] = []
    /// The fingerprints, by which unchanged pages are found fast; only if a block is a page.
    package private(set) var fingerprints: Fingerprints?

    /// Creates the digests of an empty file, without fingerprints.
    ///
    /// - Parameter blockSize: A power of two from 4 KiB to 1 MiB.
    package init(blockSize: Int) {
        precondition(Self.isBlockSize(blockSize), "a block can't have \(blockSize) bytes")
        self.blockSize = blockSize
    }

    /// Creates the digests of an empty file, with fingerprints that can be compared with those of `former`.
    init(blockSize: Int, comparableWith former: BlockDigests?) {
        self.init(blockSize: blockSize)
        guard blockSize == ContentRoot.pageSize else { return }
        fingerprints = former?.fingerprints?.restarted ?? Fingerprints()
    }

    /// Restores the digests of a file from the values of ``bytes`` and ``fingerprints``.
    ///
    /// Returns `nil` if their number doesn't match the file's size.
    package init?(
        blockSize: Int,
        byteCount: Int64,
        bytes: [UInt8],
        fingerprints: (key: [UInt8], bytes: [UInt8])? = nil
    ) {
        guard byteCount >= 0, Self.byteCount(of: byteCount, blockSize: blockSize) == bytes.count else { return nil }
        self.blockSize = blockSize
        self.byteCount = byteCount
        self.bytes = bytes
        guard let fingerprints else { return }
        guard blockSize == ContentRoot.pageSize,
            let taken = Fingerprints(key: fingerprints.key, byteCount: byteCount, bytes: fingerprints.bytes)
        else { return nil }
        self.fingerprints = taken
    }

    /// Returns the size of the digests of a file of `byteCount` bytes; `nil` if `blockSize` isn't valid.
    package static func byteCount(of byteCount: Int64, blockSize: Int) -> Int? {
        guard isBlockSize(blockSize) else { return nil }
        return Int(byteCount / Int64(blockSize) + (byteCount % Int64(blockSize) == 0 ? 0 : 1)) * Blake2b.byteCount
    }

    private static func isBlockSize(_ size: Int) -> Bool {
        (ContentRoot.pageSize...ContentRoot.blockSize).contains(size) && size.nonzeroBitCount == 1
    }

    /// Appends the next bytes; all former bytes must have been whole blocks.
    package mutating func update(_ chunk: [UInt8]) {
        append(pageDigests: Blake2b.digests(of: chunk, blockSize: ContentRoot.pageSize), byteCount: chunk.count)
    }

    /// Appends the next bytes, by the digests of their pages and their fingerprints, if there are any.
    mutating func append(pageDigests: [UInt8], fingerprints new: [UInt8]? = nil, byteCount count: Int) {
        precondition(byteCount % Int64(blockSize) == 0, "a block can't follow a part of another one")
        bytes += digests(ofPages: pageDigests)
        byteCount += Int64(count)
        if let new { fingerprints?.append(new) } else { fingerprints = nil }
    }

    private func digests(ofPages pageDigests: [UInt8]) -> [UInt8] {
        guard blockSize > ContentRoot.pageSize else { return pageDigests }
        return Blake2b.digests(of: pageDigests, blockSize: blockSize / ContentRoot.pageSize * Blake2b.byteCount)
    }

    /// Returns the blocks that differ from `former`, which has the same block size, as runs that don't touch.
    package func blocksChanged(since former: BlockDigests) -> [Range<Int64>] {
        precondition(blockSize == former.blockSize, "blocks of different sizes can't be compared")
        var runs: [Range<Int64>] = []
        for block in 0..<(bytes.count / Blake2b.byteCount) where !isSame(block, in: former) {
            let next = Int64(block)
            if runs.last?.upperBound == next {
                runs[runs.count - 1] = runs[runs.count - 1].lowerBound..<next + 1
            } else {
                runs.append(next..<next + 1)
            }
        }
        return runs
    }

    /// Whether these are the digests of the blocks at an offset of the file, which are whole blocks or include the last.
    package func match(_ blocks: [UInt8], at offset: Int64) -> Bool {
        let first = Int(offset / Int64(blockSize)) * Blake2b.byteCount
        let found = digests(ofPages: Blake2b.digests(of: blocks, blockSize: ContentRoot.pageSize))
        return bytes.dropFirst(first).prefix(found.count).elementsEqual(found)
    }

    private func isSame(_ block: Int, in former: BlockDigests) -> Bool {
        let place = block * Blake2b.byteCount..<(block + 1) * Blake2b.byteCount
        guard place.upperBound <= former.bytes.count else { return false }
        // A block that became shorter or longer has another digest anyway.
        return bytes[place] == former.bytes[place]
    }
}
