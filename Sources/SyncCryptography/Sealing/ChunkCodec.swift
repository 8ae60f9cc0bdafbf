import ByteCoding
import ContentDigests

/// Seals and opens the chunks of one file, each independently of the others.
struct ChunkCodec: Sendable {
    let header: SealedHeader
    let key: SecretBytes
    /// The beginning of the sealed file: the header and the key check at its end.
    let start: [UInt8]
    let compression: SealingOptions.Compression

    /// Creates a codec to seal a file.
    init(
        sealing context: SealedContext,
        with key: EpochKey,
        options: SealingOptions
    ) {
        let salt = options.salt ?? Sodium.randomBytes(SealedHeader.saltBytes)
        header = SealedHeader(options: options, epoch: key.epoch, salt: salt)
        let (fileKey, check) = header.key(key.master, context)
        self.key = fileKey
        start = header.bytes + check.withBytes { Array($0) }
        compression = options.compression
    }

    /// Creates a codec to open a file.
    ///
    /// - Parameters:
    ///   - start: The file's first 104 bytes; the whole file if it's shorter.
    ///   - context: The context that the file must be sealed for.
    ///   - key: The key of the epoch that it must belong to.
    ///   - salt: Its salt, if that is known.
    /// - Throws: ``CryptographyError``, so that a file of another epoch or another context is refused before its chunks are read.
    init(
        opening start: [UInt8],
        as context: SealedContext,
        with key: EpochKey,
        salt: [UInt8]? = nil
    ) throws(CryptographyError) {
        let (header, written) = try SealedHeader.read(start)
        try key.check(epoch: header.epoch)
        let (fileKey, check) = header.key(key.master, context)
        guard check.isEqual(to: written), salt == nil || salt == header.salt else {
            throw .tampered("it was sealed for another location or with another key, or its header was changed")
        }
        self.header = header
        self.key = fileKey
        self.start = start
        compression = header.compression == 0 ? .none : .zstd
    }

    /// Returns the associated data of a chunk: its index, whether it's the last, and the form of its body.
    func associated(_ record: ChunkRecord, _ index: UInt64) -> [UInt8] {
        index.littleEndianBytes + record.word
    }

    /// Seals a chunk.
    ///
    /// - Parameters:
    ///   - plaintext: The chunk's bytes: exactly the chunk size, or fewer in the last chunk, which is empty only in an empty file.
    ///   - index: The chunk's index, from 0.
    ///   - isLast: Whether it's the last chunk.
    ///   - level: The level of zstd, 0 for no compression; the options' level if it's `nil`.
    ///   - workspace: The memory to work in.
    ///   - nonce: 24 bytes that were never used before; random except in tests.
    /// - Returns: The record to write to the file.
    func seal(
        _ plaintext: ArraySlice<UInt8>,
        index: UInt64,
        isLast: Bool,
        level: Int32? = nil,
        in workspace: ChunkWorkspace,
        nonce: [UInt8] = Sodium.randomBytes(XChaCha20Poly1305.nonceBytes)
    ) -> [UInt8] {
        precondition(
            isLast ? plaintext.count <= header.chunkSize : plaintext.count == header.chunkSize,
            "chunk \(index) can't have \(plaintext.count) bytes"
        )
        return plaintext.withUnsafeBytes { plaintext in
            let level = level ?? compression.level
            let compressed = level == 0 ? nil : workspace.compress(plaintext, level: level)
            let body = compressed ?? plaintext
            let record = ChunkRecord(bodyByteCount: body.count, isCompressed: compressed != nil, isLast: isLast)
            return [UInt8](unsafeUninitializedCapacity: record.byteCount) { buffer, initialized in
                let buffer = UnsafeMutableRawBufferPointer(buffer)
                buffer.copyBytes(from: record.word + nonce)
                XChaCha20Poly1305.seal(
                    body,
                    into: UnsafeMutableRawBufferPointer(
                        rebasing: buffer[ChunkRecord.headByteCount..<record.byteCount]
                    ),
                    nonce: nonce,
                    associated: associated(record, index),
                    key: key
                )
                initialized = record.byteCount
            }
        }
    }

    /// Opens a chunk.
    ///
    /// - Parameters:
    ///   - bytes: The whole record, as in the file.
    ///   - record: The fields of its word.
    ///   - index: The chunk's index, from 0.
    ///   - workspace: The memory to work in.
    /// - Returns: Its plaintext.
    /// - Throws: ``CryptographyError/Code/tampered`` unless the record was sealed as this chunk of this file.
    func open(
        _ bytes: ArraySlice<UInt8>,
        _ record: ChunkRecord,
        index: UInt64,
        in workspace: ChunkWorkspace
    ) throws(CryptographyError) -> [UInt8] {
        precondition(bytes.count == record.byteCount, "a record of \(bytes.count) bytes says \(record.byteCount)")
        let nonce = bytes.dropFirst(ChunkRecord.wordBytes).prefix(XChaCha20Poly1305.nonceBytes)
        let associated = associated(record, index)
        var isAuthentic = false
        let decrypt = { (plaintext: UnsafeMutableRawBufferPointer) in
            isAuthentic = bytes.dropFirst(ChunkRecord.headByteCount).withUnsafeBytes {
                XChaCha20Poly1305.open($0, into: plaintext, nonce: nonce, associated: associated, key: key)
            }
        }
        var plaintext: [UInt8]?
        if record.isCompressed {
            let compressed = workspace.scratch(record.bodyByteCount)
            decrypt(compressed)
            if isAuthentic { plaintext = decompressed(UnsafeRawBufferPointer(compressed), workspace) }
        } else {
            plaintext = [UInt8](unsafeUninitializedCapacity: record.bodyByteCount) { buffer, initialized in
                decrypt(UnsafeMutableRawBufferPointer(buffer))
                initialized = isAuthentic ? record.bodyByteCount : 0
            }
        }
        guard isAuthentic else {
            throw .tampered("chunk \(index) isn't authentic, or is at the wrong position")
        }
        guard let plaintext, record.isLast ? index == 0 || !plaintext.isEmpty : plaintext.count == header.chunkSize
        else { throw .tampered("chunk \(index) isn't in the form that this program writes") }
        return plaintext
    }

    private func decompressed(_ compressed: UnsafeRawBufferPointer, _ workspace: ChunkWorkspace) -> [UInt8]? {
        var count: Int?
        let plaintext = [UInt8](unsafeUninitializedCapacity: header.chunkSize) { buffer, initialized in
            // The output is limited to the chunk size, whatever size the compressed bytes announce.
            let room = UnsafeMutableRawBufferPointer(
                rebasing: UnsafeMutableRawBufferPointer(buffer)[..<header.chunkSize]
            )
            count = workspace.decompress(compressed, into: room)
            initialized = count ?? 0
        }
        return count == nil ? nil : plaintext
    }
}
