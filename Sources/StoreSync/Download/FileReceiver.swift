import FileSupport
import Foundation
import Operations
import SystemPackage

/// Writes a download to a local file.
struct FileReceiver: Sendable {
    /// The file.
    let url: URL
    /// The operation on whose executor the file is written.
    let context: OperationContext
    /// The number of bytes that the file has already; at 0 it replaces an existing file.
    var start: Int64 = 0
    /// The size of the whole file, in bytes, if it's known: nothing is received after it is exceeded.
    var limit: Int64?
    /// Called when a chunk is written; may block.
    var afterChunk: @Sendable () -> Void = {}

    /// Receives the file, or what follows its first bytes.
    ///
    /// The file is durable when this returns. It may be longer than the limit, by a chunk. After a failure, the caller removes
    /// what is left.
    func receive<Content: AsyncSequence & Sendable>(
        _ content: Content
    ) async throws where Content.Element == [UInt8] {
        let file = try await context.blocking { try DownloadFile(at: url, after: start) }
        var byteCount = start
        for try await chunk in content {
            try Task.checkCancellation()
            try await context.blocking {
                try file.write(chunk)
                afterChunk()
            }
            byteCount += Int64(chunk.count)
            if let limit, byteCount > limit { break }
        }
        try await context.blocking { try file.finish() }
    }
}

extension StoreSyncError {
    /// The error of a download that another program removed, which downloads to the same store.
    static func downloadRemoved(_ path: String) -> StoreSyncError {
        StoreSyncError(
            .busy,
            "The download \(path) was removed by another program, which replaces that store, too. Try again."
        )
    }
}

/// A file that is being downloaded, with mode 0600 until it replaces another file.
private final class DownloadFile: Sendable {
    private let file: OpenFile
    private let path: String

    init(at url: URL, after start: Int64) throws {
        path = url.path
        // A file that can't be removed stays, so trying again doesn't help.
        if start == 0, unlink(path) != 0, errno != ENOENT { throw Self.failure(path, Errno(rawValue: errno)) }
        let creating = start == 0 ? O_CREAT | O_EXCL : O_APPEND
        do throws(Errno) {
            file = try OpenFile(path: path, O_WRONLY | O_NOFOLLOW | creating)
            try file.truncate(to: start)
        } catch {
            throw Self.failure(path, error)
        }
    }

    func write(_ chunk: [UInt8]) throws {
        do throws(Errno) { try file.write(chunk) } catch { throw Self.failure(path, error) }
        guard file.isAt(path) else { throw StoreSyncError.downloadRemoved(path) }
    }

    func finish() throws {
        do throws(Errno) { try file.synchronize() } catch { throw Self.failure(path, error) }
    }

    private static func failure(_ path: String, _ error: Errno) -> StoreSyncError {
        // Another program that downloads to this store removes what it takes for a former download, or creates its own file.
        if [.noSuchFileOrDirectory, .fileExists].contains(error) { return .downloadRemoved(path) }
        return StoreSyncError(
            .cannotWrite,
            "The download can't be written to \(path) on this device: \(error). Make room or check the permissions.",
            cause: error
        )
    }
}
