/// An operation that was added, without the type of its output.
///
/// Operations with different outputs fit in one array of references, as in `after: [photo, upload.ending]`.
public protocol OperationReference: Sendable {
    /// A dependency on the operation, with the effect that its failure has on the dependent.
    var dependency: OperationDependency { get }
}

/// A dependency on an operation, with the rule for the case that the operation fails or is cancelled.
public struct OperationDependency: OperationReference {
    /// What happens to the dependent if the operation fails or is cancelled.
    public enum Policy: Sendable, Hashable {
        /// A failure fails the dependent with the same error, a cancellation cancels it.
        case mustSucceed
        /// The dependent only waits for the end, with any outcome.
        case ending
    }

    let record: OperationRecord
    /// What happens to the dependent if the operation fails or is cancelled.
    public let policy: Policy

    /// The dependency itself.
    public var dependency: OperationDependency { self }
}

extension OperationReference {
    /// A dependency on the operation's end, with any outcome.
    public var ending: OperationDependency { OperationDependency(record: dependency.record, policy: .ending) }
    /// The operation's identifier in this process.
    public var id: OperationID { dependency.record.id }
    /// The operation's name: the name in its options, or its type's name.
    public var name: String {
        let record = dependency.record
        return record.core.withBoard { _ in record.name }
    }
    /// The user info in the operation's options.
    public var userInfo: [String: any Sendable] {
        let record = dependency.record
        return record.core.withBoard { _ in record.options.userInfo }
    }
    /// The operation's current state.
    public var state: OperationState { dependency.record.state }
    /// The operation's current progress.
    public var progress: OperationProgress { dependency.record.progress }
    /// Whether the operation could start as soon as a slot is free.
    public var isReady: Bool { state == .ready }
    /// Whether the operation's run has started and not ended; a paused operation isn't executing.
    public var isExecuting: Bool { state == .executing }
    /// Whether the operation waits for an answer from outside.
    public var isPaused: Bool { state == .paused }
    /// Whether the operation has ended, with any outcome: ``state`` tells which.
    public var isFinished: Bool { state.isEnded }
    /// Whether the operation ended as cancelled.
    ///
    /// This is `false` for an operation that finished in spite of a late cancellation.
    public var isCancelled: Bool { state == .cancelled }
    /// The error that the operation failed with, once it has; a `CancellationError` if it was cancelled.
    public var error: (any Error)? { dependency.record.finalFailure }

    /// Cancels the operation.
    ///
    /// This is safe at any time and any number of times.
    ///
    /// An operation that hasn't started ends at once. A running operation ends when its `main` responds.
    public func cancel() { dependency.record.cancel() }
}
