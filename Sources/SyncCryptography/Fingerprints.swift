/// Fingerprints of a file's content, by which what hasn't changed is found several times as fast as by digesting it.
///
/// Every 16 KiB have one: a ``GMAC`` under a key that stays on the device, as the fingerprints do. Nobody who doesn't know them can
/// make two contents with the same one.
package struct Fingerprints: Hashable, Sendable {
    /// How many bytes have one fingerprint; the last one may be of fewer.
    static let groupSize = 1 << 14
    /// How many bytes a key has.
    package static let keyBytes = GMAC.keyBytes

    /// The key that they were made with.
    package let key: [UInt8]
    /// The fingerprints, in order.
    package private(set) var bytes: [UInt8] = []

    /// Begins with an empty file, and a key of its own; `nil` where this processor can't do it fast.
    init?() {
        guard GMAC.isAvailable else { return nil }
        key = Sodium.randomBytes(GMAC.keyBytes)
    }

    private init(key: [UInt8]) {
        self.key = key
    }

    /// Takes the fingerprints of a file, as ``bytes`` gave them; `nil` if there can't be as many.
    init?(key: [UInt8], byteCount: Int64, bytes: [UInt8]) {
        guard key.count == GMAC.keyBytes, bytes.count == Self.byteCount(of: byteCount) else { return nil }
        self.key = key
        self.bytes = bytes
    }

    /// How many bytes the fingerprints of a file of `byteCount` bytes have.
    package static func byteCount(of byteCount: Int64) -> Int {
        let group = Int64(groupSize)
        return Int(byteCount / group + (byteCount % group == 0 ? 0 : 1)) * GMAC.tagBytes
    }

    /// Begins with an empty file and the same key.
    var begunAnew: Fingerprints { Fingerprints(key: key) }

    mutating func append(_ fingerprints: [UInt8]) { bytes += fingerprints }
}

/// Digests the pages of blocks, but for those that a former state of the file had at the same place.
struct PageDigester: Sendable {
    private let former: BlockDigests?
    private let mac: GMAC?

    /// - Parameters:
    ///   - fingerprints: Where those of the blocks go, so that they're made; `nil` if none are wanted.
    ///   - former: What was found out of a former state, with the same key.
    init(_ fingerprints: Fingerprints?, since former: BlockDigests?) {
        mac = fingerprints.flatMap { GMAC(key: $0.key) }
        self.former = former
    }

    /// The digests of the pages of a block that begins at `offset`, which a page begins at, and the fingerprints.
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
    /// The digests of pages that have this fingerprint, if it's the one that stands at this place.
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
