import ThreadSupport

/// A piece of work that runs at most once at a time, whose result all concurrent callers share.
package final class SharedTask<Value: Sendable>: Sendable {
    package typealias Work = @Sendable () async throws -> Value

    private struct State {
        /// The value of a former run.
        var kept: Value?
        var run: Task<Void, Never>?
        /// The callers that wait for the run, by their numbers.
        var callers: [Int: CheckedContinuation<Value, any Error>] = [:]
        var callerCount = 0
    }

    private let state = Locked(State())
    private let keepsValue: Bool

    /// Creates a shared task.
    ///
    /// - Parameter keepsValue: Whether later callers get the value of the last run, too. An error is never kept.
    package init(keepsValue: Bool) {
        self.keepsValue = keepsValue
    }

    /// Starts the work, unless it runs already or its value was kept.
    package func start(_ work: @escaping Work) {
        state.withLock { state in
            guard state.kept == nil, state.run == nil else { return }
            state.run = run(work)
        }
    }

    /// Returns the value of the work, and starts it if necessary.
    ///
    /// A cancelled caller returns at once. The work is cancelled with the last caller that waits for it.
    package func value(_ work: @escaping Work) async throws -> Value {
        try Task.checkCancellation()
        let number = state.withLock { state in
            state.callerCount += 1
            return state.callerCount
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let kept = state.withLock { state -> Value? in
                    if let kept = state.kept { return kept }
                    state.callers[number] = continuation
                    state.run = state.run ?? run(work)
                    return nil
                }
                if let kept { return continuation.resume(returning: kept) }
                // The cancellation may have found no continuation.
                if Task.isCancelled { leave(number) }
            }
        } onCancel: {
            leave(number)
        }
    }

    private func run(_ work: @escaping Work) -> Task<Void, Never> {
        Task {
            let result: Result<Value, any Error>
            do {
                result = .success(try await work())
            } catch {
                result = .failure(error)
            }
            end(work, result)
        }
    }

    /// Ends a run, and passes its result to the callers.
    private func end(_ work: @escaping Work, _ result: Result<Value, any Error>) {
        let isCancelled = Task.isCancelled
        let callers = state.withLock { state -> [CheckedContinuation<Value, any Error>] in
            if case .success(let value) = result, keepsValue { state.kept = value }
            state.run = nil
            if isCancelled, case .failure = result, !state.callers.isEmpty {
                // They came while the cancelled run was ending.
                state.run = run(work)
                return []
            }
            defer { state.callers = [:] }
            return Array(state.callers.values)
        }
        for caller in callers { caller.resume(with: result) }
    }

    /// Releases a cancelled caller, if it still waits.
    private func leave(_ number: Int) {
        let (caller, run) = state.withLock { state in
            let caller = state.callers.removeValue(forKey: number)
            return (caller, caller != nil && state.callers.isEmpty ? state.run : nil)
        }
        run?.cancel()
        caller?.resume(throwing: CancellationError())
    }
}
