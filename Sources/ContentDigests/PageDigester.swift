/// Digests the pages of blocks, except pages that a former state of the file had at the same offset.
package struct PageDigester: Sendable {
    private let former: BlockDigests?
    private let mac: GMAC?

    /// - Parameters:
    ///   - fingerprints: The fingerprints that those of the blocks are appended to; `nil` to compute none.
    ///   - former: The digests of a former state, with fingerprints under the same key.
    init(_ fingerprints: Fingerprints?, since former: BlockDigests?) {
        mac = fingerprints.flatMap { GMAC(key: $0.key) }
        self.former = former
    }

    /// Returns the page digests and the fingerprints of a block at `offset`, where a page begins.
    func digests(of block: [UInt8], at offset: Int64) -> (digests: [UInt8], fingerprints: [UInt8]?) {
        guard let mac else { return (Blake2b.digests(of: block, blockSize: ContentRoot.pageSize), nil) }
        let groups = stride(from: 0, to: block.count, by: Fingerprints.groupSize)
        var fingerprints = [UInt8](repeating: 0, count: Fingerprints.byteCount(of: Int64(block.count)))
        let pageCount = (block.count + ContentRoot.pageSize - 1) / ContentRoot.pageSize
        let pages = [UInt8](unsafeUninitializedCapacity: pageCount * Blake2b.byteCount) { digests, initialized in
            let digests = UnsafeMutableRawBufferPointer(digests)
            block.withUnsafeBytes { block in
                fingerprints.withUnsafeMutableBytes { fingerprints in
                    for (index, start) in groups.enumerated() {
                        let content = block[start..<min(start + Fingerprints.groupSize, block.count)]
                        let place = index * GMAC.tagBytes..<(index + 1) * GMAC.tagBytes
                        let fingerprint = UnsafeMutableRawBufferPointer(rebasing: fingerprints[place])
                        mac.fill(fingerprint, with: UnsafeRawBufferPointer(rebasing: content))
                        let first = start / ContentRoot.pageSize * Blake2b.byteCount
                        let room = UnsafeMutableRawBufferPointer(rebasing: digests[first...])
                        let known = former?.pageDigests(at: offset + Int64(start), content.count, fingerprint)
                        if let known {
                            room.copyBytes(from: known)
                        } else {
                            Blake2b.fill(room, of: UnsafeRawBufferPointer(rebasing: content), ContentRoot.pageSize)
                        }
                    }
                }
            }
            initialized = digests.count
        }
        return (pages, fingerprints)
    }
}

extension BlockDigests {
    /// Returns the digests of the pages at an offset if they have this fingerprint, else `nil`.
    fileprivate func pageDigests(
        at offset: Int64,
        _ count: Int,
        _ fingerprint: UnsafeMutableRawBufferPointer
    ) -> ArraySlice<UInt8>? {
        guard blockSize == ContentRoot.pageSize, let fingerprints, offset + Int64(count) <= byteCount else {
            return nil
        }
        let place = Int(offset) / Fingerprints.groupSize * GMAC.tagBytes
        let known = fingerprints.bytes[place..<place + GMAC.tagBytes].withUnsafeBytes { known in
            known.elementsEqual(fingerprint)
        }
        guard known else { return nil }
        let first = Int(offset) / ContentRoot.pageSize
        let pageCount = (count + ContentRoot.pageSize - 1) / ContentRoot.pageSize
        return bytes[first * Blake2b.byteCount..<(first + pageCount) * Blake2b.byteCount]
    }
}
