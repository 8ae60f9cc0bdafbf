/// A record that knows the output: what handles hold.
class TypedOperationRecord<Output: Sendable>: OperationRecord, @unchecked Sendable {
    // Sendable: as in the superclass.
    final var result: Result<Output, any Error>?

    /// How it ended; only to be asked once it has.
    final var finalResult: Result<Output, any Error> {
        let ended: Result<Output, any Error>? = core.withBoard { _ in result }
        guard let ended else { preconditionFailure("the result of operation \(id) was asked for while it is \(state)") }
        return ended
    }

    final override var failure: (any Error)? {
        guard case .failure(let error) = result else { return nil }
        return error
    }

    final override func settle(_ error: any Error) {
        result = .failure(error)
    }

    final override func settleAsTarget() -> OperationLifecycle.Outcome {
        guard let target = extras?.target as? TypedOperationRecord<Output>, let result = target.result else {
            preconditionFailure("operation \(id) is to end as another one that hasn't")
        }
        self.result = result
        return OperationLifecycle.Outcome(result)
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
    init<Output>(_ result: Result<Output, any Error>) {
        switch result {
        case .success: self = .finished
        case .failure(let error): self.init(error)
        }
    }

    init(_ error: any Error) {
        self = error is CancellationError ? .cancelled : .failed
    }
}
