import Operations
import RemoteStorage
import ThreadSupport

/// Counts the bytes of several files as one transfer and reports them.
final class TransferProgress: Sendable {
    /// The operation that transfers.
    let context: OperationContext
    private let phase: String
    private let total: Int64
    private let done = Locked<Int64>(0)

    init(_ context: OperationContext, phase: String, totalBytes: Int64) {
        self.context = context
        self.phase = phase
        total = totalBytes
        add(0)
    }

    func add(_ count: Int) {
        let done = done.withLock { done in
            done += Int64(count)
            return done
        }
        context.reportProgress(
            OperationProgress(completedUnitCount: min(done, total), totalUnitCount: total, phase: phase)
        )
    }
}

extension RemoteContent {
    /// The same bytes, counted as they pass.
    func counted(by progress: TransferProgress) -> RemoteContent {
        let content = self
        return RemoteContent(length: length) {
            var iterator = content.makeAsyncIterator()
            return {
                let chunk = try await iterator.next()
                if let chunk { progress.add(chunk.count) }
                return chunk
            }
        }
    }
}
