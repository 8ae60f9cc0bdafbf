import ContentDigests
import FileSupport
import Foundation
import RemoteStorage
import SyncCryptography
import SystemPackage

/// The block digests of the store that this device last pushed for a document: the next push is compared with them.
///
/// It's a cache. If it's lost, damaged or outdated, the next push is a whole copy. It's used only if it names exactly
/// what the remote's manifest says.
struct PushedBlocks: Hashable, Sendable {
    /// The push that the blocks belong to.
    struct Subject: Hashable, Sendable, Codable {
        var epoch: UUID
        var document: DocumentKey
        var client: String
        /// The uploads that the push builds on, the whole copy first, and then the push itself.
        var uploads: [UploadReference]
        /// Digest of the store, in hexadecimal.
        var contentRoot: String
        /// The store's size in bytes.
        var byteCount: Int64
        /// How many bytes a block has.
        var blockSize: Int

        /// The names of the uploads that are valid.
        var names: [UploadName] {
            guard let client = try? RemoteIdentifier(client) else { return [] }
            return uploads.compactMap {
                UploadName(client: client, directoryName: "\($0.generation)-\($0.upload)")
            }
        }
    }

    var subject: Subject
    var digests: BlockDigests

    init(_ subject: Subject, _ digests: BlockDigests) {
        self.subject = subject
        self.digests = digests
    }
}

extension PushedBlocks.Subject {
    /// Creates the subject of a published manifest, or returns `nil` if the upload isn't sealed.
    init?(_ manifest: StoreManifest, _ document: DocumentKey, _ seal: ApplicationSeal, _ blocks: BlockDigests) {
        guard let key = seal.key else { return nil }
        self.init(
            epoch: key.epoch,
            document: document,
            client: manifest.name.client.rawValue,
            uploads: manifest.bases + [manifest.name.reference],
            contentRoot: manifest.store.contentRoot.description,
            byteCount: blocks.byteCount,
            blockSize: blocks.blockSize
        )
    }
}

extension PushedBlocks {
    /// The file in which a device keeps the blocks of one document.
    struct File: Sendable {
        let url: URL
    }
}

extension PushedBlocks.File {
    private static let head = StateFileHead("storesync blocks", version: 4)
    private static let checksumByteCount = Blake2b.byteCount
    private static let maximumBytes =
        head.maximumBytes + PageHash.keyedByteCount * Int(DeltaPolicy.maximumBlocks) + checksumByteCount

    /// Reads the blocks, or returns `nil` if the file doesn't exist or can't be read.
    ///
    /// The call blocks its thread.
    func read() -> PushedBlocks? {
        guard let file = try? OpenFile(path: url.path, O_RDONLY),
            let size = try? file.status().size, size <= Int64(Self.maximumBytes),
            let bytes = try? file.read(at: 0, upTo: Int(size))
        else { return nil }
        return Self.decode(bytes)
    }

    /// Writes the blocks; if that fails, the next push is a whole copy.
    ///
    /// The call blocks its thread.
    func write(_ blocks: PushedBlocks) {
        // If writing fails, the former content may stay: it names an older push, so it isn't used any more.
        try? LocalFile.replace(url, with: Self.encode(blocks))
    }

    /// The file's content, in pieces: a large store has tens of megabytes of digests.
    static func encode(_ blocks: PushedBlocks) throws -> [[UInt8]] {
        let pieces = [try head.encode(blocks.subject), blocks.digests.bytes]
        return pieces + [checksum(pieces)]
    }

    static func decode(_ bytes: [UInt8]) -> PushedBlocks? {
        let body = bytes.dropLast(checksumByteCount)
        guard let (subject, headByteCount) = head.decode(PushedBlocks.Subject.self, from: body) else { return nil }
        let pieces = [Array(body.prefix(headByteCount)), Array(body.dropFirst(headByteCount))]
        guard bytes.suffix(checksumByteCount) == checksum(pieces)[...],
            let digests = BlockDigests(
                blockSize: subject.blockSize,
                byteCount: subject.byteCount,
                bytes: pieces[1]
            )
        else { return nil }
        return PushedBlocks(subject, digests)
    }

    private static func checksum(_ pieces: [[UInt8]]) -> [UInt8] {
        Blake2b.digest(of: pieces.flatMap { Blake2b.digest(of: $0) })
    }
}
