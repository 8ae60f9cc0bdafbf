/// An event of a supervisor, as ``OperationSupervisor/events`` reports it.
public enum SupervisorEvent: Sendable {
    /// This many operations haven't ended, not counting joined handles and abandoned operations.
    case count(Int)
    /// The supervisor was suspended, or resumed; by itself too, because of its restart intensity.
    case suspended(Bool)
    /// This many operations may run at once.
    case width(Int)
    /// The operation was added, or its state has changed.
    ///
    /// A state that has ended is the operation's last one: nothing of it runs any more.
    case operation(any OperationReference, OperationState)
}

extension OperationSupervisor {
    /// The supervisor's events from now on, in a new sequence for each access.
    ///
    /// It begins with the current values: the count, whether the supervisor is suspended, the width, and the state of each
    /// operation that hasn't ended, the oldest first. So a view of the operations is a dictionary that follows the sequence.
    /// For each operation, the states come in their order, and none follows the end.
    ///
    /// No event is dropped: read the sequence, or release it, because unread events take memory. It ends when the supervisor
    /// was released and its operations have ended.
    public nonisolated var events: AsyncStream<SupervisorEvent> { core.makeEvents() }

    /// The supervisor's progress from now on, in a new sequence for each access.
    ///
    /// It begins with the current progress. Values that come faster than they are read are skipped, except the last one. It
    /// ends when the supervisor was released and its operations have ended.
    public nonisolated var progressUpdates: some AsyncSequence<SupervisorProgress, Never> & Sendable {
        core.makeProgressUpdates()
    }
}
