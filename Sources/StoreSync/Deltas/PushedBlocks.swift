import Foundation
import RemoteStorage
import SyncCryptography

/// The blocks of the store that this device pushed last of a document: what the next push is compared with.
///
/// It's a cache. Lost, damaged or outdated, it costs a whole copy; nobody believes it unless it names exactly what the
/// remote's manifest says.
struct PushedBlocks: Hashable, Sendable {
    /// What it's the memory of.
    struct Subject: Hashable, Sendable, Codable {
        var epoch: UUID
        var document: DocumentKey
        var client: String
        /// The push, and before it those that it builds on, the whole copy first.
        var uploads: [UploadReference]
        /// Digest of the store, in hexadecimal.
        var contentRoot: String
        /// The store's size in bytes.
        var byteCount: Int64
        /// How many bytes a block has.
        var blockSize: Int
    }

    var subject: Subject
    var digests: BlockDigests

    init(_ subject: Subject, _ digests: BlockDigests) {
        self.subject = subject
        self.digests = digests
    }
}

extension PushedBlocks.Subject {
    /// What is remembered once `manifest` is published; `nil` if it isn't sealed.
    init?(_ manifest: StoreManifest, _ document: DocumentKey, _ seal: ApplicationSeal, _ blocks: BlockDigests) {
        guard let key = seal.key, let store = manifest[.store] else { return nil }
        self.init(
            epoch: key.epoch,
            document: document,
            client: manifest.name.client.rawValue,
            uploads: manifest.bases + [manifest.name.reference],
            contentRoot: store.contentRoot.description,
            byteCount: blocks.byteCount,
            blockSize: blocks.blockSize
        )
    }
}

extension PushedBlocks {
    /// Where a device keeps them, of one document.
    struct File: Sendable {
        let url: URL
    }
}

extension PushedBlocks.File {
    private static let magic = Array("storesync blocks".utf8)
    private static let version: UInt16 = 2
    private static let headByteCount = 22
    private static let checksumByteCount = 32
    private static let mostSubjectBytes = 1 << 16
    private static let mostBytes = 36 * Int(DeltaPolicy.mostBlocks) + mostSubjectBytes + (1 << 10)

    /// What is remembered; `nil` if nothing is, or it can't be read.
    ///
    /// Blocks.
    func read() -> PushedBlocks? {
        guard let size = try? url.resourceValues(forKeys: [.fileSizeKey]).fileSize, size <= Self.mostBytes,
            let data = try? Data(contentsOf: url)
        else { return nil }
        return Self.decode(Array(data))
    }

    /// Remembers; where that can't be done nothing is remembered.
    ///
    /// Blocks.
    func write(_ blocks: PushedBlocks) {
        // What it says of the push before isn't believed any more, so that may stay.
        try? LocalFile.replace(url, with: Self.encode(blocks))
    }

    /// The file's content, in pieces: there are some tens of megabytes of a large store.
    static func encode(_ blocks: PushedBlocks) throws -> [[UInt8]] {
        let subject = Array(try JSONEncoder().encode(blocks.subject))
        let head = magic + version.littleEndianBytes + UInt32(subject.count).littleEndianBytes + subject
        let fingerprints = blocks.digests.fingerprints
        let pieces = [head, blocks.digests.bytes, fingerprints?.key ?? [], fingerprints?.bytes ?? []]
        return pieces + [checksum(pieces)]
    }

    static func decode(_ bytes: [UInt8]) -> PushedBlocks? {
        let body = bytes.dropLast(checksumByteCount)
        guard body.count >= headByteCount, bytes.suffix(checksumByteCount).elementsEqual(checksum([Array(body)])) else {
            return nil
        }
        var fields = FieldReader(body)
        guard fields.bytes(magic.count) == magic, fields.integer(UInt16.self) == version else { return nil }
        let subjectBytes = Int(fields.integer(UInt32.self))
        guard subjectBytes <= min(body.count - headByteCount, mostSubjectBytes),
            let subject = try? JSONDecoder().decode(
                PushedBlocks.Subject.self,
                from: Data(fields.bytes(subjectBytes))
            ),
            let digestBytes = BlockDigests.byteCount(of: max(0, subject.byteCount), blockSize: subject.blockSize)
        else { return nil }
        let content = body.dropFirst(headByteCount + subjectBytes)
        let fingerprints = content.dropFirst(digestBytes)
        guard
            let digests = BlockDigests(
                blockSize: subject.blockSize,
                byteCount: subject.byteCount,
                bytes: Array(content.prefix(digestBytes)),
                fingerprints: fingerprints.isEmpty
                    ? nil
                    : (
                        Array(fingerprints.prefix(Fingerprints.keyBytes)),
                        Array(fingerprints.dropFirst(Fingerprints.keyBytes))
                    )
            )
        else { return nil }
        return PushedBlocks(subject, digests)
    }

    private static func checksum(_ pieces: [[UInt8]]) -> [UInt8] {
        var hasher = ContentRootHasher()
        for piece in pieces { hasher.update(piece) }
        return hasher.finalize().bytes
    }
}
