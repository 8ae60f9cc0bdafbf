package import ContentDigests
import ThreadSupport

extension ContentRoot {
    /// Digests a file's content while it's read, on all cores.
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
        let digests = try await FileDigests.of(source, blockSize: nil, pages, on: workers)
        return (digests.byteCount, digests.root)
    }
}

extension FileDigests {
    /// Digests a file's content while it's read, on all cores.
    ///
    /// - Parameters:
    ///   - source: The content, in pieces of any size; fastest with pieces of 1 MiB.
    ///   - blockSize: The size in bytes of the blocks to digest too; `nil` for none.
    ///   - pages: How its pages are digested.
    ///   - workers: The workers that digest.
    /// - Returns: The digests.
    /// - Throws: What the source throws, or `CancellationError`.
    package static func of<Source: AsyncSequence & Sendable>(
        _ source: Source,
        blockSize: Int?,
        _ pages: PageHash,
        on workers: SealingWorkers
    ) async throws -> FileDigests where Source.Element == [UInt8] {
        let digests = Locked<FileDigests?>(nil)
        var content = DigestedContent(source, pages, on: workers) { pass in digests.withLock { $0 = pass } }
        content.blockSize = blockSize
        for try await _ in content {}
        guard let digests = digests.withLock({ $0 }) else { preconditionFailure("a whole pass has digests") }
        return digests
    }
}
