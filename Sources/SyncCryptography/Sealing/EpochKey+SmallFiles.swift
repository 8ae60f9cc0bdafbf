package import Foundation

extension EpochKey {
    /// Seals a small file in memory.
    ///
    /// - Parameters:
    ///   - bytes: The file's content.
    ///   - context: The file's context; it opens only with the same context.
    ///   - options: The chunk size and the compression.
    /// - Returns: The sealed file, which is different each time.
    public func seal(
        _ bytes: [UInt8],
        as context: SealedContext,
        options: SealingOptions = SealingOptions()
    ) -> [UInt8] {
        let codec = ChunkCodec(sealing: context, with: self, options: options)
        let workspace = ChunkWorkspace()
        var sealed = codec.start
        let overhead = (bytes.count / options.chunkSize + 1) * (ChunkRecord.wordBytes + ChunkRecord.sealBytes)
        sealed.reserveCapacity(sealed.count + bytes.count + overhead)
        var index: UInt64 = 0
        var rest = bytes[...]
        repeat {
            let chunk = rest.prefix(options.chunkSize)
            rest = rest.dropFirst(chunk.count)
            sealed += codec.seal(chunk, index: index, isLast: rest.isEmpty, in: workspace)
            index += 1
        } while !rest.isEmpty
        return sealed
    }

    /// Whether a file begins like a sealed file.
    package static func isSealed(_ bytes: [UInt8]) -> Bool { bytes.starts(with: FileMagic.sealed.bytes) }

    /// Whether a file that may not have fully arrived begins like a sealed file; an empty one does.
    package static func mayBeSealed(_ bytes: [UInt8]) -> Bool {
        FileMagic.sealed.bytes.starts(with: bytes.prefix(FileMagic.byteCount))
    }

    /// Returns the epoch in a sealed file's first bytes; `nil` if they aren't a sealed file's.
    package static func epoch(ofSealed start: [UInt8]) -> UUID? {
        try? SealedHeader.read(Array(start.prefix(sealedHeaderBytes))).header.epoch
    }

    /// The number of bytes before the first chunk of a sealed file: ``epoch(ofSealed:)`` needs them.
    package static var sealedHeaderBytes: Int { SealedHeader.byteCount }

    /// Opens a small file in memory.
    ///
    /// - Parameters:
    ///   - sealed: The sealed file, whole.
    ///   - context: The context that it must be sealed for.
    ///   - limit: The maximum size of its content: a compressed file can hold a thousand times its own size.
    /// - Returns: The whole content.
    /// - Throws: ``CryptographyError/Code/tampered``, ``CryptographyError/Code/truncated``, ``CryptographyError/Code/otherEpoch``,
    ///   ``CryptographyError/Code/unsupportedFormat`` or ``CryptographyError/Code/tooLarge``.
    public func open(
        _ sealed: [UInt8],
        as context: SealedContext,
        upTo limit: Int
    ) throws(CryptographyError) -> [UInt8] {
        let codec = try ChunkCodec(opening: Array(sealed.prefix(SealedHeader.byteCount)), as: context, with: self)
        let workspace = ChunkWorkspace()
        var opened: [UInt8] = []
        var index: UInt64 = 0
        var rest = sealed.dropFirst(SealedHeader.byteCount)
        while true {
            guard rest.count >= ChunkRecord.wordBytes else { throw .truncated }
            let record = try ChunkRecord(rest.prefix(ChunkRecord.wordBytes), in: codec.header)
            guard rest.count >= record.byteCount else { throw .truncated }
            let chunk = try codec.open(rest.prefix(record.byteCount), record, index: index, in: workspace)
            guard chunk.count <= limit - opened.count else {
                throw CryptographyError(
                    .tooLarge,
                    "A sealed file holds more than the expected maximum of \(limit) bytes. Another program may have written it."
                )
            }
            // The only chunk of most files isn't copied, and secrets are in such files.
            if opened.isEmpty { opened = chunk } else { opened += chunk }
            rest = rest.dropFirst(record.byteCount)
            index += 1
            if record.isLast { break }
        }
        guard rest.isEmpty else { throw .extended }
        return opened
    }
}
