import ContentDigests

extension Blake2b {
    /// Returns the digest of `bytes` under `key`; it isn't secret.
    ///
    /// - Parameters:
    ///   - bytes: The message.
    ///   - key: 16 to 64 bytes.
    ///   - count: The size of the digest, 16 to 64 bytes.
    /// - Returns: The digest.
    static func digest(of bytes: [UInt8], key: SecretBytes, count: Int = byteCount) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { digest, initialized in
            key.withBytes { fill(UnsafeMutableRawBufferPointer(digest), with: bytes, key: $0) }
            initialized = count
        }
    }

    /// Returns the digest of `bytes` under `key` as a secret.
    static func secret(of bytes: [UInt8], key: SecretBytes, count: Int = byteCount) -> SecretBytes {
        SecretBytes(count: count) { digest in
            key.withBytes { fill(digest, with: bytes, key: $0) }
        }
    }
}
