/// Seals and opens the chunks of one file, each independent of the others.
struct ChunkCodec: Sendable {
    let header: SealedHeader
    let key: SecretBytes
    /// The header and the key check at its end: what a sealed file begins with.
    let start: [UInt8]
    let compression: SealingOptions.Compression

    /// To seal a file.
    init(
        sealing context: SealedContext,
        with key: EpochKey,
        options: SealingOptions,
        salt: [UInt8] = Sodium.randomBytes(SealedHeader.saltBytes)
    ) {
        header = SealedHeader(options: options, epoch: key.epoch, salt: salt)
        let (fileKey, check) = header.key(key.master, context)
        self.key = fileKey
        start = header.bytes + check.withBytes { Array($0) }
        compression = options.compression
    }

    /// To open a file.
    ///
    /// - Parameters:
    ///   - start: The file's first 104 bytes; all of them, if it has fewer.
    ///   - context: What the file must be.
    ///   - key: The key of the epoch that it must belong to.
    ///   - salt: Its salt, where that is known.
    /// - Throws: ``CryptographyError``, so that nobody goes on with a file of another epoch or another place.
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
            throw .tampered("it was sealed for another place or with another key, or its header was changed")
        }
        self.header = header
        self.key = fileKey
        self.start = start
        compression = header.compression == 0 ? .none : .zstd
    }

    /// What is authenticated with a chunk besides its content: which one it is, whether it's the last, and its form.
    func associated(_ record: ChunkRecord, _ index: UInt64) -> [UInt8] {
        index.littleEndianBytes + record.word
    }

    /// Seals a chunk.
    ///
    /// - Parameters:
    ///   - plaintext: Exactly as many bytes as a chunk has; fewer in the last one, which is empty in an empty file only.
    ///   - index: How many chunks come before it.
    ///   - isLast: Whether none comes after it.
    ///   - level: How hard zstd tries; as the options say where it is `nil`.
    ///   - workspace: Memory to work in.
    ///   - nonce: 24 bytes, never used before; by chance, unless a test says otherwise.
    /// - Returns: The record that stands in the file.
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
            let compressed =
                compression == .none ? nil : workspace.compress(plaintext, level: level ?? compression.level)
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
    ///   - bytes: The record, whole, as it stands in the file.
    ///   - record: What its word says.
    ///   - index: How many chunks come before it.
    ///   - workspace: Memory to work in.
    /// - Returns: Its plaintext.
    /// - Throws: ``CryptographyError/Code/tampered`` unless exactly this was sealed as this chunk of this file.
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
            throw .tampered("chunk \(index) isn't authentic, or isn't in its place")
        }
        guard let plaintext, record.isLast ? index == 0 || !plaintext.isEmpty : plaintext.count == header.chunkSize
        else { throw .tampered("chunk \(index) wasn't written as this program writes") }
        return plaintext
    }

    private func decompressed(_ compressed: UnsafeRawBufferPointer, _ workspace: ChunkWorkspace) -> [UInt8]? {
        var count: Int?
        let plaintext = [UInt8](unsafeUninitializedCapacity: header.chunkSize) { buffer, initialized in
            // What comes out can't be larger than a chunk, whatever the compressed bytes announce.
            let room = UnsafeMutableRawBufferPointer(
                rebasing: UnsafeMutableRawBufferPointer(buffer)[..<header.chunkSize]
            )
            count = workspace.decompress(compressed, into: room)
            initialized = count ?? 0
        }
        return count == nil ? nil : plaintext
    }
}
