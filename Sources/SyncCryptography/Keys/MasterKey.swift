import ByteCoding
import ContentDigests

/// The key from which all keys of an application's epoch are derived: 32 random bytes.
///
/// A password only wraps it, in a ``KeyFile``. So another password changes the key file, and no other file.
public struct MasterKey: Sendable, Equatable {
    /// The size of a key, in bytes.
    public static let byteCount = 32

    /// The key's bytes, for a keychain.
    public let bytes: SecretBytes

    /// Creates a random key.
    public init() {
        bytes = SecretBytes(randomCount: Self.byteCount)
    }

    /// Restores a stored key.
    ///
    /// - Parameter bytes: 32 bytes.
    /// - Throws: ``CryptographyError/Code/wrongKey`` if there are more or fewer.
    public init(_ bytes: SecretBytes) throws(CryptographyError) {
        guard bytes.count == Self.byteCount else {
            throw CryptographyError(
                .wrongKey,
                "The stored master key has \(bytes.count) bytes, not \(Self.byteCount). Enter the password again."
            )
        }
        self.bytes = bytes
    }

    /// Derives a key for a purpose other than files.
    ///
    /// It's the 32-byte BLAKE2b, under this key, of: the 16 bytes of ASCII `storesync derive`, the label and the context, each of
    /// these two with its length in bytes before it, as 4 bytes, least significant first.
    ///
    /// - Parameters:
    ///   - label: The purpose; each purpose has its own label.
    ///   - context: The details of the purpose.
    /// - Returns: 32 bytes.
    package func derivedKey(for label: String, context: [UInt8] = []) -> SecretBytes {
        let message =
            Array("storesync derive".utf8) + lengthPrefixed(Array(label.utf8)) + lengthPrefixed(context)
        return Blake2b.secret(of: message, key: bytes)
    }
}

/// Returns `bytes` with their length before them, as 4 bytes.
func lengthPrefixed(_ bytes: [UInt8]) -> [UInt8] {
    UInt32(bytes.count).littleEndianBytes + bytes
}

extension MasterKey: CustomStringConvertible {
    /// A placeholder, which reveals nothing of the key.
    public var description: String { "<a master key>" }
}
