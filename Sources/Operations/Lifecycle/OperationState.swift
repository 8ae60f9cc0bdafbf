/// The state of an operation.
public enum OperationState: Sendable, Hashable {
    /// It was added, and something that it waits for hasn't ended.
    case waiting
    /// It could start as soon as a slot is free.
    case ready
    /// Its start phase or `main` runs.
    case executing
    /// It waits and has released its slot: for an answer, another operation, its children, room, or its next attempt.
    case paused
    /// `main` returned.
    case finished
    /// `main` or the factory threw, a dependency failed, or the supervisor refused, timed out or abandoned the operation.
    case failed
    /// It or a dependency was cancelled before the work was done, or `main` threw `CancellationError`.
    case cancelled

    /// Whether the outcome is decided; the ending phase may still run.
    public var isEnded: Bool {
        switch self {
        case .waiting, .ready, .executing, .paused: false
        case .finished, .failed, .cancelled: true
        }
    }
}
