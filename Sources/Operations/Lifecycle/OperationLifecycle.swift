import Synchronization

/// The life of one operation as a value that turns events into decisions.
///
/// No clock, no `await`, no side effect.
///
///     waiting ─▶ executing ⇄ paused ─▶ ending ─▶ ended
///
/// The scheduler decides whether waiting work is *ready*. *Ending* means that the outcome is final and visible while the
/// ending phase still runs. *Ended* means that nothing of the operation runs any more, or that it was abandoned. Events that
/// can only come from a bug in this module trap. Events that lose a race (a late cancellation, for example) do nothing.
struct OperationLifecycle: Sendable {
    /// How an operation ended.
    enum Outcome: UInt8, Sendable {
        case finished, failed, cancelled
    }

    private enum State: UInt8 {
        case waiting, executing, paused, ending, ended
    }

    private var state = State.waiting
    /// The outcome, once the operation is ending.
    private var outcome = Outcome.finished

    /// Whether the operation was cancelled before it ended.
    private(set) var isCancellationRequested = false
    /// Whether the operation has extras, which the end of `main` has to consider.
    var hasExtras = false

    init() {}

    /// Returns the state that the operation's handle shows; `isReady` tells whether the operation could start.
    func publicState(isReady: Bool) -> OperationState {
        switch state {
        case .waiting: isReady ? .ready : .waiting
        case .executing: .executing
        case .paused: .paused
        case .ending, .ended: OperationState(outcome)
        }
    }

    /// Whether the operation hasn't started.
    var isWaiting: Bool { state == .waiting }

    /// Whether the operation has started and may still run `main`.
    var mayRunMain: Bool { state == .executing || state == .paused }

    /// Whether `main` or one of the phases runs.
    var runs: Bool { mayRunMain || state == .ending }

    /// Whether the operation runs `main`, and nothing but its outcome remains to be decided when `main` returns.
    var isUndisturbed: Bool { state == .executing && !isCancellationRequested && !hasExtras }

    /// The outcome once the operation has ended.
    var finalOutcome: Outcome? { state == .ended ? outcome : nil }

    /// Starts the operation on a worker.
    mutating func begin() {
        guard isWaiting else { preconditionFailure("an operation was started while \(state)") }
        state = .executing
    }

    enum CancelDecision { case nothing, withdraw, interrupt }

    /// Requests cancellation.
    ///
    /// `withdraw` removes waiting work from the scheduler, `interrupt` cancels the running task.
    mutating func cancel() -> CancelDecision {
        guard isWaiting || mayRunMain, !isCancellationRequested else { return .nothing }
        isCancellationRequested = true
        return isWaiting ? .withdraw : .interrupt
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
        guard mayRunMain else { preconditionFailure("an operation left main while \(state)") }
        (state, self.outcome) = (.ending, outcome)
    }

    /// Ends the operation: nothing of it runs any more, or it never ran.
    mutating func end(_ outcome: Outcome) {
        guard isWaiting || state == .ending && self.outcome == outcome else {
            preconditionFailure("an operation ended as \(outcome) while \(state) as \(self.outcome)")
        }
        (state, self.outcome) = (.ended, outcome)
    }

    /// Abandons the operation while it still runs.
    ///
    /// Returns the outcome: its own if only the ending phase still runs, else failed.
    mutating func abandon() -> Outcome {
        switch state {
        case .executing, .paused: outcome = .failed
        case .ending: break
        case .waiting, .ended: preconditionFailure("an operation was abandoned while \(state)")
        }
        state = .ended
        return outcome
    }
}

extension OperationLifecycle: RawRepresentable, AtomicRepresentable {
    var rawValue: UInt8 {
        state.rawValue | outcome.rawValue << 3 | (isCancellationRequested ? 1 << 5 : 0) | (hasExtras ? 1 << 6 : 0)
    }

    init?(rawValue: UInt8) {
        guard let state = State(rawValue: rawValue & 7), let outcome = Outcome(rawValue: rawValue >> 3 & 3) else {
            return nil
        }
        (self.state, self.outcome) = (state, outcome)
        isCancellationRequested = rawValue & 1 << 5 != 0
        hasExtras = rawValue & 1 << 6 != 0
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
