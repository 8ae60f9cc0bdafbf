#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// SipHash-2-4 with a secret key: libsodium's `crypto_shorthash`.
///
/// Without the key, two messages with the same hash can't be found. Keep hashes where the key is kept.
package struct SipHash: Sendable {
    /// The size of a key, in bytes.
    package static let keyBytes = 16

    private let key: [UInt8]

    /// - Parameter key: The key, of ``keyBytes`` bytes.
    package init(key: [UInt8]) {
        precondition(key.count == Self.keyBytes, "the key has the wrong length")
        Sodium.prepare()
        self.key = key
    }

    /// Returns the hash of bytes.
    package func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var hash: UInt64 = 0
        withUnsafeMutableBytes(of: &hash) { hash in
            let status = crypto_shorthash(hash.start, bytes.start, UInt64(bytes.count), key)
            precondition(status == 0, "crypto_shorthash failed with \(status)")
        }
        return hash
    }
}
