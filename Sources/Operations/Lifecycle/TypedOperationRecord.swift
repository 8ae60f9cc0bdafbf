/// A record with a typed output, which handles refer to.
class TypedOperationRecord<Output: Sendable>: OperationRecord, @unchecked Sendable {
    // Sendable: as in the superclass, except for `output`.
    /// The output, written by the run before its outcome is visible, and read only if the operation finished.
    final var output: Output?

    /// The operation's result, which may be read only once it has ended.
    final var finalResult: Result<Output, any Error> {
        let result: Result<Output, any Error>? = core.withBoard { _ in
            switch lifecycle.finalOutcome {
            case .finished: output.map { .success($0) }
            case .failed, .cancelled: .failure(failure ?? CancellationError())
            case nil: nil
            }
        }
        guard let result else {
            preconditionFailure("the result of operation \(id) was read while it is \(state)")
        }
        return result
    }

    final override func settleAsTarget() {
        guard let target = extras?.target as? TypedOperationRecord<Output> else {
            preconditionFailure("operation \(id) is to end like another operation, which hasn't ended")
        }
        failure = target.failure
        if failure == nil { output = target.output }
        if target.isCancellationRequested { updateLifecycle { _ = $0.cancel() } }
    }
}

/// The record of an operation that joined another one and ends as that does.
final class JoinedOperationRecord<Output: Sendable>: TypedOperationRecord<Output>, @unchecked Sendable {
    // Sendable: as in the superclass.
    init(_ target: TypedOperationRecord<Output>) {
        // Name and user info are copied, because the handle shows them also when it has released the target. It has no progress
        // units, because the operation counts once, and the lowest priority, because a higher one would raise the target's.
        let options = OperationOptions(
            name: target.name,
            priority: .veryLow,
            userInfo: target.options.userInfo,
            clientIdentifier: target.options.clientIdentifier,
            progressUnitCount: 0
        )
        super.init(options: options, core: target.core)
        madeExtras.target = target
    }
}

extension OperationLifecycle.Outcome {
    init(_ error: any Error) {
        self = error is CancellationError ? .cancelled : .failed
    }
}
