/// A handle on an operation that was added: its state, its events, its output.
///
/// Releasing a handle cancels nothing. A handle keeps the output alive.
public struct OperationHandle<Output: Sendable>: OperationReference {
    let record: TypedOperationRecord<Output>

    /// A dependency on the operation whose failure fails the dependent.
    public var dependency: OperationDependency { OperationDependency(record: record, policy: .mustSucceed) }

    /// The output, once the operation has finished and its ending phase is over.
    ///
    /// Throws the error that the operation failed with, or `CancellationError` if it was cancelled. Throws
    /// `CancellationError` also if the waiting task is cancelled, which doesn't affect the operation.
    public var value: Output {
        get async throws {
            try await record.waitUntilEnded()
            return try record.finalResult.get()
        }
    }

    /// The operation's result, once it has ended.
    ///
    /// If the waiting task is cancelled, this is a failure with `CancellationError` and says nothing about the operation.
    public var result: Result<Output, any Error> {
        get async {
            do {
                return .success(try await value)
            } catch {
                return .failure(error)
            }
        }
    }

    /// The operation's result, once it has ended, even if the waiting task is cancelled.
    package var resultAtEnd: Result<Output, any Error> {
        get async {
            await record.waitForEnd()
            return record.finalResult
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
    /// The buffer is bounded: a slow reader misses former events, never the end.
    public var events: AsyncStream<OperationEvent> { record.makeEvents() }

    /// Adds, to the same supervisor, an operation that is created from this one's output once this one has finished.
    ///
    /// If this operation fails, the next one fails with the same error. If it's cancelled, so is the next one.
    ///
    /// - Parameters:
    ///   - options: Name, priority and the other options of the next operation.
    ///   - make: Creates the next operation; an error that it throws fails the next operation.
    /// - Returns: The next operation's handle.
    @discardableResult
    public func then<Next: Operation>(
        options: OperationOptions? = nil,
        _ make: @escaping @Sendable (Output) throws -> Next
    ) -> OperationHandle<Next.Output> {
        let upstream = record
        let next = WorkRecord<Next>(options: options, core: upstream.core) { try make(upstream.finalResult.get()) }
        next.core.withBoard { _ in next.madeExtras.inputs = [upstream.id] }
        upstream.core.add(next, after: [dependency])
        return OperationHandle<Next.Output>(record: next)
    }
}
