import Foundation

@testable import ByteCoding
@testable import ContentDigests
@testable import SyncCryptography

/// The parsers that `Tests/Fuzz` fuzzes, which shares this file.
///
/// The inputs that fuzzing finds are kept in `Resources/Corpus`, and the tests parse them again.
enum FuzzedParser: String, CaseIterable, Sendable {
    case chunk, chunks, keyFile, keyFileFields, password, saltFile, sealedFile, successorProof

    /// The fixed values that all parsers use; nothing is random.
    private enum Fixed {
        static let epoch = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
        static let secret = SecretBytes(copying: [UInt8](repeating: 3, count: 32))
        static let context = SealedContext(application: "fuzz", role: "fuzz")
        static let options: SealingOptions = {
            var options = SealingOptions(chunkSize: 4096, compression: .zstd)
            options.salt = [UInt8](repeating: 0, count: 32)
            return options
        }()

        static func key() throws -> EpochKey { EpochKey(master: try MasterKey(secret), epoch: epoch) }

        static func codec() throws -> ChunkCodec {
            ChunkCodec(sealing: context, with: try key(), options: options)
        }
    }

    /// Parses `bytes`, which may be anything.
    ///
    /// It may throw a typed error, but must neither crash nor return a value that violates the format.
    func parse(_ bytes: [UInt8]) {
        do {
            switch self {
            case .keyFile: try Self.check(KeyFile(bytes), bytes)
            case .keyFileFields: try Self.parseFields(bytes)
            case .saltFile:
                let file = try SaltFile(bytes)
                precondition(file.bytes == bytes && file.salt.count == 16)
            case .sealedFile: try Self.open(bytes)
            case .successorProof:
                let proof = try SuccessorProof(bytes)
                let isHeld = try proof.holds(for: Fixed.key(), registration: bytes)
                precondition(proof.bytes == bytes && !isHeld)
            case .chunks: try Self.open(Fixed.codec().start + bytes)
            case .chunk: try Self.parseChunk(bytes)
            case .password:
                let password = try Password(utf8: bytes)
                precondition((1...Password.maximumBytes).contains(password.bytes.count))
                // A normalized password doesn't change again, and a line end after it is dropped.
                let again = try password.bytes.withBytes { $0.last == 13 ? password : try Password(utf8: $0 + [10]) }
                precondition(again == password)
            }
        } catch {
            precondition(error is CryptographyError, "\(error)")
        }
    }

    private static func open(_ file: [UInt8]) throws {
        let opened = try Fixed.key().open(file, as: Fixed.context, upTo: 1 << 20)
        precondition(opened.count <= 1 << 20)
    }

    private static func check(_ file: KeyFile, _ bytes: [UInt8]) throws {
        precondition(file.bytes == bytes && file.salt.count == 16)
        let isProven = file.isProven(by: try MasterKey(Fixed.secret))
        precondition(!isProven)
        _ = try? file.unwrap(with: Fixed.secret)
        try file.parameters.validate()
        precondition((2...20).contains(file.parameters.passes) && file.parameters.memory <= 1 << 30)
    }

    /// Parses the fields of a key file with a corrected checksum.
    private static func parseFields(_ bytes: [UInt8]) throws {
        var file = FileMagic.key.bytes + UInt16(1).littleEndianBytes + bytes.prefix(214)
        file += [UInt8](repeating: 0, count: 232 - file.count)
        file += Blake2b.digest(of: file)
        try check(KeyFile(file), file)
    }

    /// Parses a chunk that a writer with the key sealed: first a byte of flags and the index, then the body.
    private static func parseChunk(_ bytes: [UInt8]) throws {
        guard let flags = bytes.first else { return }
        let body = Array(bytes.dropFirst().prefix(4096))
        let codec = try Fixed.codec()
        let word = ChunkRecord(bodyByteCount: body.count, isCompressed: flags & 1 != 0, isLast: flags & 2 != 0).word
        let record = try ChunkRecord(word[...], in: codec.header)
        let index = UInt64(flags >> 2)
        let sealed = codec.sealBody(body, record, index: index)
        let opened = try codec.open(sealed[...], record, index: index, in: ChunkWorkspace())
        precondition(opened.count <= 4096 && (record.isLast || opened.count == 4096))
        if !record.isCompressed { precondition(opened == body) }
    }
}

extension ChunkCodec {
    /// Seals a body that this module's writer wouldn't produce.
    func sealBody(_ body: [UInt8], _ record: ChunkRecord, index: UInt64) -> [UInt8] {
        let nonce = [UInt8](repeating: 9, count: 24)
        var sealed = [UInt8](repeating: 0, count: body.count + 16)
        body.withUnsafeBytes { body in
            sealed.withUnsafeMutableBytes { sealed in
                XChaCha20Poly1305.seal(
                    body,
                    into: sealed,
                    nonce: nonce,
                    associated: associated(record, index),
                    key: key
                )
            }
        }
        return record.word + nonce + sealed
    }
}
