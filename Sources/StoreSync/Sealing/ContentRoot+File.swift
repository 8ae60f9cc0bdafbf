import ContentDigests
import Foundation
import RemoteStorage
import SyncCryptography

extension ContentRoot {
    /// Digests a file of this device, on all cores.
    ///
    /// - Parameters:
    ///   - url: The file.
    ///   - pages: How its pages are digested.
    ///   - executor: The executor that reads it.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What reading throws, or `CancellationError`.
    static func of(
        fileAt url: URL,
        _ pages: PageHash,
        on executor: (any TaskExecutor)?
    ) async throws -> (byteCount: Int64, root: ContentRoot) {
        let content = try await RemoteContent.file(at: url, executor: executor)
        return try await SealingWorkers.withWorkers { try await of(content, pages, on: $0) }
    }
}
