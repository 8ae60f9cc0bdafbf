import SyncCryptography

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension [UInt8] {
    /// Overwrites the bytes, which held a secret, in a way that the compiler doesn't optimize away.
    mutating func wipe() {
        withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            #if canImport(Darwin)
            memset_s(start, bytes.count, 0, bytes.count)
            #else
            explicit_bzero(start, bytes.count)
            #endif
        }
    }
}

extension EpochKey {
    private static let options = SealingOptions(chunkSize: 1 << 16, compression: .none)

    /// Seals a secret, and leaves no copy of it in ordinary memory.
    func seal(_ secret: SecretBytes, as context: SealedContext) -> [UInt8] {
        var plain = secret.withBytes { Array($0) }
        defer { plain.wipe() }
        return seal(plain, as: context, options: Self.options)
    }

    /// Opens a secret.
    func openSecret(
        _ sealed: [UInt8],
        as context: SealedContext,
        upTo limit: Int
    ) throws(CryptographyError) -> SecretBytes {
        var plain = try open(sealed, as: context, upTo: limit)
        defer { plain.wipe() }
        return SecretBytes(copying: plain)
    }
}
