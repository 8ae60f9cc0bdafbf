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
    ///   - body: Reads what is given to its end.
    /// - Returns: What the pass came to.
    /// - Throws: What `body` throws, `CryptographyError`, and `CancellationError` where the pass was left before its end.
    func pass(
        over content: RemoteContent,
        as context: SealedContext,
        salt: [UInt8]?,
        _ body: (OpenedContent<RemoteContent>) async throws -> Void
    ) async throws -> ContentSummary {
        let summary = Locked<ContentSummary?>(nil)
        try await SealingWorkers.withWorkers { workers in
            try await body(
                opening(content, as: context, salt: salt, on: workers) { pass in summary.withLock { $0 = pass } }
            )
        }
        guard let summary = summary.withLock({ $0 }) else { throw CancellationError() }
        return summary
    }
}
