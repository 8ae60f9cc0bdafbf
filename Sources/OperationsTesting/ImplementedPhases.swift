public import Operations

/// A phase of an operation's run, each a method of `Operation`.
public enum OperationPhase: Sendable, Hashable, CaseIterable {
    /// `operationDidStart(_:)`.
    case start
    /// `operationDidMakeProgress(_:)`.
    case progress
    /// `operationDidComplete(_:)`.
    case completion
    /// `operationDidFail(_:)`.
    case failure
    /// `operationWasCancelled()`.
    case cancellation
}

/// The error that the failure phase is called with.
private struct Failure: Error {}

/// Returns the phases that an operation implements itself.
///
/// A phase with a misspelt name or a parameter of another type compiles and is never called, because the default
/// implementation, which does nothing, is called instead. One line in a test finds it:
///
/// ```swift
/// #expect(await phasesImplemented(by: Upload(file), output: 3) == [.start, .failure])
/// ```
///
/// Each phase is called once, with its real effects, on an operation created for that call. `main` isn't called.
///
/// - Parameters:
///   - operation: Creates the operation; evaluated for each phase.
///   - output: The argument for the completion phase.
/// - Returns: The phases for which the operation doesn't use the default implementation.
public func phasesImplemented<Work: Operation>(
    by operation: @autoclosure () -> Work,
    output: Work.Output
) async -> Set<OperationPhase> {
    var phases: Set<OperationPhase> = []
    for phase in OperationPhase.allCases {
        let operation = operation()
        let isDefault = await DefaultPhase.isCalled(by: operation) { context in
            switch phase {
            case .start: await operation.operationDidStart(context)
            case .progress: await operation.operationDidMakeProgress(OperationProgress(fractionCompleted: 0.5))
            case .completion: await operation.operationDidComplete(output)
            case .failure: await operation.operationDidFail(Failure())
            case .cancellation: await operation.operationWasCancelled()
            }
        }
        if !isDefault { phases.insert(phase) }
    }
    return phases
}

/// Returns the phases that an operation without an output implements itself.
///
/// - Parameter operation: Creates the operation; evaluated for each phase.
/// - Returns: The phases for which the operation doesn't use the default implementation.
public func phasesImplemented<Work: Operation<Void>>(
    by operation: @autoclosure () -> Work
) async -> Set<OperationPhase> {
    await phasesImplemented(by: operation(), output: ())
}
