import ThreadSupport

/// The grace period and the assertion of one stay in the background with work to do.
///
/// The stay ends exactly once: when its last operation ends, when the grace period or the assertion expires, or when the
/// app returns to the foreground.
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

    /// Starts the grace period and takes the assertion.
    func begin(grace: Duration) async {
        startGrace(grace)
        guard let provider, !state.withLock({ $0.isOver }) else { return }
        let executor = core.environment.configuration.executor
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
        let environment = core.environment
        state.withLock { state in
            guard !state.isOver else { return }
            // Created under the lock, so that the task is stored before the task itself removes it.
            state.graceTask = Task.detached(executorPreference: environment.configuration.executor) {
                // The stay's end cancels the task, which wakes it.
                guard (try? await environment.sleep(for: grace)) != nil else { return }
                // `end()` must not cancel this task any more, because the task itself releases the assertion.
                self.state.withLock { $0.graceTask = nil }
                await self.expire()
            }
        }
    }

    /// Cancels the operations that still run or may start.
    private func expire() async {
        // Chosen in the same step, or operations that start in the foreground right after it would be cancelled.
        let records = core.withBoard { board -> [OperationRecord]? in
            guard board.endBackgroundWork(of: self) else { return nil }
            return board.records.compactMap(\.self).filter(\.continuesInBackground)
        }
        guard let records else { return }
        core.cancel(records.sorted { $0.id < $1.id })
        await end()
    }

    /// Ends the grace period and releases the assertion, if there is one.
    func end() async {
        let (graceTask, assertion) = state.withLock { state in
            state.isOver = true
            return (state.graceTask.take(), state.assertion.take())
        }
        graceTask?.cancel()
        if let assertion { await provider?.endActivity(assertion) }
    }
}

/// A stay in the background and the operations that keep it alive.
struct BackgroundWork {
    let stay: BackgroundStay
    /// The operations that run or may start, and haven't ended.
    var operations: Set<OperationID>
}

extension SchedulerBoard {
    /// Holds back the operations that may not start in the background.
    ///
    /// - Returns: Whether the stay has begun: the app wasn't in the background, and some operations continue.
    mutating func enterBackground(_ stay: BackgroundStay) -> Bool {
        guard !scheduler.isInBackground else { return false }
        scheduler.isInBackground = true
        let operations = records.lazy.compactMap { $0 }.filter(\.continuesInBackground).map(\.id)
        guard !operations.isEmpty else { return false }
        backgroundWork = BackgroundWork(stay: stay, operations: Set(operations))
        return true
    }

    /// Marks the stay as over.
    ///
    /// - Returns: Whether this call did it; `false` if the stay was over before.
    mutating func endBackgroundWork(of stay: BackgroundStay) -> Bool {
        guard backgroundWork?.stay === stay else { return false }
        backgroundWork = nil
        return true
    }

    /// Removes an operation that has ended, and ends the stay with the last one.
    mutating func leaveBackgroundWork(_ record: OperationRecord) {
        guard backgroundWork?.operations.remove(record.id) != nil, let work = backgroundWork, work.operations.isEmpty
        else { return }
        backgroundWork = nil
        emit(
            .call { [environment] in
                Task.detached(executorPreference: environment.configuration.executor) { await work.stay.end() }
            }
        )
    }
}

extension OperationRecord {
    /// Whether the operation runs, ending phase included, or may start in the background.
    ///
    /// Call it under the scheduler's lock.
    fileprivate var continuesInBackground: Bool {
        !hasEnded && (!lifecycle.isWaiting || options.mayContinueInBackground)
    }
}
