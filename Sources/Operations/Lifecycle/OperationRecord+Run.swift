import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// MARK: - Progress

extension OperationRecord {
    func report(_ progress: OperationProgress) {
        core.decide { board, actions in
            let extras = madeExtras
            let decision = lifecycle.isUnderway ? extras.mailbox.report(progress) : .drop
            guard decision != .drop else {
                let (id, name) = (id, name)
                return actions.append(
                    .log { _ in WaitRegistry.note("operation \(id) (\(name)) reported progress after its main was over")
                    }
                )
            }
            extras.reportCount += 1
            // Started under the lock: a report that is accepted before the end has its pump before the end looks for one.
            // Not detached: spans of the progress phase have the same parent as those of whoever reports.
            if decision == .startPump {
                extras.pump = Task(executorPreference: board.environment.executor) {
                    await self.pumpProgress()
                }
            }
            guard !extras.listeners.isEmpty else { return }
            actions.append(.tell(extras.listeners, .progress(extras.mailbox.current)))
        }
    }

    func takeProgress() -> OperationProgress? {
        core.withBoard { _ in extras?.mailbox.take() }
    }
}

// MARK: - Pausing

extension SchedulerCore {
    /// Waits on behalf of an operation, which gives its place to others meanwhile.
    nonisolated(nonsending) func pause<Answer>(
        _ record: OperationRecord,
        awaiting reason: String,
        _ answer: nonisolated(nonsending) () async throws -> Answer
    ) async throws -> Answer {
        decide { $0.pause(record, reason, &$1) }
        let result: Result<Answer, any Error>
        do {
            result = .success(try await WaitRegistry.waiting(for: reason, answer))
        } catch {
            result = .failure(error)
        }
        await WaitRegistry.waiting(for: "a place") {
            await withCheckedContinuation { continuation in
                let isKept = decide { $0.endPause(record, continuation, &$1) }
                if !isKept { continuation.resume() }
            }
        }
        return try result.get()
    }
}

// MARK: - The end of main

extension OperationRecord {
    /// Whether `main` is to be called again; waits until then.
    ///
    /// If the wait is cancelled, that becomes the failure.
    func retries(after failure: inout (any Error)?, nextAttempt: Int) async -> Bool {
        guard let error = failure, !(error is CancellationError) else { return false }
        countFailure(error)
        let policy: RetryPolicy? = core.withBoard { _ in
            lifecycle.isCancellationRequested || !lifecycle.isUnderway ? nil : options.retry
        }
        guard let policy, nextAttempt <= policy.maximumAttempts, policy.shouldRetry(error) else { return false }
        await endChildren(cancelling: true)
        let delay = policy.delay(after: nextAttempt - 1, random: core.environment.random())
        core.decide { $0.noteRetry(of: self, attempt: nextAttempt, in: delay, after: error, &$1) }
        let reason = "attempt \(nextAttempt) in \(delay), after: \(error)"
        let clock = core.environment.clock
        do {
            try await core.pause(self, awaiting: reason) { try await clock.sleep(for: delay) }
            try Task.checkCancellation()
            return true
        } catch let cancellation {
            failure = cancellation
            return false
        }
    }

    /// An attempt failed: too many in too short a time suspend the supervisor.
    func countFailure(_ error: any Error) {
        guard !(error is CancellationError) else { return }
        core.decide { $0.countFailure(&$1) }
    }

