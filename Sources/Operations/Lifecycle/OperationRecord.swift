import Logging
import Synchronization
import ThreadSupport

/// What is known of one operation, whatever its output: the lifecycle, the progress, who waits and who listens.
///
/// Its lock is held for moments only, never while the scheduler's is taken, and continuations are resumed outside it.
class OperationRecord: @unchecked Sendable {
    // Sendable: everything that changes is in `shared`; the subclass keeps its payload under a lock of its own.
    let id: OperationID
    let options: OperationOptions
    let environment: OperationEnvironment
    /// The scheduler whose operation this is; none for an operation that runs alone.
    let scheduler: SchedulerCore?

    private let shared = Mutex(Shared())

    private struct Shared {
        var lifecycle = OperationLifecycle()
        var mailbox = ProgressMailbox()
        var observers: Observers?
        var run: OperationRun?
    }

    /// Those who want to know, made when the first of them comes.
    private final class Observers {
        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var nextWaiter: UInt64 = 0
        var listeners: [AsyncStream<OperationEvent>.Continuation] = []
        var endings: [@Sendable (OperationLifecycle.Outcome) -> Void] = []
    }

    init(options: OperationOptions, environment: OperationEnvironment, scheduler: SchedulerCore?) {
        id = .next()
        self.options = options
        self.environment = environment
        self.scheduler = scheduler
    }

    /// The name to show: the one that was given, else the operation's type.
    var name: String { options.name ?? typeName }

    // What only the subclass, which knows the output, can say and do.
    var typeName: String { preconditionFailure("\(#function) is the subclass's") }
    func execute() async { preconditionFailure("\(#function) is the subclass's") }
    func endWithoutRunning(_ error: any Error) { preconditionFailure("\(#function) is the subclass's") }
    var failure: (any Error)? { preconditionFailure("\(#function) is the subclass's") }
}

// MARK: - State

extension OperationRecord {
    var state: OperationState { shared.withLock { $0.lifecycle.publicState } }
    var finalOutcome: OperationLifecycle.Outcome? { shared.withLock { $0.lifecycle.finalOutcome } }
    var isCancellationRequested: Bool { shared.withLock { $0.lifecycle.isCancellationRequested } }
    var progress: OperationProgress { shared.withLock { $0.mailbox.current } }

    func becomeReady() {
        shared.withLock { $0.lifecycle.becomeReady() }
    }

    func begin(_ run: OperationRun) -> OperationLifecycle.BeginDecision {
        let (decision, listeners) = shared.withLock { shared in
            let decision = shared.lifecycle.begin()
            if decision == .run { shared.run = run }
            return (decision, shared.observers?.listeners ?? [])
        }
        if decision == .run { listeners.yield(.started) }
        return decision
    }

    /// Asks for the end.
    ///
    /// Safe at any time, as often as one likes.
    func cancel() {
        switch shared.withLock({ $0.lifecycle.cancel() }) {
        case .nothing: break
        case .withdraw: scheduler?.withdraw(self)
        case .interrupt: scheduler?.interrupt(self)
        }
    }

    func pause(_ reason: String) -> Bool {
        let (didPause, listeners) = shared.withLock { ($0.lifecycle.pause(), $0.observers?.listeners ?? []) }
        if didPause { listeners.yield(.paused(reason)) }
        return didPause
    }

    func resume() {
        let listeners = shared.withLock { shared in
            shared.lifecycle.resume()
            return shared.observers?.listeners ?? []
        }
        listeners.yield(.resumed)
    }

    /// `main` is over: the outcome shows from here on.
    func beginEnding(_ outcome: OperationLifecycle.Outcome) {
        shared.withLock { shared in
            shared.lifecycle.beginEnding(outcome)
            if outcome == .finished { shared.mailbox.complete() }
        }
    }

    /// Nothing of the operation runs any more: tells the scheduler first, then everybody else.
    func finishEnding(_ outcome: OperationLifecycle.Outcome) {
        let (observers, final) = shared.withLock { shared in
            shared.lifecycle.end(outcome)
            let observers = shared.observers
            shared.observers = nil
            shared.run = nil
            return (observers, shared.lifecycle.publicState)
        }
        scheduler?.ended(self, outcome)
        guard let observers else { return }
        for ending in observers.endings { ending(outcome) }
        for listener in observers.listeners {
            listener.yield(.ended(final))
            listener.finish()
        }
        for waiter in observers.waiters.values { waiter.resume() }
    }
}

// MARK: - Progress

extension OperationRecord {
    func report(_ progress: OperationProgress) {
        let (decision, current, listeners) = shared.withLock { shared in
            let decision = shared.mailbox.report(progress)
            // Started under the lock: a report that is accepted before the end has its pump before the end looks for one.
            if decision == .startPump { shared.run?.startPump() }
            return (decision, shared.mailbox.current, shared.observers?.listeners ?? [])
        }
        guard decision != .drop else {
            return WaitRegistry.note("operation \(id) (\(name)) reported progress after its main was over")
        }
        listeners.yield(.progress(current))
    }

    func takeProgress() -> OperationProgress? {
        shared.withLock { $0.mailbox.take() }
    }

    func closeProgress() {
        shared.withLock { $0.mailbox.close() }
    }
}

// MARK: - Waiting and listening

extension OperationRecord {
    /// Returns once nothing of the operation runs any more.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled; the operation isn't touched by that.
    func waitUntilEnded() async throws {
        let ticket: UInt64? = shared.withLock { shared in
            guard shared.lifecycle.finalOutcome == nil else { return nil }
            let observers = shared.observers ?? Observers()
            shared.observers = observers
            observers.nextWaiter += 1
            return observers.nextWaiter
        }
        guard let ticket else { return }
        try await waitCancellably(for: "the end of operation \(id) (\(name))") { continuation in
            shared.withLock { shared in
                guard shared.lifecycle.finalOutcome == nil else { return false }
                shared.observers?.waiters[ticket] = continuation
                return true
            }
        } remove: { [self] in
            shared.withLock { $0.observers?.waiters.removeValue(forKey: ticket) }
        }
    }

    /// Calls `body` with the outcome once the operation has ended, at once if it already has.
    func whenEnded(_ body: @escaping @Sendable (OperationLifecycle.Outcome) -> Void) {
        let outcome: OperationLifecycle.Outcome? = shared.withLock { shared in
            if let outcome = shared.lifecycle.finalOutcome { return outcome }
            let observers = shared.observers ?? Observers()
            shared.observers = observers
            observers.endings.append(body)
            return nil
        }
        if let outcome { body(outcome) }
    }

    /// A new sequence of the operation's events from now on, opened by what stands already.
    func makeEvents() -> AsyncStream<OperationEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: OperationEvent.self,
            bufferingPolicy: .bufferingNewest(16)
        )
        // Nobody reads the stream yet, so these yields only fill its buffer and may happen under the lock.
        shared.withLock { shared in
            let state = shared.lifecycle.publicState
            guard shared.lifecycle.finalOutcome == nil else {
                continuation.yield(.ended(state))
                continuation.finish()
                return
            }
            if state == .executing || state == .paused { continuation.yield(.started) }
            let observers = shared.observers ?? Observers()
            shared.observers = observers
            observers.listeners.append(continuation)
        }
        return stream
    }
}

extension [AsyncStream<OperationEvent>.Continuation] {
    fileprivate func yield(_ event: OperationEvent) {
        for listener in self { listener.yield(event) }
    }
}
