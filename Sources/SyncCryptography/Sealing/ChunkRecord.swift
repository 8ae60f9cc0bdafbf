import ByteCoding

/// The layout of a chunk in a sealed file: a word of 4 bytes, then the nonce, the ciphertext and its tag.
struct ChunkRecord: Sendable {
    /// The size of the word and the nonce, in bytes.
    static let headByteCount = wordBytes + XChaCha20Poly1305.nonceBytes
    static let wordBytes = 4
    /// The size of a seal in bytes: a nonce and a tag.
    static let sealBytes = XChaCha20Poly1305.nonceBytes + XChaCha20Poly1305.tagBytes

    /// The size of the ciphertext without its tag, in bytes.
    let bodyByteCount: Int
    let isCompressed: Bool
    let isLast: Bool

    private static let lengths: UInt32 = 0x00FF_FFFF
    private static let compressed: UInt32 = 1 << 30
    private static let last: UInt32 = 1 << 31

    /// The size of the whole record, in bytes.
    var byteCount: Int { Self.headByteCount + bodyByteCount + XChaCha20Poly1305.tagBytes }

    init(bodyByteCount: Int, isCompressed: Bool, isLast: Bool) {
        self.bodyByteCount = bodyByteCount
        self.isCompressed = isCompressed
        self.isLast = isLast
    }

    /// Reads the word, and refuses values that no writer produces.
    ///
    /// So a reader doesn't read or allocate anything for a record that can't be authentic.
    init(_ word: ArraySlice<UInt8>, in header: SealedHeader) throws(CryptographyError) {
        let word = UInt32(littleEndianBytes: word)
        let length = Int(word & Self.lengths)
        let isCompressed = word & Self.compressed != 0
        let isLast = word & Self.last != 0
        let mayBeShort = isCompressed || isLast
        guard word & ~(Self.lengths | Self.compressed | Self.last) == 0,
            length <= header.chunkSize, mayBeShort || length == header.chunkSize,
            !isCompressed || (header.compression != 0 && (1..<header.chunkSize).contains(length))
        else { throw .tampered("a chunk has an impossible length") }
        self.init(bodyByteCount: length, isCompressed: isCompressed, isLast: isLast)
    }

    /// Returns the seal in a whole record: its nonce and its tag, which distinguish it from every other record of the file.
    static func seal(in record: [UInt8]) -> [UInt8] {
        Array(record[wordBytes..<headByteCount] + record.suffix(XChaCha20Poly1305.tagBytes))
    }

    /// The word's bytes.
    var word: [UInt8] {
        (UInt32(bodyByteCount) | (isCompressed ? Self.compressed : 0) | (isLast ? Self.last : 0)).littleEndianBytes
    }
}
