import ByteCoding
public import Foundation

/// `Encryption/salt.ticdsync`: marks an application as encrypted, and holds a copy of its first password's salt.
///
/// Its content has no effect: the ``KeyFile`` holds the salt that is used. The article <doc:Formats> describes the format.
public struct SaltFile: Sendable, Hashable {
    /// The file's bytes.
    public let bytes: [UInt8]
    /// The epoch of the application.
    public let epoch: UUID
    /// The salt, 16 bytes.
    public let salt: [UInt8]

    /// The size of a salt file, in bytes.
    public static let byteCount = FileMagic.startByteCount + 2 + 16 + Argon2id.saltBytes + Checksum.byteCount

    /// Creates the salt file of a key file.
    public init(for keyFile: KeyFile) {
        epoch = keyFile.epoch
        salt = keyFile.salt
        bytes = Checksum.append(to: FileMagic.salt.start + [0, 0] + epoch.bytes + salt)
    }

    /// Reads a salt file.
    ///
    /// - Parameter bytes: The file.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat`` if it has another format or a newer version;
    ///   ``CryptographyError/Code/corrupt`` if it's incomplete or damaged.
    public init(_ bytes: [UInt8]) throws(CryptographyError) {
        let corrupt = CryptographyError(
            .corrupt,
            "The salt file is damaged. Wait if it may still be arriving. Otherwise restore it from a backup."
        )
        var fields = try FileMagic.salt.fields(of: bytes, "The salt file", byteCount: Self.byteCount, orThrow: corrupt)
        guard fields.integer(UInt16.self) == 0 else { throw corrupt }
        epoch = UUID(bytes: fields.bytes(16))
        salt = fields.bytes(Argon2id.saltBytes)
        self.bytes = bytes
    }
}
