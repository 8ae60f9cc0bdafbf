import ByteCoding

/// The first 16 bytes of a file: its kind in ASCII, padded with zeros.
struct FileMagic: Hashable, Sendable {
    static let byteCount = 16

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

    /// Checks that a file begins with this magic, followed by a known version of its format.
    ///
    /// - Parameters:
    ///   - bytes: The file's first bytes; the whole file if it's short.
    ///   - name: What the file is called in an error.
    ///   - version: The known version.
    ///   - cutOff: The error for a file that ends within these 18 bytes.
    /// - Throws: ``CryptographyError/Code/unsupportedFormat``, or `cutOff`.
    func check(
        _ bytes: ArraySlice<UInt8>,
        _ name: String,
        version: UInt16 = 1,
        cutOff: CryptographyError
    ) throws(CryptographyError) {
        let start = bytes.prefix(Self.byteCount)
        guard start.elementsEqual(self.bytes.prefix(start.count)) else {
            throw CryptographyError(
                .unsupportedFormat,
                "\(name) wasn't written by this program. Make sure that it's the right path."
            )
        }
        guard bytes.count >= Self.byteCount + 2 else { throw cutOff }
        let written = UInt16(littleEndianBytes: bytes.dropFirst(Self.byteCount).prefix(2))
        guard written == version else {
            throw CryptographyError(
                .unsupportedFormat,
                "\(name) has version \(written) of its format, which this program doesn't know. Update this program."
            )
        }
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
        try check(bytes[...], name, cutOff: corrupt)
        guard bytes.count == byteCount, Checksum.matches(bytes) else { throw corrupt }
        return FieldReader(bytes.dropFirst(Self.byteCount + 2))
    }
}
