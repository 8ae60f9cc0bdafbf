/// The life of one operation as a value: events in, what is to be done out.
///
/// No clock, no `await`, no side effect.
///
///     waiting ─▶ ready ─▶ executing ⇄ paused ─▶ ending ─▶ ended
///
/// *Ending* means that the outcome stands, and shows, while the ending phase still runs; *ended* means that nothing of
/// the operation runs any more. Events that can only be a mistake in this module trap; those that are races (a cancel
/// that comes late, say) do nothing.
struct OperationLifecycle: Sendable {
    /// How an operation ended.
    enum Outcome: Sendable, Hashable {
        case finished, failed, cancelled
    }

    private enum State: Hashable {
        case waiting, ready, executing, paused
        case ending(Outcome), ended(Outcome)
    }

    private var state = State.waiting

    /// Whether somebody asked for the end before it came.
    private(set) var isCancellationRequested = false

    /// Where the operation stands, as its handle shows it.
    var publicState: OperationState {
        switch state {
        case .waiting: .waiting
        case .ready: .ready
        case .executing: .executing
        case .paused: .paused
        case .ending(.finished), .ended(.finished): .finished
        case .ending(.failed), .ended(.failed): .failed
        case .ending(.cancelled), .ended(.cancelled): .cancelled
        }
    }

    /// The outcome once nothing of the operation runs any more.
    var finalOutcome: Outcome? {
        guard case .ended(let outcome) = state else { return nil }
        return outcome
    }

    /// Everything it depends on has ended well.
    mutating func becomeReady() {
        guard state == .waiting else { return }
        state = .ready
    }

    enum BeginDecision: Hashable { case run, endAsCancelled }

    /// A worker takes the operation up.
    mutating func begin() -> BeginDecision {
        guard !isCancellationRequested else { return .endAsCancelled }
        switch state {
        case .waiting, .ready:
            state = .executing
            return .run
        case .executing, .paused, .ending, .ended:
            preconditionFailure("an operation was begun while \(state)")
        }
    }

    enum CancelDecision: Hashable { case nothing, withdraw, interrupt }

    /// Somebody cancels it.
    ///
    /// `withdraw` takes waiting work back from the scheduler, `interrupt` cancels the running task.
    mutating func cancel() -> CancelDecision {
        switch state {
        case .waiting, .ready:
            guard !isCancellationRequested else { return .nothing }
            isCancellationRequested = true
            return .withdraw
        case .executing, .paused:
            guard !isCancellationRequested else { return .nothing }
            isCancellationRequested = true
            return .interrupt
        case .ending, .ended:
            return .nothing
        }
    }

    /// The work waits for an answer from outside.
    ///
    /// `false` if it already does.
    mutating func pause() -> Bool {
        guard state == .executing else { return false }
        state = .paused
        return true
    }

    /// The answer has come.
    mutating func resume() {
        guard state == .paused else { return }
        state = .executing
    }

    /// `main` is over.
    mutating func beginEnding(_ outcome: Outcome) {
        switch state {
        case .executing, .paused: state = .ending(outcome)
        case .waiting, .ready, .ending, .ended: preconditionFailure("an operation came to its end while \(state)")
        }
    }

    /// Nothing of the operation runs any more; or it ends without having run.
    mutating func end(_ outcome: Outcome) {
        switch state {
        case .waiting, .ready, .ending(outcome): state = .ended(outcome)
        case .executing, .paused, .ending, .ended:
            preconditionFailure("an operation ended as \(outcome) while \(state)")
        }
    }
}
