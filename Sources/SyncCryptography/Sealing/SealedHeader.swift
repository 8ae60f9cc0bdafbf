import ByteCoding
import ContentDigests
import Foundation

/// The first 104 bytes of a sealed file, which the article <doc:Formats> describes.
struct SealedHeader: Sendable {
    static let byteCount = checkOffset + checkBytes
    static let saltBytes = 32
    static let checkBytes = 32

    private static let checkOffset = 72

    let chunkExponent: UInt8
    let compression: UInt8
    let epoch: UUID
    /// The random salt that gives the file its own key.
    let salt: [UInt8]

    var chunkSize: Int { 1 << Int(chunkExponent) }

    /// Reads a header.
    ///
    /// - Parameter bytes: The file's first 104 bytes; the whole file if it's shorter.
    /// - Returns: The header and the key check at its end.
    /// - Throws: ``CryptographyError/Code/truncated``, ``CryptographyError/Code/unsupportedFormat`` or
    ///   ``CryptographyError/Code/tampered``.
    static func read(_ bytes: [UInt8]) throws(CryptographyError) -> (header: SealedHeader, check: [UInt8]) {
        var fields = try FileMagic.sealed.fields(of: bytes, "A sealed file", orThrow: .truncated)
        guard bytes.count == byteCount else { throw .truncated }
        let suite: UInt16 = fields.integer()
        let chunkExponent: UInt8 = fields.integer()
        let compression: UInt8 = fields.integer()
        let reserved: UInt16 = fields.integer()
        guard suite == KeyFile.suite, compression <= SealingOptions.Compression.zstd.number else {
            throw CryptographyError(
                .unsupportedFormat,
                "A sealed file uses a cipher suite or a compression that this program doesn't know. Update this program."
            )
        }
        guard SealingOptions.exponents.contains(chunkExponent), reserved == 0 else {
            throw .tampered("its header isn't in the form that this program writes")
        }
        let header = SealedHeader(
            chunkExponent: chunkExponent,
            compression: compression,
            epoch: UUID(bytes: fields.bytes(16)),
            salt: fields.bytes(saltBytes)
        )
        return (header, fields.bytes(checkBytes))
    }

    /// The header without the key check.
    var bytes: [UInt8] {
        FileMagic.sealed.start + KeyFile.suite.littleEndianBytes
            + [chunkExponent, compression, 0, 0] + epoch.bytes + salt
    }

    /// Returns the file's key for this header and a context, and the check that identifies the key.
    func key(_ masterKey: MasterKey, _ context: SealedContext) -> (key: SecretBytes, check: SecretBytes) {
        let both = Blake2b.secret(of: bytes + context.encoded, key: masterKey.bytes, count: 64)
        return both.divided(after: 32)
    }
}

extension SealedHeader {
    init(options: SealingOptions, epoch: UUID, salt: [UInt8]) {
        precondition(salt.count == Self.saltBytes, "a file's salt has \(Self.saltBytes) bytes, not \(salt.count)")
        self.init(
            chunkExponent: options.chunkExponent,
            compression: options.compression.number,
            epoch: epoch,
            salt: salt
        )
    }
}

extension CryptographyError {
    static let truncated = CryptographyError(
        .truncated,
        "A sealed file ends too early: it's damaged, or hasn't arrived completely. If it stays so, restore it from a backup."
    )

    static let extended = tampered("bytes follow its last chunk")

    /// Returns the error for a file that isn't what was sealed for its location.
    static func tampered(_ reason: String) -> CryptographyError {
        CryptographyError(
            .tampered,
            """
            A sealed file isn't what was sealed for its location: \(reason). It was changed, exchanged or damaged. Restore it \
            from a backup, or write it again from a device that has its content.
            """
        )
    }
}
