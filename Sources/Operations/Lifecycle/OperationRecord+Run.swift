import ThreadSupport
import Tracing

// MARK: - Progress

extension OperationRecord {
    func report(_ progress: OperationProgress) {
        core.withBoard { board in
            let extras = madeExtras
            let decision = lifecycle.mayRunMain ? extras.mailbox.report(progress) : .drop
            guard decision != .drop else {
                let (id, name) = (id, name)
                return board.emit(
                    .call {
                        WaitRegistry.note("operation \(id) (\(name)) reported progress after its main was over")
                    }
                )
            }
            extras.reportCount += 1
            // Started under the lock: when `main` ends, the pump of every accepted report exists, so the end waits for it.
            // Not detached: spans of the progress phase have the same parent as those of the reporting task.
            if decision == .startPump {
                extras.pump = Task(executorPreference: board.environment.configuration.executor) {
                    await self.pumpProgress()
                }
            }
            board.tell(extras.listeners, .progress(extras.mailbox.current))
            board.tellProgress()
        }
    }
}

// MARK: - Pausing

extension SchedulerCore {
    /// Waits on behalf of an operation, which releases its slot meanwhile.
    nonisolated(nonsending) func pause<Answer>(
        _ record: OperationRecord,
        awaiting reason: String,
        _ answer: nonisolated(nonsending) () async throws -> Answer
    ) async throws -> Answer {
        withBoard { $0.pause(record, reason) }
        let result: Result<Answer, any Error>
        do {
            result = .success(try await WaitRegistry.waiting(for: reason, answer))
        } catch {
            result = .failure(error)
        }
        await WaitRegistry.waiting(for: "a slot") {
            await withCheckedContinuation { continuation in
                let isKept = withBoard { $0.endPause(record, continuation) }
                if !isKept { continuation.resume() }
            }
        }
        return try result.get()
    }
}

// MARK: - The end of main

extension OperationRecord {
    /// Returns whether to call `main` again after an error that isn't a cancellation, once the retry delay is over.
    ///
    /// - Throws: `CancellationError` if that wait is cancelled.
    private func retries(after error: any Error, nextAttempt: Int) async throws -> Bool {
        core.withBoard { $0.countFailure() }
        let policy: RetryPolicy? = core.withBoard { _ in
            lifecycle.isCancellationRequested || !lifecycle.mayRunMain ? nil : options.retry
        }
        guard let policy, nextAttempt <= policy.maximumAttempts, policy.shouldRetry(error) else { return false }
        await endChildren(cancelling: true)
        // The next attempt would meet the files of this one.
        if let directory = core.withBoard({ _ in extras?.temporaryDirectory.take() }) { await remove(directory) }
        let delay = policy.delay(after: nextAttempt - 1, random: core.environment.configuration.random())
        core.withBoard { $0.noteRetry(of: self, attempt: nextAttempt, in: delay, after: error) }
        let reason = "attempt \(nextAttempt) in \(delay), after: \(error)"
        try await core.pause(self, awaiting: reason) { try await core.environment.sleep(for: delay) }
        try Task.checkCancellation()
        return true
    }

    /// Waits for the children; the operation releases its slot meanwhile.
    func endChildren(cancelling: Bool) async {
        let hasChildren = core.withBoard { board in
            guard board.scheduler.hasChildren(position) else { return false }
            if cancelling { board.cancelChildren(of: self) }
            return true
        }
        guard hasChildren else { return }
        // The closure that the pause awaits doesn't throw.
        try? await core.pause(self, awaiting: "its children") {
            await withCheckedContinuation { continuation in
                let mustWait = core.withBoard { board in
                    guard board.scheduler.hasChildren(position) else { return false }
                    madeExtras.childrenWaiter = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Runs `body` in a task that isn't cancelled when the operation is, for ending phases and cleanup.
    ///
    /// The task inherits the task-local values of the current one, including the operation and its span.
    func shielded<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        try await uncancelled(on: core.environment.configuration.executor, body)
    }

    /// What has to end between `main` and the ending phase.
    enum Leftover {
        case nothing(Departure)
        case children
        case pump(Task<Void, Never>)
    }

    /// How an operation left `main`, which decides its ending phase.
    struct Departure {
        enum Outcome {
            case completed
            case failed(any Error)
            /// The operation was abandoned meanwhile and has no ending phase.
            case abandoned
        }

        var outcome: Outcome
        /// Whether the operation's cancellation was requested.
        var isCancelled: Bool
    }

    /// Ends the run after an attempt, unless another attempt follows, and stores the outcome, which is visible from then on.
    ///
    /// Before that the children and the progress pump end.
    ///
    /// - Returns: How the operation left `main`; `nil` if another attempt follows.
    func conclude(_ attempt: Int, after error: (any Error)?) async -> Departure? {
        var failure = error
        if let error, !(error is CancellationError) {
            span?.recordError(error, attributes: ["operation.attempt": .int64(Int64(attempt))])
            do {
                if try await retries(after: error, nextAttempt: attempt + 1) { return nil }
            } catch let cancellation {
                failure = cancellation
            }
        }
        while true {
            switch leave(failure) {
            case .nothing(let departure):
                span?.record(departure.outcome, after: failure)
                return departure
            case .children: await endChildren(cancelling: failure != nil)
            case .pump(let pump):
                await pump.value
                core.withBoard { _ in extras?.pump = nil }
            }
        }
    }

    /// The span of the run, if there is a tracer.
    private var span: (any Span)? {
        core.environment.tracer == nil ? nil : core.withBoard { _ in extras?.span }
    }

    /// Stores the outcome, or returns what has to end first.
    ///
    /// May be called again.
    func leave(_ failure: (any Error)?) -> Leftover {
        core.withBoard { board in
            let isCancelled = lifecycle.isCancellationRequested
            func departure(_ outcome: Departure.Outcome) -> Leftover {
                .nothing(Departure(outcome: outcome, isCancelled: isCancelled))
            }
            guard !hasEnded else { return departure(.abandoned) }
            guard let extras else { return departure(store(failure, &board)) }
            extras.takesNoMoreChildren = true
            guard !board.scheduler.hasChildren(position) else { return .children }
            extras.mailbox.close()
            if let pump = extras.pump { return .pump(pump) }
            let isCausedCancellation = failure is CancellationError && extras.cancellationCause != nil
            return departure(store(isCausedCancellation ? extras.cancellationCause : failure, &board))
        }
    }

    private func store(_ failure: (any Error)?, _ board: inout SchedulerBoard) -> Departure.Outcome {
        // A further call finds the outcome already stored.
        if lifecycle.mayRunMain {
            self.failure = failure
            updateLifecycle { $0.beginEnding(failure.map(OperationLifecycle.Outcome.init) ?? .finished) }
            if failure == nil {
                extras?.mailbox.complete()
                // The ending phase may take long.
                board.tellProgress()
            }
        }
        return self.failure.map(Departure.Outcome.failed) ?? .completed
    }
}

extension SchedulerBoard {
    /// Ends an operation of which nothing runs any more.
    ///
    /// Returns its temporary directory if there is one: it must be removed first, and then this is called again.
    mutating func end(_ record: OperationRecord) -> TemporaryDirectory? {
        if let directory = record.extras?.temporaryDirectory.take() { return directory }
        // The task that runs the operation holds it, so this doesn't release the last reference.
        record.operation = nil
        if record.hasEnded { release(record) } else { finish(record) }
        return nil
    }
}
