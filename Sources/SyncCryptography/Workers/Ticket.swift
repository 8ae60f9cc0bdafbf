import ThreadSupport

/// The future result of work that another task or thread does.
///
/// A waiting task that is cancelled returns at once. The ticket is then abandoned, and a later result is discarded.
final class Ticket<Value: Sendable>: Sendable {
    private enum State {
        case pending(CheckedContinuation<Void, any Error>?)
        case done(Result<Value, any Error>)
        case abandoned
    }

    private let state = Locked(State.pending(nil))

    /// Whether the result isn't needed any more.
    var isAbandoned: Bool {
        state.withLock { state in
            guard case .abandoned = state else { return false }
            return true
        }
    }

    /// Whether the result is available.
    var isDone: Bool {
        state.withLock { state in
            guard case .done = state else { return false }
            return true
        }
    }

    /// Sets the result; only the first result counts.
    func finish(_ result: Result<Value, any Error>) {
        let waiting: CheckedContinuation<Void, any Error>? = state.withLock { state in
            guard case .pending(let waiting) = state else { return nil }
            state = .done(result)
            return waiting
        }
        waiting?.resume()
    }

    /// Declares that the result isn't needed any more.
    func abandon() {
        remove()?.resume(throwing: CancellationError())
    }

    private func remove() -> CheckedContinuation<Void, any Error>? {
        state.withLock { state in
            guard case .pending(let waiting) = state else { return nil }
            state = .abandoned
            return waiting
        }
    }

    /// Waits for the result; only one task may wait.
    ///
    /// - Parameter reason: The object of the wait, which completes "waits for …".
    /// - Returns: The result.
    /// - Throws: The work's error, or `CancellationError` as soon as the task is cancelled, which abandons the ticket.
    func value(of reason: @autoclosure () -> String) async throws -> Value {
        try await waitCancellably(for: reason()) { continuation in
            state.withLock { state in
                guard case .pending = state else { return false }
                state = .pending(continuation)
                return true
            }
        } remove: {
            self.remove()
        }
        guard case .done(let result) = state.withLock({ $0 }) else { throw CancellationError() }
        return try result.get()
    }
}
