import Foundation
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// What the remote has acknowledged of a push, in a file beside the push's journal.
///
/// The file begins with the attempt of which the journal tells. Receipts of another attempt are void, since their bytes may
/// be sealed from another content than the journal's chunks. Nothing is lost with them but time.
final class TransferReceipts: WriteReceipts {
    private struct State {
        /// The attempt of which the journal tells.
        var attempt: UUID?
        /// Where receipts are added; `nil` before they are replaced, and after a failure.
        var handle: FileHandle?
    }

    private static let mostBytes = 1 << 22

    private let url: URL
    private let executor: (any TaskExecutor)?
    private let state: Locked<State>

    /// Creates the receipts of an attempt that may resume another one.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - attempt: The attempt of which the journal tells; `nil` if there is no journal.
    ///   - executor: Where the file is read and written.
    init(_ url: URL, of attempt: UUID?, on executor: (any TaskExecutor)?) {
        self.url = url
        self.executor = executor
        state = Locked(State(attempt: attempt))
    }

    /// Makes the former receipts void: from now on the journal tells of `attempt`.
    func begin(_ attempt: UUID) { state.withLock { $0 = State(attempt: attempt) } }

    func read() async -> [UInt8] {
        guard let attempt = state.withLock(\.attempt) else { return [] }
        let bytes = try? await runBlocking(on: executor) { [url] in
            let size = try url.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
            return size <= Self.mostBytes ? Array(try Data(contentsOf: url)) : []
        }
        guard let bytes, bytes.starts(with: attempt.bytes) else { return [] }
        return Array(bytes.dropFirst(attempt.bytes.count))
    }

    func replace(with bytes: [UInt8]) async {
        guard let attempt = state.withLock(\.attempt) else { return }
        let handle = try? await runBlocking(on: executor) { [url] in
            try LocalFile.replace(url, with: [attempt.bytes, bytes])
            let descriptor = open(url.path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
            guard descriptor >= 0 else { throw StoreSyncError(writing: url.path, errno: errno) }
            return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }
        state.withLock { $0.handle = handle }
    }

    func append(_ bytes: [UInt8]) async {
        guard let handle = state.withLock(\.handle) else { return }
        do {
            // One call to the system, so that receipts of parts that arrive at the same time don't mix.
            try await runBlocking(on: executor) { try handle.write(contentsOf: bytes) }
        } catch {
            state.withLock { $0.handle = nil }
        }
    }
}

extension UUID {
    fileprivate var bytes: [UInt8] { withUnsafeBytes(of: uuid) { Array($0) } }
}

extension TransferJournal.File {
    /// The receipts of the transfer.
    ///
    /// - Parameters:
    ///   - attempt: The attempt of which the journal tells; `nil` if there is no journal.
    ///   - executor: Where their file is read and written.
    /// - Returns: The receipts, of which those of another attempt don't count.
    func receipts(of attempt: UUID?, on executor: (any TaskExecutor)?) -> TransferReceipts {
        TransferReceipts(receiptsURL, of: attempt, on: executor)
    }

    /// Begins the journal of another attempt, in the place of the last one, whose receipts are void from then on.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - subject: What is transferred.
    ///   - chunks: What was transferred before.
    ///   - receipts: The transfer's receipts.
    /// - Returns: The journal.
    /// - Throws: What writing the file throws.
    func begin(
        _ subject: TransferJournal.Subject,
        after chunks: some Collection<NotedChunk>,
        _ receipts: TransferReceipts
    ) throws -> TransferJournal {
        var subject = subject
        let attempt = UUID()
        subject.attempt = attempt
        let journal = try begin(subject, after: chunks)
        receipts.begin(attempt)
        return journal
    }

    /// The file of the receipts.
    var receiptsURL: URL { url.deletingPathExtension().appendingPathExtension("receipts") }
}
