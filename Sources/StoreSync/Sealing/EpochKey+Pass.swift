import ContentDigests
import RemoteStorage
import SyncCryptography
import ThreadSupport

extension EpochKey {
    /// Opens a sealed file in one pass, on all cores.
    ///
    /// - Parameters:
    ///   - content: The sealed file.
    ///   - context: The context that it must be sealed for.
    ///   - salt: The salt that it must have; `nil` if unknown.
    ///   - prefix: The part that was opened before; `content` starts after it.
    ///   - onChunk: Called with each chunk but the last, before `body` gets it; must not block.
    ///   - body: Reads the opened content to its end.
    /// - Returns: The summary of the pass.
    /// - Throws: What `body` throws, `CryptographyError`, and `CancellationError` if `body` didn't read to the end.
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
