import ThreadSupport

/// One stay in the background with work to do: its grace and its assertion.
///
/// It ends once: with its last operation, with the grace, with the assertion or when the app comes back, whichever is
/// first.
final class BackgroundStay: Sendable {
    private struct State {
        var isOver = false
        var assertion: Int?
        var graceTask: Task<Void, Never>?
    }

    private let core: SchedulerCore
    private let provider: (any BackgroundActivityProvider)?
    private let state = Locked(State())

    init(_ core: SchedulerCore, _ provider: (any BackgroundActivityProvider)?) {
        self.core = core
        self.provider = provider
    }

    /// Starts the grace and takes the assertion.
    func begin(grace: Duration) async {
        startGrace(grace)
        guard let provider, !state.withLock({ $0.isOver }) else { return }
        let executor = core.environment.executor
        let assertion = await provider.beginActivity { [weak self] in
            Task.detached(executorPreference: executor) { await self?.expire() }
        }
        // The stay may have ended while the assertion was being taken.
        let isOver = state.withLock { state in
            if !state.isOver { state.assertion = assertion }
            return state.isOver
        }
        if isOver, let assertion { await provider.endActivity(assertion) }
    }

    private func startGrace(_ grace: Duration) {
        let clock = core.environment.clock
        let task = Task.detached(executorPreference: core.environment.executor) {
            // The stay's end cancels the task, which wakes it.
            guard (try? await clock.sleep(for: grace)) != nil else { return }
            // From here on the task isn't to be cancelled: it releases the assertion.
            self.state.withLock { $0.graceTask = nil }
            await self.expire()
        }
        let isOver = state.withLock { state in
            if !state.isOver { state.graceTask = task }
            return state.isOver
        }
        if isOver { task.cancel() }
    }

    /// Cancels what still runs or may start.
    private func expire() async {
        guard core.withBoard({ $0.leaveBackgroundWork(of: self) }) else { return }
        // The newest first, as in `cancelAll`.
        for record in core.records.reversed() where core.withBoard({ _ in record.continuesInBackground }) {
            record.cancel()
        }
        await end()
    }

    /// Ends the grace and releases the assertion, if there is one.
    func end() async {
        let (graceTask, assertion) = state.withLock { state in
            state.isOver = true
            return (state.graceTask.take(), state.assertion.take())
        }
        graceTask?.cancel()
        if let assertion { await provider?.endActivity(assertion) }
    }
}

/// What keeps a stay in the background going.
struct BackgroundWork {
    let stay: BackgroundStay
    /// The operations that run or may start, and haven't ended.
    var operations: Set<OperationID>
}

extension SchedulerBoard {
    /// Holds back what may not start in the background.
    ///
    /// - Returns: Whether the stay has begun: the app wasn't in the background, and there is work that continues.
    mutating func enterBackground(_ stay: BackgroundStay) -> Bool {
        guard !scheduler.isInBackground else { return false }
        scheduler.isInBackground = true
        let operations = records.lazy.compactMap { $0 }.filter(\.continuesInBackground).map(\.id)
        guard !operations.isEmpty else { return false }
        backgroundWork = BackgroundWork(stay: stay, operations: Set(operations))
        return true
    }

    /// The stay is about to end.
    ///
    /// - Returns: Whether it hadn't before.
    mutating func leaveBackgroundWork(of stay: BackgroundStay) -> Bool {
        guard backgroundWork?.stay === stay else { return false }
        backgroundWork = nil
        return true
    }

    /// An operation has ended: the last one that continued in the background ends the stay.
    mutating func leaveBackgroundWork(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard backgroundWork?.operations.remove(record.id) != nil, let work = backgroundWork, work.operations.isEmpty
        else { return }
        backgroundWork = nil
        actions.append(.endBackgroundStay(work.stay))
    }
}

extension OperationRecord {
    /// Under the scheduler's lock: whether the operation runs, its ending phase included, or may start in the background.
    fileprivate var continuesInBackground: Bool {
        lifecycle.finalOutcome == nil && (!lifecycle.isWaiting || options.mayContinueInBackground)
    }
}
