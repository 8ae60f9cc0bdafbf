import ByteCoding
import Foundation

@testable import SyncCryptography

/// A key, contexts and small sealed files.
enum Fixture {
    static let epoch = UUID(bytes: Array(0x10..<0x20))
    static let formerEpoch = UUID(bytes: Array(0x20..<0x30))

    static func key(_ seed: UInt8 = 7) throws -> EpochKey {
        EpochKey(
            master: try MasterKey(SecretBytes(copying: [UInt8](repeating: seed, count: 32))),
            epoch: epoch
        )
    }

    static let context = SealedContext(
        application: "org.example.notes",
        role: "store",
        document: "notes",
        integrityKey: "9C4E",
        client: "laptop",
        generation: 3,
        upload: "5B1F"
    )

    /// Contexts that differ from ``context`` in one field, or by a character that moved to another field.
    static var otherContexts: [SealedContext] {
        var contexts = [SealedContext](repeating: context, count: 12)
        contexts[0].application = "org.example.note"
        contexts[1].document = "other"
        contexts[2].client = "phone"
        contexts[3].role = "applied"
        contexts[4].generation = 2
        contexts[5].upload = "5B1E"
        contexts[6].generation = nil
        contexts[7].document = nil
        contexts[8].document = "notes9"
        contexts[8].integrityKey = "C4E"
        contexts[9].integrityKey = "9C4El"
        contexts[9].client = "aptop"
        contexts[10].integrityKey = "9C4F"
        contexts[11].integrityKey = nil
        return contexts
    }

    static let smallChunks = SealingOptions(chunkSize: 4096, compression: .zstd)
    static let smallRawChunks = SealingOptions(chunkSize: 4096, compression: .none)

    /// Returns the offsets at which the chunks of a sealed file begin, and the end of the last chunk.
    static func chunkOffsets(of sealed: [UInt8], with codec: ChunkCodec) throws -> [Int] {
        var offsets = [SealedHeader.byteCount]
        while let offset = offsets.last, offset < sealed.count {
            offsets.append(offset + (try ChunkRecord(sealed[offset...].prefix(4), in: codec.header)).byteCount)
        }
        return offsets
    }
}

/// Returns the error of a call if it's a `CryptographyError`.
func failure(_ body: () throws -> some Any) -> CryptographyError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? CryptographyError
    }
}
