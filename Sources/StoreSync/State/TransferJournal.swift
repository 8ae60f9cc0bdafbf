import ByteCoding
import ContentDigests
import Foundation
import SyncCryptography
import ThreadSupport

/// The chunks of a file that have been transferred, so that the next transfer resumes an interrupted one.
///
/// It's a file of this device's state, and isn't trusted. A push resumes after a chunk only if the store's content still has the
/// noted digest there. A pull that has resumed checks the whole store. A lost or outdated journal costs only time. The pull of a
/// file that isn't sealed notes no chunks: it resumes after the bytes that have arrived.
final class TransferJournal: Sendable {
    /// What is transferred.
    struct Subject: Hashable, Sendable, Codable {
        /// The application's epoch, if it's encrypted.
        var epoch: UUID?
        var document: DocumentKey
        var integrityKey: String
        var client: String
        var upload: UploadReference
        /// The uploads that the upload builds on, the whole copy first.
        ///
        /// In a pull these have arrived; once the upload itself has arrived, it's the last of them.
        var bases: [UploadReference] = []
        /// The local store's path.
        var store: LocalPath
        /// The sealed file's salt; empty if the file isn't sealed.
        var salt: [UInt8] = []
        /// Identifies the attempt to push the upload; `nil` in a pull.
        var attempt: UUID?

        /// The size of a chunk's digest in the journal in bytes: only a push notes digests.
        fileprivate var digestByteCount: Int { attempt == nil ? 0 : Blake2b.byteCount }
        /// The size of a chunk's seal in the journal in bytes.
        fileprivate var sealByteCount: Int { salt.isEmpty ? 0 : NotedPrefix.sealBytes }
        fileprivate var entryByteCount: Int { digestByteCount + sealByteCount + 4 + checksumByteCount }
    }

    /// What a journal holds.
    struct Contents: Hashable, Sendable {
        let subject: Subject
        /// The chunks that were transferred, in order.
        let chunks: [NotedChunk]
    }

    private let handle: FileHandle
    private let subject: Subject
    private let headByteCount: Int
    /// The chunks that were noted and aren't in the file yet.
    private let pending = Locked<[(index: Int, chunk: NotedChunk)]>([])

    fileprivate init(_ handle: FileHandle, _ subject: Subject, headByteCount: Int) {
        self.handle = handle
        self.subject = subject
        self.headByteCount = headByteCount
    }

    /// Notes that a chunk is transferred next, and that no later chunk has been.
    func note(_ chunk: NotedChunk, at index: Int) {
        pending.withLock { $0.append((index, chunk)) }
    }

    /// Whether the file lacks more than the chunk that is being transferred.
    var isBehind: Bool { pending.withLock { $0.count > 1 } }

    /// Writes the noted chunks; a chunk that can't be written is transferred again.
    ///
    /// Blocks.
    func flush() {
        let noted = pending.withLock { pending in
            defer { pending = [] }
            return pending
        }
        for (index, chunk) in noted {
            let offset = UInt64(headByteCount + index * subject.entryByteCount)
            try? handle.truncate(atOffset: offset)
            try? handle.write(contentsOf: Self.entry(chunk, at: index, of: subject))
        }
    }

    private static let checksumByteCount = 8

    private static func entry(_ chunk: NotedChunk, at index: Int, of subject: Subject) -> [UInt8] {
        let fields = (chunk.digest ?? []) + chunk.seal + UInt32(chunk.storedBytes).littleEndianBytes
        precondition(
            fields.count + checksumByteCount == subject.entryByteCount,
            "a push notes digests, and a pull doesn't"
        )
        let checksum = ContentRoot.of(subject.salt + UInt64(index).littleEndianBytes + fields)
        return fields + checksum.bytes.prefix(checksumByteCount)
    }
}

extension TransferJournal {
    /// The file with the journal of one transfer.
    struct File: Sendable {
        let url: URL

        private static let head = StateFileHead("storesync chunks", version: 1)
        private static let maximumBytes = 1 << 28

        /// Reads the journal; `nil` if it doesn't exist or can't be read.
        ///
        /// Blocks.
        func read() -> Contents? {
            guard let size = try? url.resourceValues(forKeys: [.fileSizeKey]).fileSize, size <= Self.maximumBytes,
                let bytes = try? Array(Data(contentsOf: url)),
                let (subject, headByteCount) = Self.head.decode(Subject.self, from: bytes[...])
            else { return nil }
            var chunks: [NotedChunk] = []
            // The last entry may be a torn write.
            for start in stride(from: headByteCount, to: bytes.count, by: subject.entryByteCount) {
                let entry = bytes[start...].prefix(subject.entryByteCount)
                guard entry.count == subject.entryByteCount else { break }
                var fields = FieldReader(entry)
                let digest = subject.attempt.map { _ in fields.bytes(subject.digestByteCount) }
                let seal = fields.bytes(subject.sealByteCount)
                let chunk = NotedChunk(seal: seal, storedBytes: Int(fields.integer(UInt32.self)), digest: digest)
                let expected = TransferJournal.entry(chunk, at: chunks.count, of: subject)
                guard entry.elementsEqual(expected) else { break }
                chunks.append(chunk)
            }
            return Contents(subject: subject, chunks: chunks)
        }

        /// Begins a journal, which replaces the former one.
        ///
        /// Blocks.
        ///
        /// - Parameters:
        ///   - subject: What is transferred.
        ///   - chunks: The chunks that were transferred before.
        /// - Returns: The journal.
        /// - Throws: What writing the file throws.
        func begin(_ subject: Subject, after chunks: some Collection<NotedChunk>) throws -> TransferJournal {
            let head = try Self.head.encode(subject)
            let entries = chunks.enumerated().flatMap { TransferJournal.entry($1, at: $0, of: subject) }
            try LocalFile.replace(url, with: [head, entries])
            let handle = try FileHandle(forWritingTo: url)
            return TransferJournal(handle, subject, headByteCount: head.count)
        }

        /// Deletes the journal, and the receipts, which are void without it.
        ///
        /// Blocks.
        func remove() throws {
            guard unlink(url.path) == 0 || errno == ENOENT else {
                throw StoreSyncError(writing: url.path, errno: errno)
            }
            unlink(receiptsURL.path)
        }
    }
}

extension StateDirectory {
    /// The journal of the push of a document.
    func pushJournal(of document: DocumentKey) -> TransferJournal.File {
        TransferJournal.File(url: url.appending(path: "transfers/\(document.fileName("push")).chunks"))
    }

    /// The journal of the pull into a local store.
    func pullJournal(of path: LocalPath, in document: DocumentKey) -> TransferJournal.File {
        TransferJournal.File(url: url.appending(path: "transfers/\(document.fileName("pull", path.text)).chunks"))
    }

    /// The file with the blocks of the store that was pushed last.
    func pushedBlocks(of document: DocumentKey) -> PushedBlocks.File {
        PushedBlocks.File(url: url.appending(path: "pushed/\(document.fileName()).blocks"))
    }
}
