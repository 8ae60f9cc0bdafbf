import RemoteStorage
import SyncCryptography
import ThreadSupport

extension EpochKey {
    /// Opens a sealed file in one pass, on all cores.
    ///
    /// - Parameters:
    ///   - content: The sealed file.
    ///   - context: What it must be.
    ///   - salt: The salt that it must have, where that is known.
    ///   - prefix: What of it was opened before: `content` is what comes after that.
    ///   - onChunk: Is told of each chunk but the last before it's given; must not block.
    ///   - body: Reads what is given to its end.
    /// - Returns: What the pass came to.
    /// - Throws: What `body` throws, `CryptographyError`, and `CancellationError` where the pass was left before its end.
    func pass(
        over content: RemoteContent,
        as context: SealedContext,
        salt: [UInt8]?,
        after prefix: ChunkPrefix? = nil,
        onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)? = nil,
        _ body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let summary = Locked<ContentSummary?>(nil)
        try await SealingWorkers.withWorkers { workers in
            var opening = opening(content, as: context, salt: salt, on: workers) { pass in
                summary.withLock { $0 = pass }
            }
            opening.prefix = prefix
            opening.onChunk = onChunk
            try await body(opening)
        }
        guard let summary = summary.withLock({ $0 }) else { throw CancellationError() }
        return summary
    }
}
