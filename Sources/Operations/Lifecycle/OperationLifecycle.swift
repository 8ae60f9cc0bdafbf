/// The life of one operation as a value: events in, what is to be done out.
///
/// No clock, no `await`, no side effect.
///
///     waiting ─▶ executing ⇄ paused ─▶ ending ─▶ ended
///
/// Whether waiting work is *ready* is the scheduler's to say. *Ending* means that the outcome stands, and shows, while the ending phase still runs; *ended* means that nothing of
/// the operation runs any more. Events that can only be a mistake in this module trap; those that are races (a cancel
/// that comes late, say) do nothing.
struct OperationLifecycle: Sendable {
    /// How an operation ended.
    enum Outcome: Sendable, Hashable {
        case finished, failed, cancelled
    }

    private enum State: Hashable {
        case waiting, executing, paused
        case ending(Outcome), ended(Outcome)
    }

    private var state = State.waiting

    /// Whether somebody asked for the end before it came.
    private(set) var isCancellationRequested = false

    /// Where the operation stands, as its handle shows it; `isReady` tells whether it could start.
    func publicState(isReady: Bool) -> OperationState {
        switch state {
        case .waiting: isReady ? .ready : .waiting
        case .executing: .executing
        case .paused: .paused
        case .ending(let outcome), .ended(let outcome): OperationState(outcome)
        }
    }

    /// Whether it hasn't started.
    var isWaiting: Bool { state == .waiting }

    /// Whether it has started and its `main` hasn't been left for good.
    var isUnderway: Bool { state == .executing || state == .paused }

    /// The outcome once nothing of the operation runs any more.
    var finalOutcome: Outcome? {
        guard case .ended(let outcome) = state else { return nil }
        return outcome
    }

    /// A worker takes the operation up.
    mutating func begin() {
        guard case .waiting = state else { preconditionFailure("an operation was begun while \(state)") }
        state = .executing
    }

    enum CancelDecision: Hashable { case nothing, withdraw, interrupt }

    /// Somebody cancels it.
    ///
    /// `withdraw` takes waiting work back from the scheduler, `interrupt` cancels the running task.
    mutating func cancel() -> CancelDecision {
        switch state {
        case .waiting:
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
    ///
    /// `false` if it was late: the work is over, and its ending phase runs.
    mutating func resume() -> Bool {
        guard state == .paused else { return false }
        state = .executing
        return true
    }

    /// `main` is over.
    mutating func beginEnding(_ outcome: Outcome) {
        switch state {
        case .executing, .paused: state = .ending(outcome)
        case .waiting, .ending, .ended: preconditionFailure("an operation came to its end while \(state)")
        }
    }

    /// Nothing of the operation runs any more; or it ends without having run.
    mutating func end(_ outcome: Outcome) {
        switch state {
        case .waiting, .ending(outcome): state = .ended(outcome)
        case .executing, .paused, .ending, .ended:
            preconditionFailure("an operation ended as \(outcome) while \(state)")
        }
    }

    /// The operation is written off while something of it still runs.
    ///
    /// Returns how it counts as ended: as it did if only its ending phase was left.
    mutating func abandon() -> Outcome {
        switch state {
        case .executing, .paused:
            state = .ended(.failed)
            return .failed
        case .ending(let outcome):
            state = .ended(outcome)
            return outcome
        case .waiting, .ended:
            preconditionFailure("an operation was abandoned while \(state)")
        }
    }
}

extension OperationState {
    init(_ outcome: OperationLifecycle.Outcome) {
        switch outcome {
        case .finished: self = .finished
        case .failed: self = .failed
        case .cancelled: self = .cancelled
        }
    }
}
