import ContentDigests

#if canImport(Clibsodium)
import Clibsodium
#else
import CSodium
#endif

/// Argon2id (RFC 9106) with one lane: libsodium's `crypto_pwhash`.
enum Argon2id {
    static let saltBytes = 16

    /// Hashes a password.
    ///
    /// Blocks; the parameters determine for how long.
    ///
    /// - Parameters:
    ///   - password: Its bytes.
    ///   - salt: 16 bytes.
    ///   - passes: The number of passes over the memory.
    ///   - memory: The memory, in bytes.
    ///   - count: The size of the key, in bytes.
    /// - Returns: The key.
    /// - Throws: ``CryptographyError/Code/outOfMemory``.
    static func hash(
        _ password: SecretBytes,
        salt: [UInt8],
        passes: Int,
        memory: Int,
        count: Int = 32
    ) throws(CryptographyError) -> SecretBytes {
        precondition(salt.count == saltBytes, "a salt has \(saltBytes) bytes, not \(salt.count)")
        var status: Int32 = 0
        let key = SecretBytes(count: count) { key in
            status = password.withBytes { password in
                crypto_pwhash(
                    key.start,
                    UInt64(key.count),
                    UnsafeRawPointer(password.start).assumingMemoryBound(to: CChar.self),
                    UInt64(password.count),
                    salt,
                    UInt64(passes),
                    memory,
                    crypto_pwhash_argon2id_alg_argon2id13()
                )
            }
        }
        guard status == 0 else {
            throw CryptographyError(
                .outOfMemory,
                "Checking the password takes \(memory >> 20) MiB of memory, which this system doesn't provide. Close other programs and try again."
            )
        }
        return key
    }
}
