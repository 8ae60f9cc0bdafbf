/// A record that knows the output: what handles hold.
class TypedOperationRecord<Output: Sendable>: OperationRecord, @unchecked Sendable {
    // Sendable: as in the superclass, but for `output`.
    /// Written by the run before its outcome shows, and read only if that is a good one.
    ///
    /// Boxed: the runtime looks a generic optional's layout up whenever it's made, set and destroyed, and most operations
    /// have no output to speak of.
    private final var output: OutputBox<Output>?

    /// Puts the output in place.
    final func keep(_ output: Output) {
        if Output.self == Void.self {
            self.output = unsafeDowncast(nothing, to: OutputBox<Output>.self)
        } else {
            self.output = OutputBox(output)
        }
    }

    /// What `main` returned, if it did.
    final var keptOutput: Output? { output?.value }

    /// How it ended; only to be asked once it has.
    final var finalResult: Result<Output, any Error> {
        let result: Result<Output, any Error>? = core.withBoard { _ in
            switch lifecycle.finalOutcome {
            case .finished: keptOutput.map { .success($0) }
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

/// What an operation returned.
private final class OutputBox<Output: Sendable>: Sendable {
    let value: Output
    init(_ value: Output) { self.value = value }
}

/// What an operation returned that returned nothing.
private let nothing = OutputBox<Void>(())

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
