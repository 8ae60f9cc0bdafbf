import ByteCoding
import ContentDigests
import Foundation
import RemoteStorage
import ThreadSupport

/// What the remote has acknowledged of a push, in a file beside the push's journal.
///
/// The file begins with the attempt that the journal names. Receipts of another attempt are void, since their bytes may
/// be sealed from other content than the journal's chunks. Losing receipts costs only time.
final class TransferReceipts: WriteReceipts {
    private struct State {
        /// The attempt that the journal names.
        var attempt: UUID?
        /// The file to append receipts to; `nil` before the first replacement, and after a failure.
        var handle: FileHandle?
    }

    private static let maximumBytes = 1 << 22

    private let url: URL
    private let executor: (any TaskExecutor)?
    private let state: Locked<State>

    /// Creates the receipts of an attempt that may resume another one.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - attempt: The attempt that the journal names; `nil` if there is no journal.
    ///   - executor: Runs the reads and writes of the file.
    init(_ url: URL, of attempt: UUID?, on executor: (any TaskExecutor)?) {
        self.url = url
        self.executor = executor
        state = Locked(State(attempt: attempt))
    }

    /// Makes the former receipts void: from now on the journal names `attempt`.
    func begin(_ attempt: UUID) { state.withLock { $0 = State(attempt: attempt) } }

    func read() async -> [UInt8] {
        guard let attempt = state.withLock(\.attempt) else { return [] }
        let bytes = try? await runBlocking(on: executor) { [url] in
            let size = try url.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
            return size <= Self.maximumBytes ? Array(try Data(contentsOf: url)) : []
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
            // One system call, so that receipts of parts that arrive at the same time don't mix.
            try await runBlocking(on: executor) { try handle.write(contentsOf: bytes) }
        } catch {
            state.withLock { $0.handle = nil }
        }
    }
}

extension TransferJournal.File {
    /// The receipts of the transfer.
    ///
    /// - Parameters:
    ///   - attempt: The attempt that the journal names; `nil` if there is no journal.
    ///   - executor: Runs the reads and writes of their file.
    /// - Returns: The receipts; those of another attempt are ignored.
    func receipts(of attempt: UUID?, on executor: (any TaskExecutor)?) -> TransferReceipts {
        TransferReceipts(receiptsURL, of: attempt, on: executor)
    }

    /// Begins the journal of another attempt, which replaces the former journal and makes its receipts void.
    ///
    /// Blocks.
    ///
    /// - Parameters:
    ///   - subject: What is transferred.
    ///   - chunks: The chunks that were transferred before.
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
