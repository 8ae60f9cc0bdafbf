/// The life of one operation as a value that turns events into decisions.
///
/// No clock, no `await`, no side effect.
///
///     waiting ─▶ executing ⇄ paused ─▶ ending ─▶ ended
///
/// The scheduler decides whether waiting work is *ready*. *Ending* means that the outcome is final and visible while the
/// ending phase still runs. *Ended* means that nothing of the operation runs any more. Events that can only come from a bug
/// in this module trap. Events that lose a race (a late cancellation, for example) do nothing.
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

    /// Whether the operation was cancelled before it ended.
    private(set) var isCancellationRequested = false

    /// Returns the state that the operation's handle shows; `isReady` tells whether the operation could start.
    func publicState(isReady: Bool) -> OperationState {
        switch state {
        case .waiting: isReady ? .ready : .waiting
        case .executing: .executing
        case .paused: .paused
        case .ending(let outcome), .ended(let outcome): OperationState(outcome)
        }
    }

    /// Whether the operation hasn't started.
    var isWaiting: Bool { state == .waiting }

    /// Whether the operation has started and may still run `main`.
    var isUnderway: Bool { state == .executing || state == .paused }

    /// The outcome once nothing of the operation runs any more.
    var finalOutcome: Outcome? {
        guard case .ended(let outcome) = state else { return nil }
        return outcome
    }

    /// Starts the operation on a worker.
    mutating func begin() {
        guard case .waiting = state else { preconditionFailure("an operation was started while \(state)") }
        state = .executing
    }

    enum CancelDecision: Hashable { case nothing, withdraw, interrupt }

    /// Requests cancellation.
    ///
    /// `withdraw` removes waiting work from the scheduler, `interrupt` cancels the running task.
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

    /// Pauses the operation, which waits for an answer from outside.
    ///
    /// Returns `false` if it isn't executing.
    mutating func pause() -> Bool {
        guard state == .executing else { return false }
        state = .paused
        return true
    }

    /// Resumes the operation after a pause.
    ///
    /// Returns `false` if `main` is over and the ending phase runs.
    mutating func resume() -> Bool {
        guard state == .paused else { return false }
        state = .executing
        return true
    }

    /// Sets the outcome when `main` is over.
    mutating func beginEnding(_ outcome: Outcome) {
        switch state {
        case .executing, .paused: state = .ending(outcome)
        case .waiting, .ending, .ended: preconditionFailure("an operation left main while \(state)")
        }
    }

    /// Ends the operation: nothing of it runs any more, or it never ran.
    mutating func end(_ outcome: Outcome) {
        switch state {
        case .waiting, .ending(outcome): state = .ended(outcome)
        case .executing, .paused, .ending, .ended:
            preconditionFailure("an operation ended as \(outcome) while \(state)")
        }
    }

    /// Abandons the operation while it still runs.
    ///
    /// Returns the outcome: its own if only the ending phase still runs, else failed.
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
