/// An operation that was added, without the type of its output: so that operations with different outputs fit in one
/// array, as in `after: [photo, upload.ending]`.
public protocol OperationReference: Sendable {
    /// The operation, and what its failure means to whoever depends on it.
    var dependency: OperationDependency { get }
}

/// A dependency on an operation, with the rule for the case that it doesn't end well.
public struct OperationDependency: OperationReference {
    /// What happens to the dependent if the operation doesn't finish.
    public enum Policy: Sendable, Hashable {
        /// A failure fails the dependent with the same error, a cancellation cancels it.
        case mustSucceed
        /// The dependent only waits for the end, whatever it is.
        case ending
    }

    let record: OperationRecord
    /// What happens to the dependent if the operation doesn't finish.
    public let policy: Policy

    /// The dependency itself.
    public var dependency: OperationDependency { self }
}

extension OperationReference {
    /// The same operation, of which only the end matters and not whether it is a good one.
    public var ending: OperationDependency { OperationDependency(record: dependency.record, policy: .ending) }
    /// The operation's identifier in this process.
    public var id: OperationID { dependency.record.id }
    /// The operation's name: the one it was added with, else its type's.
    public var name: String {
        let record = dependency.record
        return record.core.withBoard { _ in record.name }
    }
    /// What the operation was added with.
    public var userInfo: [String: any Sendable] {
        let record = dependency.record
        return record.core.withBoard { _ in record.options.userInfo }
    }
    /// Where the operation stands now.
    public var state: OperationState { dependency.record.state }
    /// How far it has come.
    public var progress: OperationProgress { dependency.record.progress }
    /// Whether it could start as soon as there is room.
    public var isReady: Bool { state == .ready }
    /// Whether its run has begun and not ended; a paused operation isn't executing.
    public var isExecuting: Bool { state == .executing }
    /// Whether it waits for an answer from outside.
    public var isPaused: Bool { state == .paused }
    /// Whether it has ended, in whatever way: ``state`` tells which.
    public var isFinished: Bool { state.isEnded }
    /// Whether it ended by being cancelled.
    ///
    /// Work that finished in spite of a late cancel is not.
    public var isCancelled: Bool { state == .cancelled }
    /// The error it failed with, once it has; a `CancellationError` if it was cancelled.
    public var error: (any Error)? { dependency.record.finalFailure }

    /// Asks for the operation's end.
    ///
    /// Safe at any time, and as often as one likes.
    ///
    /// Work that hasn't started ends at once; work that runs ends when its `main` notices.
    public func cancel() { dependency.record.cancel() }
}
