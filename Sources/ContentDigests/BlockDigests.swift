import Foundation

/// The digests of a file's blocks, by which changed blocks are found.
///
/// A block is one page of the ``ContentRoot`` or several pages. The digest of one page is the block's digest; for several pages,
/// it's the digest of their digests, by the same ``PageHash``. The content of a store may be untrusted, so an attacker must not be able
/// to find two blocks with the same digest.
package struct BlockDigests: Hashable, Sendable {
    /// The size of a block in bytes; the last block may be shorter.
    package let blockSize: Int
    /// The size of the file, in bytes.
    package private(set) var byteCount: Int64 = 0
    /// The digests, in order.
    package private(set) var bytes: [UInt8] = []
    /// The size of a digest, in bytes.
    private let digestByteCount: Int

    /// Creates the digests of an empty file.
    ///
    /// - Parameters:
    ///   - blockSize: A power of two from 4 KiB to 1 MiB.
    ///   - pages: How pages are digested.
    package init(blockSize: Int, _ pages: PageHash) {
        precondition(Self.isBlockSize(blockSize), "a block can't have \(blockSize) bytes")
        self.blockSize = blockSize
        digestByteCount = pages.byteCount
    }

    /// Restores the digests of a file, computed with a key, from the value of ``bytes``.
    ///
    /// Returns `nil` if their number doesn't match the file's size.
    package init?(blockSize: Int, byteCount: Int64, bytes: [UInt8]) {
        guard Self.isBlockSize(blockSize), byteCount >= 0 else { return nil }
        let count = byteCount / Int64(blockSize) + (byteCount % Int64(blockSize) == 0 ? 0 : 1)
        digestByteCount = PageHash.keyedByteCount
        guard Int64(bytes.count) == count * Int64(digestByteCount) else { return nil }
        self.blockSize = blockSize
        self.byteCount = byteCount
        self.bytes = bytes
    }

    private static func isBlockSize(_ size: Int) -> Bool {
        (ContentRoot.pageSize...ContentRoot.blockSize).contains(size) && size.nonzeroBitCount == 1
    }

    /// Appends the next bytes, by the digests of their pages; all former bytes must have been whole blocks.
    mutating func append(pageDigests: [UInt8], byteCount count: Int, by pages: PageHash) {
        precondition(byteCount % Int64(blockSize) == 0, "a block can't follow a part of another one")
        bytes += digests(ofPages: pageDigests, by: pages)
        byteCount += Int64(count)
    }

    private func digests(ofPages pageDigests: [UInt8], by pages: PageHash) -> [UInt8] {
        guard blockSize > ContentRoot.pageSize else { return pageDigests }
        return pages.digests(of: pageDigests, pageSize: blockSize / ContentRoot.pageSize * pages.byteCount)
    }

    /// Returns the blocks that differ from `former`, which has the same block size, as runs that don't touch.
    package func blocksChanged(since former: BlockDigests) -> [Range<Int64>] {
        precondition(blockSize == former.blockSize, "blocks of different sizes can't be compared")
        var runs: [Range<Int64>] = []
        for block in 0..<(bytes.count / digestByteCount) where !isSame(block, in: former) {
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
    package func match(_ blocks: [UInt8], at offset: Int64, by pages: PageHash) -> Bool {
        let first = Int(offset / Int64(blockSize)) * digestByteCount
        let found = digests(ofPages: pages.digests(of: blocks), by: pages)
        return bytes.dropFirst(first).prefix(found.count) == found[...]
    }

    private func isSame(_ block: Int, in former: BlockDigests) -> Bool {
        let start = block * digestByteCount
        guard start + digestByteCount <= former.bytes.count else { return false }
        // A block that became shorter or longer has another digest anyway.
        return bytes.withUnsafeBytes { bytes in
            former.bytes.withUnsafeBytes { memcmp(bytes.start + start, $0.start + start, digestByteCount) == 0 }
        }
    }
}
