/// The key from which all keys of an application's epoch are derived: 32 random bytes.
///
/// A password only wraps it, in a ``KeyFile``; so another password means another key file, and no other file changes.
public struct MasterKey: Sendable, Equatable {
    /// How many bytes it has.
    public static let byteCount = 32

    /// The key's bytes, for a keychain.
    public let bytes: SecretBytes

    /// Makes a key.
    public init() {
        bytes = SecretBytes(randomCount: Self.byteCount)
    }

    /// Takes a key that was kept somewhere.
    ///
    /// - Parameter bytes: 32 bytes.
    /// - Throws: ``CryptographyError/Code/wrongKey`` if there are more or fewer.
    public init(_ bytes: SecretBytes) throws(CryptographyError) {
        guard bytes.count == Self.byteCount else {
            throw CryptographyError(
                .wrongKey,
                "What was kept as a master key has \(bytes.count) bytes, not \(Self.byteCount). Give the password again."
            )
        }
        self.bytes = bytes
    }

    /// Derives a key for another purpose than files.
    ///
    /// It's the 32-byte BLAKE2b, under this key, of: the 16 bytes of ASCII `storesync derive`, the label and the context, each of
    /// these two with its length in bytes before it, as 4 bytes, least significant first.
    ///
    /// - Parameters:
    ///   - label: What it's for; every purpose has its own.
    ///   - context: What exactly it's for.
    /// - Returns: 32 bytes.
    package func derivedKey(for label: String, context: [UInt8] = []) -> SecretBytes {
        let message =
            Array("storesync derive".utf8) + lengthPrefixed(Array(label.utf8)) + lengthPrefixed(context)
        return Blake2b.secret(of: message, key: bytes)
    }
}

/// `bytes` with their length before them, as 4 bytes.
func lengthPrefixed(_ bytes: [UInt8]) -> [UInt8] {
    UInt32(bytes.count).littleEndianBytes + bytes
}

extension MasterKey: CustomStringConvertible {
    /// Says nothing of it.
    public var description: String { "<a master key>" }
}
