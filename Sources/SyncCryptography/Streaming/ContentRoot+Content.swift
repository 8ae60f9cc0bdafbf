package import ContentDigests
import ThreadSupport

extension ContentRoot {
    /// Digests a file's content as it arrives, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of a block's size.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: Its length in bytes, and its root.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> (byteCount: Int64, root: ContentRoot) where Source.Element == [UInt8] {
        let digests = Locked<FileDigests?>(nil)
        let content = DigestedContent(source, pages, on: workers) { pass in digests.withLock { $0 = pass } }
        for try await _ in content {}
        guard let digests = digests.withLock({ $0 }) else { preconditionFailure("a whole pass has digests") }
        return (digests.byteCount, digests.root)
    }
}
