/// A record that knows the output: what handles hold.
class TypedOperationRecord<Output: Sendable>: OperationRecord, @unchecked Sendable {
    // Sendable: as in the superclass, but for `output`.
    /// Written by the run before its outcome shows, and read only if that is a good one.
    final var output: Output?

    /// How it ended; only to be asked once it has.
    final var finalResult: Result<Output, any Error> {
        let result: Result<Output, any Error>? = core.withBoard { _ in
            switch lifecycle.finalOutcome {
            case .finished: output.map { .success($0) }
            case .failed, .cancelled: .failure(failure ?? CancellationError())
            case nil: nil
            }
        }
        guard let result else {
            preconditionFailure("the result of operation \(id) was asked for while it is \(state)")
        }
        return result
    }

    final override func settleAsTarget() -> OperationLifecycle.Outcome {
        guard let target = extras?.target as? TypedOperationRecord<Output> else {
            preconditionFailure("operation \(id) is to end as another one that hasn't")
        }
        failure = target.failure
        if let failure { return OperationLifecycle.Outcome(failure) }
        output = target.output
        return .finished
    }
}

/// The record of an operation that joined another one and ends as that does.
final class JoinedOperationRecord<Output: Sendable>: TypedOperationRecord<Output>, @unchecked Sendable {
    // Sendable: as in the superclass.
    init(_ target: TypedOperationRecord<Output>) {
        // Kept here because it outlives the tie to the target. The operation counts once.
        let options = OperationOptions(
            name: target.name,
            userInfo: target.options.userInfo,
            clientIdentifier: target.options.clientIdentifier,
            progressUnitCount: 0
        )
        super.init(options: options, core: target.core)
        madeExtras.target = target
    }

    override var typeName: String { String(describing: Output.self) }
    override func clear() -> AnyObject? { nil }
}

extension OperationLifecycle.Outcome {
    init(_ error: any Error) {
        self = error is CancellationError ? .cancelled : .failed
    }
}
