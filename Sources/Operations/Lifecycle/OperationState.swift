/// The state of an operation.
public enum OperationState: Sendable, Hashable {
    /// It was added, and something that it waits for hasn't ended.
    case waiting
    /// It could start as soon as a slot is free.
    case ready
    /// Its `main` or one of its phases runs.
    case executing
    /// It waits for an answer from outside and has released its slot.
    case paused
    /// `main` returned.
    case finished
    /// `main` threw, or an operation that it depends on failed.
    case failed
    /// It was cancelled before the work was done.
    case cancelled

    /// Whether the operation has ended, with any outcome.
    public var isEnded: Bool {
        switch self {
        case .waiting, .ready, .executing, .paused: false
        case .finished, .failed, .cancelled: true
        }
    }
}
