import Foundation
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// What has been transferred of a sealed file, so that the next transfer goes on where this one is cut off.
///
/// It's a file of this device's state. Nobody believes it: a chunk counts only if what it was made of, or what came of it,
/// still has the digest that was noted. Lost or outdated, it costs time. Of a file that isn't sealed no chunks are noted: it's
/// the same wherever it has the same digest.
final class TransferJournal: Sendable {
    /// What is transferred.
    struct Subject: Hashable, Sendable, Codable {
        /// The application's epoch, if it's encrypted.
        var epoch: UUID?
        var document: DocumentKey
        var integrityKey: String
        var client: String
        var upload: UploadReference
        /// What the upload builds on, the whole copy first.
        ///
        /// Where it's pulled, that has come; once the upload has too, it's the last of them.
        var bases: [UploadReference] = []
        /// The local store's path.
        var store: String
        /// The sealed file's salt; empty where it isn't sealed.
        var salt: [UInt8] = []
        /// The store's digest, in hexadecimal, where it isn't sealed.
        var contentRoot: String?
        /// Tells the attempts to push one upload from each other; `nil` where it's pulled.
        var attempt: UUID?
    }

    private let handle: FileHandle
    private let salt: [UInt8]
    private let headByteCount: Int
    /// What was noted and isn't in the file yet.
    private let pending = Locked<[(index: Int, chunk: NotedChunk)]>([])

    fileprivate init(_ handle: FileHandle, salt: [UInt8], headByteCount: Int) {
        self.handle = handle
        self.salt = salt
        self.headByteCount = headByteCount
    }

    /// Notes that a chunk is next to be transferred, and that none after it was.
    func note(_ chunk: NotedChunk, at index: Int) {
        pending.withLock { $0.append((index, chunk)) }
    }

    /// Whether more than the chunk that is being transferred isn't in the file.
    var isBehind: Bool { pending.withLock { $0.count > 1 } }

    /// Writes what was noted; what can't be written is transferred again.
    ///
    /// Blocks.
    func flush() {
        let noted = pending.withLock { pending in
            defer { pending = [] }
            return pending
        }
        for (index, chunk) in noted {
            let offset = UInt64(headByteCount + index * Self.entryByteCount)
            try? handle.truncate(atOffset: offset)
            try? handle.write(contentsOf: Self.entry(chunk, at: index, salt: salt))
        }
    }

    private static let checksumByteCount = 8
    private static let entryByteCount = 32 + 4 + checksumByteCount

    private static func entry(_ chunk: NotedChunk, at index: Int, salt: [UInt8]) -> [UInt8] {
        let fields = chunk.digest + UInt32(chunk.sealedBytes).littleEndianBytes
        var hasher = ContentRootHasher()
        hasher.update(salt + UInt64(index).littleEndianBytes + fields)
        return fields + hasher.finalize().bytes.prefix(checksumByteCount)
    }
}

extension TransferJournal {
    /// Where a device keeps the journal of one transfer.
    struct File: Sendable {
        let url: URL

        private static let magic = Array("storesync chunks".utf8)
        private static let version: UInt16 = 1
        private static let headByteCount = 22
        private static let mostSubjectBytes = 1 << 16
        private static let mostBytes = 1 << 28

        /// What was noted last; `nil` if nothing was, or it can't be read.
        ///
        /// Blocks.
        func read() -> (subject: Subject, chunks: [NotedChunk])? {
            guard let size = try? url.resourceValues(forKeys: [.fileSizeKey]).fileSize, size <= Self.mostBytes,
                let bytes = try? Array(Data(contentsOf: url)), bytes.count >= Self.headByteCount
            else { return nil }
            var fields = FieldReader(bytes[...])
            guard fields.bytes(Self.magic.count) == Self.magic, fields.integer(UInt16.self) == Self.version else {
                return nil
            }
            let subjectBytes = Int(fields.integer(UInt32.self))
            guard subjectBytes <= min(bytes.count - Self.headByteCount, Self.mostSubjectBytes),
                let subject = try? JSONDecoder().decode(Subject.self, from: Data(fields.bytes(subjectBytes)))
            else { return nil }
            var chunks: [NotedChunk] = []
            // The last one may be torn.
            for start in stride(from: Self.headByteCount + subjectBytes, to: bytes.count, by: entryByteCount) {
                let entry = bytes[start...].prefix(entryByteCount)
                guard entry.count == entryByteCount else { break }
                var fields = FieldReader(entry)
                let chunk = NotedChunk(digest: fields.bytes(32), sealedBytes: Int(fields.integer(UInt32.self)))
                let expected = TransferJournal.entry(chunk, at: chunks.count, salt: subject.salt)
                guard entry.elementsEqual(expected) else { break }
                chunks.append(chunk)
            }
            return (subject, chunks)
        }

        /// Begins a journal, in the place of the last one.
        ///
        /// Blocks.
        ///
        /// - Parameters:
        ///   - subject: What is transferred.
        ///   - chunks: What was transferred before.
        /// - Returns: The journal.
        /// - Throws: What writing the file throws.
        func begin(_ subject: Subject, after chunks: some Collection<NotedChunk>) throws -> TransferJournal {
            let encoded = Array(try JSONEncoder().encode(subject))
            let head = Self.magic + Self.version.littleEndianBytes + UInt32(encoded.count).littleEndianBytes + encoded
            let entries = chunks.enumerated().flatMap { TransferJournal.entry($1, at: $0, salt: subject.salt) }
            try LocalFile.replace(url, with: [head, entries])
            let handle = try FileHandle(forWritingTo: url)
            return TransferJournal(handle, salt: subject.salt, headByteCount: head.count)
        }

        /// Forgets it, and the receipts, which are void without it.
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
        TransferJournal.File(url: file("transfers", document, ["push"], "chunks"))
    }

    /// The journal of the pull into a local store.
    func pullJournal(of path: String, in document: DocumentKey) -> TransferJournal.File {
        TransferJournal.File(url: file("transfers", document, ["pull", path], "chunks"))
    }

    /// Where the blocks of the store are remembered that was pushed last.
    func pushedBlocks(of document: DocumentKey) -> PushedBlocks.File {
        PushedBlocks.File(url: file("pushed", document, [], "blocks"))
    }

    /// A file of the state that is about a document.
    private func file(_ directory: String, _ document: DocumentKey, _ more: [String], _ suffix: String) -> URL {
        // Identifiers of storage hold characters that names can't.
        let parts = [document.application.remote, document.application.application, document.document] + more
        var hasher = ContentRootHasher()
        hasher.update(Array(parts.joined(separator: "\0").utf8))
        return url.appending(path: "\(directory)/\(hasher.finalize()).\(suffix)")
    }
}
