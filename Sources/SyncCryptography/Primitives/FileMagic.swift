import ByteCoding

/// The first 16 bytes of a file: its kind in ASCII, padded with zeros.
struct FileMagic: Sendable {
    static let byteCount = 16
    /// The size of the magic and of the version after it, in bytes.
    static let startByteCount = byteCount + 2
    /// The version of every format.
    private static let version: UInt16 = 1

    static let sealed = FileMagic("storesync sealed")
    static let key = FileMagic("storesync key")
    static let salt = FileMagic("storesync salt")
    static let epoch = FileMagic("storesync epoch")
    /// Begins no file, but the message of which the digest of a file's seals is taken.
    static let seals = FileMagic("storesync seals")

    let bytes: [UInt8]

    private init(_ text: String) {
        bytes = Array(text.utf8) + Array(repeating: 0, count: Self.byteCount - text.utf8.count)
    }

    /// The start of a file: this magic, and the version of its format.
    var start: [UInt8] { bytes + Self.version.littleEndianBytes }

    /// Returns the fields of a file that begins with this magic and a known version of its format.
    ///
    /// - Parameters:
    ///   - bytes: The file's first bytes; the whole file if it's short.
    ///   - name: What the file is called in an error.
    ///   - cutOff: The error for a file that ends within its start.
    /// - Returns: What follows the version.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat``, or `cutOff`.
    func fields(
        of bytes: [UInt8],
        _ name: String,
        orThrow cutOff: CryptographyError
    ) throws(CryptographyError) -> FieldReader {
        let start = bytes.prefix(Self.byteCount)
        guard start.elementsEqual(self.bytes.prefix(start.count)) else {
            throw CryptographyError(
                .unsupportedFormat,
                "\(name) wasn't written by this program. Make sure that it's the right path."
            )
        }
        guard bytes.count >= Self.startByteCount else { throw cutOff }
        var fields = FieldReader(bytes.dropFirst(Self.byteCount))
        let version: UInt16 = fields.integer()
        guard version == Self.version else {
            throw CryptographyError(
                .unsupportedFormat,
                "\(name) has version \(version) of its format, which this program doesn't know. Update this program."
            )
        }
        return fields
    }

    /// Returns the fields of a whole file of a fixed size, which begins with this magic and ends with its checksum.
    ///
    /// - Parameters:
    ///   - bytes: The file.
    ///   - name: What the file is called in an error.
    ///   - byteCount: The size of such a file, in bytes.
    ///   - corrupt: The error for a file that is incomplete or damaged.
    /// - Returns: The fields after the version, and the checksum.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat``, or `corrupt`.
    func fields(
        of bytes: [UInt8],
        _ name: String,
        byteCount: Int,
        orThrow corrupt: CryptographyError
    ) throws(CryptographyError) -> FieldReader {
        let fields = try fields(of: bytes, name, orThrow: corrupt)
        guard bytes.count == byteCount, Checksum.matches(bytes) else { throw corrupt }
        return fields
    }
}
