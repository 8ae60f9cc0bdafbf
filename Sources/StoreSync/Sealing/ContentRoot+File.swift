import ContentDigests
import Foundation
import ThreadSupport

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
        let snapshot = try await runBlocking(on: executor) { try StoreSnapshot(at: url, pages) }
        let digests = try await TakenStore.copied(snapshot).digests(withBlocks: false, on: executor)
        return (digests.byteCount, digests.root)
    }
}
