/// Fingerprints of a file's content, which find unchanged content several times as fast as digests do.
///
/// Each 16 KiB have a fingerprint: a ``GMAC`` under a key that stays on the device, as the fingerprints do. An attacker who doesn't
/// know them can't create two contents with the same fingerprint.
package struct Fingerprints: Hashable, Sendable {
    /// The number of bytes that a fingerprint covers; the last fingerprint may cover fewer.
    static let groupSize = 1 << 14
    /// The size of a key, in bytes.
    package static let keyBytes = GMAC.keyBytes

    /// The key of the fingerprints.
    package let key: [UInt8]
    /// The fingerprints, in order.
    package private(set) var bytes: [UInt8] = []

    /// Creates the fingerprints of an empty file with a new key; `nil` if this processor doesn't accelerate GMAC.
    init?() {
        guard GMAC.isAvailable else { return nil }
        key = Sodium.randomBytes(GMAC.keyBytes)
    }

    private init(key: [UInt8]) {
        self.key = key
    }

    /// Restores the fingerprints of a file from ``bytes``; `nil` if their number doesn't match the file's size.
    init?(key: [UInt8], byteCount: Int64, bytes: [UInt8]) {
        guard key.count == GMAC.keyBytes, bytes.count == Self.byteCount(of: byteCount) else { return nil }
        self.key = key
        self.bytes = bytes
    }

    /// Returns the size of the fingerprints of a file of `byteCount` bytes.
    package static func byteCount(of byteCount: Int64) -> Int {
        let group = Int64(groupSize)
        return Int(byteCount / group + (byteCount % group == 0 ? 0 : 1)) * GMAC.tagBytes
    }

    /// The fingerprints of an empty file, with the same key.
    var restarted: Fingerprints { Fingerprints(key: key) }

    mutating func append(_ fingerprints: [UInt8]) { bytes += fingerprints }
}

/// Digests the pages of blocks, except pages that a former state of the file had at the same offset.
struct PageDigester: Sendable {
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
