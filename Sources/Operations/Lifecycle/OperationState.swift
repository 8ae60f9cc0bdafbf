/// Where an operation stands.
public enum OperationState: Sendable, Hashable {
    /// Added; what it depends on hasn't ended yet.
    case waiting
    /// It could start as soon as its supervisor has room.
    case ready
    /// Its `main` or one of its phases runs.
    case executing
    /// It waits for an answer from outside and has given its place to others.
    case paused
    /// `main` returned.
    case finished
    /// `main` threw, or something the operation depends on failed.
    case failed
    /// It was cancelled before the work was done.
    case cancelled

    /// Whether the operation has ended, in whatever way.
    public var isEnded: Bool {
        switch self {
        case .waiting, .ready, .executing, .paused: false
        case .finished, .failed, .cancelled: true
        }
    }
}
