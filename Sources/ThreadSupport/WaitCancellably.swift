/// Waits until the continuation is resumed, or the task is cancelled.
///
/// - Parameters:
///   - reason: What the task waits for, as a continuation of "waits for …". A simulation that is stuck reports it.
///   - enqueue: Stores the continuation, so that `remove` can find it, and returns `true`; or returns `false` if there is
///     nothing to wait for.
///   - remove: Removes and returns the continuation; `nil` if it isn't stored, because it was resumed or not stored yet.
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
                // The task may have been cancelled before the continuation was stored.
                if Task.isCancelled { cancel() }
            }
        } onCancel: {
            cancel()
        }
    }
}
