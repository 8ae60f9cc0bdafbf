/// A handle on an operation that was added: its state, its events, its output.
///
/// Releasing a handle cancels nothing. A handle keeps the output alive.
public struct OperationHandle<Output: Sendable>: OperationReference {
    let record: TypedOperationRecord<Output>

    /// A dependency on the operation whose failure fails the dependent.
    public var dependency: OperationDependency { OperationDependency(record: record) }

    /// The output, once the operation has finished and its ending phase is over.
    ///
    /// Cancelling the waiting task doesn't affect the operation: see ``structuredValue``.
    ///
    /// - Throws: The error that the operation failed with; `CancellationError` if it or the waiting task was cancelled; an
    ///   ``OperationError`` of the code `wouldDeadlock` if the caller is an operation and the wait would never end.
    public var value: Output {
        get async throws {
            try await record.releasingSlot { try await record.waitUntilEndedOrCancelled() }
            return try record.finalResult.get()
        }
    }

    /// The operation's result, once it has ended.
    ///
    /// It is a failure with every error that ``value`` throws. If the waiting task is cancelled, or the wait would never end,
    /// it says nothing about the operation.
    public var result: Result<Output, any Error> {
        get async {
            do {
                return .success(try await value)
            } catch {
                return .failure(error)
            }
        }
    }

    /// The output, awaited as a child task's: cancelling the waiting task cancels the operation.
    ///
    /// ```swift
    /// async let page = supervisor.add(Page(1)).structuredValue
    /// ```
    ///
    /// Returns when the operation has finished and throws when it has ended otherwise, not before, also if the waiting task
    /// is cancelled. An operation that ``OperationOptions/coalescingKey`` gave several handles continues for the others.
    ///
    /// - Throws: The error that the operation failed with; `CancellationError` if it was cancelled; an ``OperationError`` of
    ///   the code `wouldDeadlock`, which doesn't affect the operation, if the caller is an operation and the wait would never
    ///   end.
    public var structuredValue: Output {
        get async throws {
            try await withTaskCancellationHandler {
                try await record.releasingSlot { await record.waitUntilEnded() }
                return try record.finalResult.get()
            } onCancel: {
                cancel()
            }
        }
    }

    /// Calls a closure with the operation's result once it has ended, for callers that can't await ``result``.
    ///
    /// See ``OperationReference/whenEnded(_:)`` for when and where it is called.
    ///
    /// ```swift
    /// page.whenEnded { result in log("page: \(result)") }
    /// ```
    ///
    /// - Parameter body: What to do with the result. It is released after the call.
    public func whenEnded(_ body: @escaping @Sendable (Result<Output, any Error>) -> Void) {
        record.whenEnded { [record] in body(record.finalResult) }
    }

    /// The operation's events from now on, in a new sequence for each access.
    ///
    /// It begins with `started` if the operation is executing or paused, or is just `ended` if it has ended. The events come
    /// in the order in which the supervisor decided them, whatever threads are involved.
    ///
    /// The buffer is bounded: a slow reader misses former events, never the end.
    public var events: AsyncStream<OperationEvent> { record.makeEvents() }

    /// Adds, to the same supervisor, an operation that is created from this one's output once this one has finished.
    ///
    /// If this operation fails, the next one fails with the same error. If it's cancelled, so is the next one. If the
    /// supervisor was released and holds operations back, the next one fails at once, because it would never start.
    ///
    /// - Parameters:
    ///   - options: Name, priority and the other options of the next operation. A coalescing key has no effect here.
    ///   - make: Creates the next operation; an error that it throws fails the next operation.
    /// - Returns: The next operation's handle.
    @discardableResult
    public func then<Next: Operation>(
        options: OperationOptions? = nil,
        _ make: @escaping @Sendable (Output) throws -> Next
    ) -> OperationHandle<Next.Output> {
        let upstream = record
        let next = WorkRecord<Next>(options: options, core: upstream.core) { try make(upstream.finalResult.get()) }
        next.madeExtras.inputs = [upstream.id]
        next.core.add(next, after: [dependency])
        return OperationHandle<Next.Output>(record: next)
    }
}
