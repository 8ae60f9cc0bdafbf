/// An event of an operation, as ``OperationHandle/events`` reports it.
public enum OperationEvent: Sendable, Hashable {
    /// The operation's run has started.
    case started
    /// The operation has made progress. Values that come faster than they are read are skipped.
    case progress(OperationProgress)
    /// The operation is ``OperationState/paused``, for this reason.
    case paused(String)
    /// The operation has what it waited for, and runs again.
    case resumed
    /// The operation has reported no progress within its stall timeout.
    case stalled
    /// The operation has ended and nothing of it runs any more. The last event, never dropped.
    case ended(OperationState)
}
