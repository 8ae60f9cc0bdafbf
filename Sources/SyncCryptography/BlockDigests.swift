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

    /// Begins with an empty file.
    ///
    /// - Parameter blockSize: A power of two from 4 KiB to 1 MiB.
    package init(blockSize: Int) {
        precondition(Self.isBlockSize(blockSize), "a block can't have \(blockSize) bytes")
        self.blockSize = blockSize
    }

    /// Takes the digests of a file, as ``bytes`` gave them; `nil` if they aren't as many as the file has blocks.
    package init?(blockSize: Int, byteCount: Int64, bytes: [UInt8]) {
        guard Self.isBlockSize(blockSize), byteCount >= 0 else { return nil }
        let count = byteCount / Int64(blockSize) + (byteCount % Int64(blockSize) == 0 ? 0 : 1)
        guard bytes.count % Blake2b.byteCount == 0, Int64(bytes.count / Blake2b.byteCount) == count else { return nil }
        self.blockSize = blockSize
        self.byteCount = byteCount
        self.bytes = bytes
    }

    private static func isBlockSize(_ size: Int) -> Bool {
        (ContentRoot.pageSize...ContentRoot.blockSize).contains(size) && size.nonzeroBitCount == 1
    }

    /// The next bytes; all that came before must have been whole blocks.
    package mutating func update(_ chunk: [UInt8]) {
        append(pageDigests: Blake2b.digests(of: chunk, blockSize: ContentRoot.pageSize), byteCount: chunk.count)
    }

    /// The next bytes, whose pages somebody else has digested.
    mutating func append(pageDigests: [UInt8], byteCount count: Int) {
        precondition(byteCount % Int64(blockSize) == 0, "a block can't follow a part of another one")
        bytes += digests(ofPages: pageDigests)
        byteCount += Int64(count)
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
