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
            fill(UnsafeMutableRawBufferPointer(digest), with: bytes, key: key)
            initialized = count
        }
    }

    /// Returns the digest of `bytes` under `key` as a secret.
    static func secret(of bytes: [UInt8], key: SecretBytes, count: Int = byteCount) -> SecretBytes {
        SecretBytes(count: count) { fill($0, with: bytes, key: key) }
    }

    private static func fill(_ digest: UnsafeMutableRawBufferPointer, with bytes: [UInt8], key: SecretBytes) {
        key.withBytes { key in bytes.withUnsafeBytes { fill(digest, with: $0, key: key) } }
    }
}
