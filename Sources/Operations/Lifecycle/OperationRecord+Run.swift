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
            guard lifecycle.isUnderway else { return }
            let extras = madeExtras
            extras.reportCount += 1
            // Started under the lock: a report that is accepted before the end has its pump before the end looks for one.
            // Not detached: spans of the progress phase have the same parent as those of whoever reports.
            if extras.mailbox.report(progress) == .startPump {
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
            result = .success(try await answer())
        } catch {
            result = .failure(error)
        }
        await withCheckedContinuation { continuation in
            let isKept = decide { $0.endPause(record, continuation, &$1) }
            if !isKept { continuation.resume() }
        }
        return try result.get()
    }
}

// MARK: - The end of main

extension OperationRecord {
    /// Whether `main` is to be called again; waits until then.
    ///
    /// If the wait is cancelled, that becomes the result.
    func retries<Output>(after result: inout Result<Output, any Error>, nextAttempt: Int) async -> Bool {
        guard case .failure(let error) = result, !(error is CancellationError) else { return false }
        let policy: RetryPolicy? = core.decide { board, actions in
            board.countFailure(&actions)
            return lifecycle.isCancellationRequested || !lifecycle.isUnderway ? nil : options.retry
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
        } catch {
            result = .failure(error)
            return false
        }
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

    fileprivate enum Leftover {
        case nothing, children
        case pump(Task<Void, Never>)
        case abandoned
    }
}

extension TypedOperationRecord {
    /// `main` is over: waits for what it left behind, and puts the outcome in place, which shows from here on.
    ///
    /// - Returns: The result for the ending phase; `nil` if the operation was written off meanwhile, and has none.
    func leaveMain(_ result: Result<Output, any Error>) async -> Result<Output, any Error>? {
        var hasFailed = false
        if case .failure = result { hasFailed = true }
        while true {
            switch core.withBoard({ leave(result, &$0) }) {
            case .nothing: return core.withBoard { _ in self.result }
            case .abandoned: return nil
            case .children: await endChildren(cancelling: hasFailed)
            case .pump(let pump):
                await pump.value
                core.withBoard { _ in extras?.pump = nil }
            }
        }
    }

    private func leave(_ result: Result<Output, any Error>, _ board: inout SchedulerBoard) -> Leftover {
        guard lifecycle.finalOutcome == nil else { return .abandoned }
        let hasChildren = board.scheduler.relations[slot]?.children.isEmpty == false
        guard extras != nil || hasChildren else {
            place(result)
            return .nothing
        }
        let extras = madeExtras
        extras.takesNoMoreChildren = true
        guard !hasChildren else { return .children }
        extras.mailbox.close()
        if let pump = extras.pump { return .pump(pump) }
        if case .failure(is CancellationError) = result, let cause = extras.cancellationCause {
            place(.failure(cause))
        } else {
            place(result)
        }
        return .nothing
    }

    private func place(_ result: Result<Output, any Error>) {
        self.result = result
        let outcome = OperationLifecycle.Outcome(result)
        lifecycle.beginEnding(outcome)
        if outcome == .finished { extras?.mailbox.complete() }
    }
}

extension SchedulerBoard {
    /// Nothing of an operation runs any more.
    mutating func end(_ record: OperationRecord, _ actions: inout [SchedulerAction]) {
        guard record.lifecycle.finalOutcome == nil else { return release(record, &actions) }
        // A task that outlived main may have asked for a directory after the run's was removed.
        if let url = record.extras?.temporaryDirectory.take() { actions.append(.removeDirectory(url)) }
        let outcome: OperationLifecycle.Outcome = record.failure.map(OperationLifecycle.Outcome.init) ?? .finished
        record.lifecycle.end(outcome)
        finish(record, outcome, &actions)
    }
}

// MARK: - The temporary directory

extension OperationRecord {
    /// The run's own directory, made when it's first asked for.
    func temporaryDirectory() async throws -> URL {
        if let existing = core.withBoard({ _ in extras?.temporaryDirectory }) { return existing }
        let made = try await runBlocking(on: core.environment.blockingExecutor) { [environment = core.environment] in
            let url = (environment.temporaryDirectory ?? FileManager.default.temporaryDirectory)
                .appending(path: "operation-\(UUID().uuidString)", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(
                at: url,
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700]
            )
            return url
        }
        // Two callers may have come here at once: the first one's directory is the run's, the other is taken away.
        let kept: URL? = core.withBoard { _ in
            guard lifecycle.finalOutcome == nil else { return nil }
            let kept = madeExtras.temporaryDirectory ?? made
            madeExtras.temporaryDirectory = kept
            return kept
        }
        if kept != made { try? FileManager.default.removeItem(at: made) }
        guard let kept else { throw CancellationError() }
        return kept
    }

    /// Removes the temporary directory, if there is one, with everything in it.
    func removeTemporaryDirectory() async {
        guard let url = core.withBoard({ _ in extras?.temporaryDirectory.take() }) else { return }
        await core.shielded { [environment = core.environment] in
            try? await runBlocking(on: environment.blockingExecutor) { try FileManager.default.removeItem(at: url) }
        }
    }
}