    /// Waits for the children, in whose favour the operation gives up its place.
    func endChildren(cancelling: Bool) async {
        let hasChildren = core.decide { board, actions in
            guard board.scheduler.relations[slot]?.children.isEmpty == false else { return false }
            if cancelling { board.cancelChildren(of: self, &actions) }
            return true
        }
        guard hasChildren else { return }
        // What the pause awaits throws nothing.
        try? await core.pause(self, awaiting: "its children") {
            await withCheckedContinuation { continuation in
                let mustWait = core.withBoard { board in
                    guard board.scheduler.relations[slot]?.children.isEmpty == false else { return false }
                    madeExtras.childrenWaiter = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Runs `body` in a task that isn't cancelled when the operation is: for ending phases and cleaning up.
    ///
    /// The task has the task-local values of the current one, the operation and its span among them.
    func shielded(_ body: @escaping @Sendable () async -> Void) async {
        // A cancellation that was asked for may reach the task later.
        guard Task.isCancelled || isCancellationRequested else { return await body() }
        await Task(executorPreference: core.environment.executor) { await body() }.value
    }

    /// What stands between `main` and the ending phase.
    enum Leftover {
        case nothing(Departure)
        case children
        case pump(Task<Void, Never>)
    }

    /// How an operation left `main`: what its ending phase is to be.
    enum Departure {
        case completed
        case failed(any Error)
        /// It was written off meanwhile, and has none.
        case abandoned
    }

    /// `main` is over: waits for what it left behind, and puts the outcome in place, which shows from here on.
    func leaveMain(_ failure: (any Error)?) async -> Departure {
        while true {
            switch leave(failure) {
            case .nothing(let departure): return departure
            case .children: await endChildren(cancelling: failure != nil)
            case .pump(let pump):
                await pump.value
                core.withBoard { _ in extras?.pump = nil }
            }
        }
    }

    /// Puts the outcome in place, unless something is left behind that has to end before.
    ///
    /// May be asked again.
    func leave(_ failure: (any Error)?) -> Leftover {
        core.withBoard { board in
            guard lifecycle.finalOutcome == nil else { return .nothing(.abandoned) }
            guard let extras else { return .nothing(place(failure)) }
            extras.takesNoMoreChildren = true
            guard board.scheduler.relations[slot]?.children.isEmpty != false else { return .children }
            extras.mailbox.close()
            if let pump = extras.pump { return .pump(pump) }
            let isCausedCancellation = failure is CancellationError && extras.cancellationCause != nil
            return .nothing(place(isCausedCancellation ? extras.cancellationCause : failure))
        }
    }

    private func place(_ failure: (any Error)?) -> Departure {
        // It stands already if this is asked again.
        if lifecycle.isUnderway {
            self.failure = failure
            change { $0.beginEnding(failure.map(OperationLifecycle.Outcome.init) ?? .finished) }
            if failure == nil { extras?.mailbox.complete() }
        }
        return self.failure.map(Departure.failed) ?? .completed
    }
}

extension SchedulerBoard {
    /// Nothing of an operation runs any more.
    mutating func end(_ record: OperationRecord, keepsOperation: Bool, _ actions: inout [SchedulerAction]) {
        // A taker ran it, and found no other.
        if record.slot == .max { takeInNewcomers() }
        // Its last reference isn't to go under the lock.
        let operation = record.clear()
        if !keepsOperation, let operation { actions.append(.release(operation)) }
        guard record.lifecycle.finalOutcome == nil else { return release(record, &actions) }
        // A task that outlived main may have asked for a directory after the run's was removed.
        if let directory = record.extras?.temporaryDirectory.take() {
            actions.append(.removeDirectory(directory))
        }
        let outcome: OperationLifecycle.Outcome = record.failure.map(OperationLifecycle.Outcome.init) ?? .finished
        record.change { $0.end(outcome) }
        finish(record, outcome, &actions)
    }
}

// MARK: - The temporary directory

extension OperationRecord {
    /// The run's own directory, made when it's first asked for.
    func temporaryDirectory() async throws -> URL {
        if let existing = core.withBoard({ _ in extras?.temporaryDirectory }) { return existing.url }
        let made = try await runBlocking(on: core.environment.blockingExecutor) { [environment = core.environment] in
            try TemporaryDirectory(in: environment.temporaryDirectory ?? FileManager.default.temporaryDirectory)
        }
        // Two callers may have come here at once: the first one's directory is the run's, the other is taken away.
        let kept: TemporaryDirectory? = core.withBoard { _ in
            guard lifecycle.finalOutcome == nil else { return nil }
            let kept = madeExtras.temporaryDirectory ?? made
            madeExtras.temporaryDirectory = kept
            return kept
        }
        if kept !== made { made.remove() }
        guard let kept else { throw CancellationError() }
        return kept.url
    }

    /// Removes the temporary directory, if there is one, with everything in it.
    func removeTemporaryDirectory() async {
        guard let directory = core.withBoard({ _ in extras?.temporaryDirectory.take() }) else { return }
        await shielded { [environment = core.environment] in
            try? await runBlocking(on: environment.blockingExecutor) { directory.remove() }
        }
    }
}
