/// A grip on an operation that was added: its state, its events, its output.
///
/// Dropping a handle cancels nothing. A handle keeps the output alive.
public struct OperationHandle<Output: Sendable>: OperationReference {
    let record: TypedOperationRecord<Output>

    /// The operation, whose failure fails whoever depends on it.
    public var dependency: OperationDependency { OperationDependency(record: record, policy: .mustSucceed) }

    /// The output, once the operation has finished and its ending phase is over.
    ///
    /// Throws the error the operation failed with, or `CancellationError` if it was cancelled; the latter also if the
    /// task that waits is cancelled, which leaves the operation alone.
    public var value: Output {
        get async throws {
            try await record.waitUntilEnded()
            return try record.finalResult.get()
        }
    }

    /// How the operation ended, once it has.
    ///
    /// If the task that waits is cancelled, this is a failure with `CancellationError` and says nothing of the operation.
    public var result: Result<Output, any Error> {
        get async {
            do {
                return .success(try await value)
            } catch {
                return .failure(error)
            }
        }
    }

    /// How the operation ended, once it has: waits for the end even if the task that waits is cancelled.
    package var resultAtEnd: Result<Output, any Error> {
        get async {
            await record.waitForEnd()
            return record.finalResult
        }
    }

    /// What happens to the operation from now on: a sequence of its own for every call.
    ///
    /// The buffer is bounded: a slow reader misses progress, never the end.
    public var events: AsyncStream<OperationEvent> { record.makeEvents() }

    /// Adds, to the same supervisor, an operation that is made from this one's output once it has finished.
    ///
    /// If this operation fails the next one fails with the same error, if it's cancelled so is the next.
    ///
    /// - Parameters:
    ///   - options: Name, priority and what else is said of the next operation.
    ///   - make: Makes the next operation; an error that it throws fails the next operation.
    /// - Returns: The next operation's handle.
    @discardableResult
    public func then<Next: Operation>(
        options: OperationOptions? = nil,
        _ make: @escaping @Sendable (Output) throws -> Next
    ) -> OperationHandle<Next.Output> {
        let upstream = record
        let next = WorkRecord<Next>(options: options, core: upstream.core) { try make(upstream.finalResult.get()) }
        upstream.core.add(next, after: [dependency])
        return OperationHandle<Next.Output>(record: next)
    }
}
