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

    init(record: OperationRecord, policy: Policy = .mustSucceed) {
        self.record = record
        self.policy = policy
    }

    /// The dependency itself.
    public var dependency: OperationDependency { self }
}

extension OperationReference {
    /// A dependency on the operation's end, with any outcome.
    public var ending: OperationDependency { OperationDependency(record: dependency.record, policy: .ending) }
    /// The operation's identifier in this process.
    public var id: OperationID { dependency.record.id }
    /// Whether this refers to a handle that joined an operation, and not to the operation itself, until it has ended.
    package var isJoined: Bool {
        let record = dependency.record
        return record.core.withBoard { _ in record.extras?.target != nil }
    }
    /// The operation's name: the name in its options, or its type's name.
    public var name: String {
        let record = dependency.record
        return record.core.withBoard { _ in record.name }
    }
    /// The name of the operation's supervisor.
    public var supervisorName: String { dependency.record.core.environment.configuration.name }
    /// The user info in the operation's options.
    public var userInfo: [String: any Sendable] {
        let record = dependency.record
        return record.core.withBoard { _ in record.options.userInfo }
    }
    /// How urgent the operation is compared with other operations that could start.
    ///
    /// It can be changed at any time, and has an effect until the operation starts, and again when it resumes after a pause.
    /// An operation for which a more urgent one waits remains as urgent as that one. If the priority is lowered, the
    /// operations that this one waits for keep the priority that they inherited.
    public var priority: OperationPriority {
        get { dependency.record.declaredPriority }
        nonmutating set { dependency.record.declaredPriority = newValue }
    }
    /// The operation's current state.
    public var state: OperationState { dependency.record.state }
    /// The operation's current progress.
    public var progress: OperationProgress { dependency.record.progress }
    /// Whether the operation could start as soon as a slot is free.
    public var isReady: Bool { state == .ready }
    /// Whether the start phase or `main` runs; `false` while the operation is paused and in its ending phase.
    public var isExecuting: Bool { state == .executing }
    /// Whether the operation is ``OperationState/paused``.
    public var isPaused: Bool { state == .paused }
    /// Whether the outcome is decided: ``state`` tells which.
    ///
    /// The ending phase may still run; ``OperationHandle/value``, ``error`` and ``whenEnded(_:)`` wait for its end.
    public var isEnded: Bool { state.isEnded }
    /// Whether the operation ended as cancelled.
    ///
    /// This is `false` for an operation that finished in spite of a late cancellation.
    public var isCancelled: Bool { state == .cancelled }
    /// Whether the operation's cancellation was requested, also while it still runs.
    ///
    /// It stays `true` for an operation that finished in spite of that. ``state`` tells how the operation ended.
    public var isCancellationRequested: Bool {
        let record = dependency.record
        return record.core.withBoard { _ in
            record.isCancellationRequested || record.extras?.target?.isCancellationRequested == true
        }
    }
    /// The error that the operation failed with; a `CancellationError` if it was cancelled.
    ///
    /// `nil` until nothing of the operation runs any more, even if ``state`` is `failed` already.
    public var error: (any Error)? { dependency.record.finalFailure }

    /// The operations that must end before this one starts, and haven't ended, the oldest first.
    ///
    /// Empty for an operation that has started.
    public var dependencies: [OperationDependency] { dependency.record.dependencies }

    /// Makes the operation wait for another one, as if that had been named when this one was added.
    ///
    /// The other operation may have been added later, and may belong to another supervisor. If it has ended without success
    /// and must succeed, this operation ends the same way. An operation that coalescing gave several handles is one
    /// operation: the dependency applies to all of them.
    ///
    /// - Parameter other: `x` must succeed, `x.ending` only has to end.
    /// - Throws: An ``OperationError``: `alreadyStarted` if this operation has started or ended, `wouldDeadlock` if the other
    ///   one waits for this one, directly or not; the error names the operations of that cycle.
    public func addDependency(_ other: any OperationReference) throws {
        try dependency.record.addDependency(other.dependency)
    }

    /// Lets the operation start without waiting for another one.
    ///
    /// Has no effect if this operation has started, doesn't depend on the other one, or needs the other one's output because
    /// `then` or `combine` created it. The other operation keeps the priority that it inherited.
    ///
    /// - Parameter other: The operation; it makes no difference whether it must succeed.
    public func removeDependency(_ other: any OperationReference) {
        dependency.record.removeDependencies(on: other.dependency.record)
    }

    /// Calls a closure once the operation has ended, however it ends.
    ///
    /// It is called when nothing of the operation runs any more, exactly once, in the task or thread that ended the
    /// operation; at once, if the operation has ended already. It may call the supervisor, and must not block.
    ///
    /// - Parameter body: What to do then. It is released after the call.
    public func whenEnded(_ body: @escaping @Sendable () -> Void) { dependency.record.whenEnded(body) }

    /// Cancels the operation.
    ///
    /// This is safe at any time and any number of times.
    ///
    /// An operation that hasn't started ends at once. A running operation ends when its `main` responds.
    public func cancel() {
        let record = dependency.record
        record.core.cancel(record)
    }
}
