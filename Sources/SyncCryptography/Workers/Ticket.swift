import ThreadSupport

/// The result of work that somebody else does, for one who waits for it.
///
/// Whoever waits and is cancelled goes at once, and with the ticket abandoned the result is dropped when it comes.
final class Ticket<Value: Sendable>: Sendable {
    private enum State {
        case pending(CheckedContinuation<Void, any Error>?)
        case done(Result<Value, any Error>)
        case abandoned
    }

    private let state = Locked(State.pending(nil))

    /// Whether nobody wants the result.
    var isAbandoned: Bool {
        state.withLock { state in
            guard case .abandoned = state else { return false }
            return true
        }
    }

    /// Whether the result is there.
    var isDone: Bool {
        state.withLock { state in
            guard case .done = state else { return false }
            return true
        }
    }

    /// Gives the result; only the first one counts.
    func finish(_ result: Result<Value, any Error>) {
        let waiting: CheckedContinuation<Void, any Error>? = state.withLock { state in
            guard case .pending(let waiting) = state else { return nil }
            state = .done(result)
            return waiting
        }
        waiting?.resume()
    }

    /// Says that nobody wants the result any more.
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

    /// Waits for the result; one task may do that.
    ///
    /// - Parameter reason: What is waited for, as "waits for …" goes on.
    /// - Returns: The result.
    /// - Throws: What the work threw; or `CancellationError` as soon as the task is cancelled, which abandons the ticket.
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
