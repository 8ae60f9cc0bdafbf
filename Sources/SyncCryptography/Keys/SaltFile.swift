public import Foundation

/// `Encryption/salt.ticdsync`: marks an application as encrypted, and holds a copy of its first password's salt.
///
/// Nothing is decided by its content: the salt that counts is the ``KeyFile``'s. The article <doc:Formats> says what is in
/// it.
public struct SaltFile: Sendable, Hashable {
    /// The file's bytes.
    public let bytes: [UInt8]
    /// The epoch of the application.
    public let epoch: UUID
    /// The salt, 16 bytes.
    public let salt: [UInt8]

    /// How many bytes a salt file has.
    public static let byteCount = checksumOffset + Blake2b.byteCount

    private static let checksumOffset = FileMagic.byteCount + 2 + 2 + 16 + Argon2id.saltBytes

    /// Makes the file that goes with a key file.
    public init(for keyFile: KeyFile) {
        epoch = keyFile.epoch
        salt = keyFile.salt
        let file =
            FileMagic.salt.bytes + UInt16(1).littleEndianBytes + UInt16(0).littleEndianBytes + epoch.bytes + salt
        bytes = file + Blake2b.digest(of: file)
    }

    /// Reads a salt file.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it isn't one of ours or a newer program's;
    ///   ``CryptographyError/Code/corrupt`` if it's torn or damaged.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        let corrupt = CryptographyError(
            .corrupt,
            "The salt file is damaged. Wait if it may still be arriving; else restore it from a backup."
        )
        try FileMagic.salt.check(bytes[...], "The salt file", torn: corrupt)
        guard bytes.count == Self.byteCount,
            Blake2b.digest(of: Array(bytes.prefix(Self.checksumOffset)))
                == Array(bytes.dropFirst(Self.checksumOffset))
        else { throw corrupt }
        var fields = FieldReader(bytes.dropFirst(FileMagic.byteCount + 2))
        guard fields.integer(UInt16.self) == 0 else { throw corrupt }
        epoch = UUID(bytes: fields.bytes(16))
        salt = fields.bytes(Argon2id.saltBytes)
        self.bytes = bytes
    }
}
