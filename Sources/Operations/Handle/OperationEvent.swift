/// What happens to an operation, as ``OperationHandle/events`` tells it.
public enum OperationEvent: Sendable, Hashable {
    /// Its run has begun.
    case started
    /// It has come further. Values that come faster than they are read are passed over.
    case progress(OperationProgress)
    /// It waits for an answer from outside.
    case paused(String)
    /// The answer has come.
    case resumed
    /// It has made no progress for longer than it may.
    case stalled
    /// Nothing of it runs any more. The last event, never dropped.
    case ended(OperationState)
}
