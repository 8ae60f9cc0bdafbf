import ThreadSupport

/// What has changed since a watch last asked.
final class WatchSignals: Sendable {
    private struct State {
        var changes: [WatchSchedule.Source: WatchSchedule.Changes] = [:]
        var waiter: CheckedContinuation<Void, any Error>?
    }

    private let state = Locked(State())

    /// Notes a change, and wakes the watch.
    func post(_ source: WatchSchedule.Source, at time: Duration) {
        let waiter = state.withLock { state in
            let first = state.changes[source]?.first ?? time
            state.changes[source] = WatchSchedule.Changes(first: first, last: time)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Returns the changes, and forgets them.
    func take() -> [WatchSchedule.Source: WatchSchedule.Changes] {
        state.withLock { state in
            defer { state.changes = [:] }
            return state.changes
        }
    }

    /// Waits for a change.
    ///
    /// - Throws: `CancellationError`.
    func wait() async throws {
        try await waitCancellably(for: "a change") { continuation in
            state.withLock { state in
                guard state.changes.isEmpty else { return false }
                state.waiter = continuation
                return true
            }
        } remove: { [state] in
            state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
        }
    }
}
