/// Waits until somebody resumes the continuation, or the task is cancelled.
///
/// - Parameters:
///   - reason: What is waited for, as "waits for …" goes on: a simulation that can't go on names it.
///   - enqueue: Keeps the continuation, to be found by `remove`, and returns `true`; or returns `false` if there is nothing
///     to wait for.
///   - remove: Takes the continuation back; `nil` if it isn't kept, because it was resumed or never came.
/// - Throws: `CancellationError` if the task was cancelled before the continuation was resumed.
package func waitCancellably(
    for reason: @autoclosure () -> String? = nil,
    enqueue: (CheckedContinuation<Void, any Error>) -> Bool,
    remove: @escaping @Sendable () -> CheckedContinuation<Void, any Error>?
) async throws {
    let cancel: @Sendable () -> Void = { remove()?.resume(throwing: CancellationError()) }
    try await WaitRegistry.waiting(for: reason(), cancel: cancel) {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard enqueue(continuation) else { return continuation.resume() }
                // The cancellation may have come when there was nothing to take back yet.
                if Task.isCancelled { cancel() }
            }
        } onCancel: {
            cancel()
        }
    }
}
