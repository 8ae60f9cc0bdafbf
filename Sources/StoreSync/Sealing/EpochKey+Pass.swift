import ContentDigests
import RemoteStorage
import SyncCryptography
import ThreadSupport

/// How a sealed file is opened.
struct FileOpening: Sendable {
    /// The context that it must be sealed for.
    let context: SealedContext
    /// The salt that it must have; `nil` if unknown.
    let salt: [UInt8]?
    /// The part that was opened before: the content starts after it.
    var prefix: OpenedPrefix?
    /// Called with each chunk but the last, before the reader gets it; must not block.
    var onChunk: (@Sendable (_ index: Int, NotedChunk) -> Void)?
}

extension EpochKey {
    /// Opens a sealed file in one pass, on all cores.
    ///
    /// - Parameters:
    ///   - content: The sealed file.
    ///   - opening: How it's opened.
    ///   - body: Reads the opened content to its end.
    /// - Returns: The summary of the pass.
    /// - Throws: What `body` throws, `CryptographyError`, and `CancellationError` if `body` didn't read to the end.
    func pass(
        over content: RemoteContent,
        _ opening: FileOpening,
        _ body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let summary = Locked<ContentSummary?>(nil)
        try await SealingWorkers.withWorkers { workers in
            var opened = self.opening(content, as: opening.context, salt: opening.salt, on: workers) { pass in
                summary.withLock { $0 = pass }
            }
            opened.prefix = opening.prefix
            opened.onChunk = opening.onChunk
            try await body(opened)
        }
        guard let summary = summary.withLock({ $0 }) else { throw CancellationError() }
        return summary
    }
}
