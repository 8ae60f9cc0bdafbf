#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// A hash of 64 bits with a secret key: the first half of a ``GMAC`` or, on a processor that doesn't accelerate that, SipHash-2-4,
/// libsodium's `crypto_shorthash`, which takes more than twice as long.
///
/// Without the key, two messages with the same hash can't be found. Keep hashes where the key is kept, on the device: another
/// device may hash differently.
package struct KeyedHash: Sendable {
    /// The size of a key, in bytes.
    package static let keyBytes = GMAC.keyBytes

    private let key: [UInt8]
    private let gmac: GMAC?

    /// - Parameter key: The key, of ``keyBytes`` bytes.
    package init(key: [UInt8]) {
        precondition(key.count == Self.keyBytes, "the key has the wrong length")
        Sodium.prepare()
        self.key = key
        gmac = GMAC(key: key)
    }

    /// Returns the hash of bytes.
    package func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        guard let gmac else { return sipHash(bytes) }
        var tag: (UInt64, UInt64) = (0, 0)
        withUnsafeMutableBytes(of: &tag) { gmac.fill($0, with: bytes) }
        return tag.0
    }

    /// The hash without ``GMAC``; it uses the first 16 bytes of the key.
    func sipHash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0
        withUnsafeMutableBytes(of: &hash) { hash in
            let status = crypto_shorthash(hash.start, bytes.start, UInt64(bytes.count), key)
            precondition(status == 0, "crypto_shorthash failed with \(status)")
        }
        return hash
    }
}
