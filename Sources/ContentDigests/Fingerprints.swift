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
