#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// BLAKE2b (RFC 7693): libsodium's `crypto_generichash`.
package enum Blake2b {
    /// The default size of a digest, in bytes.
    package static let byteCount = 32

    /// Returns the digest of `bytes`.
    ///
    /// - Parameters:
    ///   - bytes: The message.
    ///   - count: The size of the digest, 16 to 64 bytes.
    /// - Returns: The digest.
    package static func digest(of bytes: [UInt8], count: Int = byteCount) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { digest, initialized in
            bytes.withUnsafeBytes { fill(UnsafeMutableRawBufferPointer(digest), with: $0) }
            initialized = count
        }
    }

    /// Writes the digest of `bytes` to `digest`, which may have 16 to 64 bytes.
    ///
    /// - Parameters:
    ///   - digest: The memory for the digest.
    ///   - bytes: The message.
    ///   - key: 16 to 64 bytes; `nil` for a plain digest.
    package static func fill(
        _ digest: UnsafeMutableRawBufferPointer,
        with bytes: UnsafeRawBufferPointer,
        key: UnsafeRawBufferPointer? = nil
    ) {
        Sodium.prepare()
        let status = crypto_generichash(
            digest.start,
            digest.count,
            bytes.start,
            UInt64(bytes.count),
            key?.start,
            key?.count ?? 0
        )
        precondition(status == 0, "crypto_generichash failed with \(status)")
    }
}
