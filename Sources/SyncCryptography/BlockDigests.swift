/// The digests of a file's blocks, by which those that changed are found again.
///
/// A block is a page of the ``ContentRoot``, which has the page's digest, or several, whose digests' digest it has then. What is in
/// a store may come from strangers: nobody can make two blocks with the same digest.
package struct BlockDigests: Hashable, Sendable {
    /// How many bytes a block has; the last one may be shorter.
    package let blockSize: Int
    /// How many bytes the file has.
    package private(set) var byteCount: Int64 = 0
    /// The digests, in order.
    package private(set) var bytes: [UInt8] = []
    /// What says fast which pages are the same, if there is any; only where a block is a page.
    package private(set) var fingerprints: Fingerprints?

    /// Begins with an empty file, without fingerprints.
    ///
    /// - Parameter blockSize: A power of two from 4 KiB to 1 MiB.
    package init(blockSize: Int) {
        precondition(Self.isBlockSize(blockSize), "a block can't have \(blockSize) bytes")
        self.blockSize = blockSize
    }

    /// Begins with an empty file, and with fingerprints that can be compared with those of `former`.
    init(blockSize: Int, comparableWith former: BlockDigests?) {
        self.init(blockSize: blockSize)
        guard blockSize == ContentRoot.pageSize else { return }
        fingerprints = former?.fingerprints?.begunAnew ?? Fingerprints()
    }

    /// Takes the digests of a file, as ``bytes`` gave them, and what ``fingerprints`` held.
    ///
    /// Returns `nil` if there aren't as many as the file has blocks.
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

    /// How many bytes the digests have of a file of `byteCount` bytes; `nil` if no block can have `blockSize`.
    package static func byteCount(of byteCount: Int64, blockSize: Int) -> Int? {
        guard isBlockSize(blockSize) else { return nil }
        return Int(byteCount / Int64(blockSize) + (byteCount % Int64(blockSize) == 0 ? 0 : 1)) * Blake2b.byteCount
    }

    private static func isBlockSize(_ size: Int) -> Bool {
        (ContentRoot.pageSize...ContentRoot.blockSize).contains(size) && size.nonzeroBitCount == 1
    }

    /// The next bytes; all that came before must have been whole blocks.
    package mutating func update(_ chunk: [UInt8]) {
        append(pageDigests: Blake2b.digests(of: chunk, blockSize: ContentRoot.pageSize), byteCount: chunk.count)
    }

    /// The next bytes, whose pages somebody else has digested, and made the fingerprints of if there are to be any.
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

    /// The blocks that aren't the same in `former`, which has blocks of the same size, as runs that don't touch.
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

    /// Whether blocks that stand at an offset of the file, whole ones or the last, have these digests.
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
