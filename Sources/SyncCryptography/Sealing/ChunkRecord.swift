/// How a chunk begins in a sealed file: a word of 4 bytes, then the nonce, the ciphertext and its tag.
struct ChunkRecord: Hashable, Sendable {
    /// How many bytes the word and the nonce have.
    static let headByteCount = wordBytes + XChaCha20Poly1305.nonceBytes
    static let wordBytes = 4

    /// How many bytes the ciphertext has without its tag.
    let bodyByteCount: Int
    let isCompressed: Bool
    let isLast: Bool

    private static let lengths: UInt32 = 0x00FF_FFFF
    private static let compressed: UInt32 = 1 << 30
    private static let last: UInt32 = 1 << 31

    /// How many bytes the record has in all.
    var byteCount: Int { Self.headByteCount + bodyByteCount + XChaCha20Poly1305.tagBytes }

    init(bodyByteCount: Int, isCompressed: Bool, isLast: Bool) {
        self.bodyByteCount = bodyByteCount
        self.isCompressed = isCompressed
        self.isLast = isLast
    }

    /// Reads the word, refusing what no writer writes: so nobody reads on, or allocates, for what can't be authentic.
    init(_ word: ArraySlice<UInt8>, in header: SealedHeader) throws(CryptographyError) {
        let word = UInt32(littleEndianBytes: word)
        let length = Int(word & Self.lengths)
        let isCompressed = word & Self.compressed != 0
        let isLast = word & Self.last != 0
        let mayBeShort = isCompressed || isLast
        guard word & ~(Self.lengths | Self.compressed | Self.last) == 0,
            length <= header.chunkSize, mayBeShort || length == header.chunkSize,
            !isCompressed || (header.compression != 0 && (1..<header.chunkSize).contains(length))
        else { throw .tampered("a chunk has a length that can't be") }
        self.init(bodyByteCount: length, isCompressed: isCompressed, isLast: isLast)
    }

    /// The word's bytes.
    var word: [UInt8] {
        (UInt32(bodyByteCount) | (isCompressed ? Self.compressed : 0) | (isLast ? Self.last : 0)).littleEndianBytes
    }
}
