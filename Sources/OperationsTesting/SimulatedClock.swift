import ThreadSupport

/// A clock that stands still until nothing can run, and then jumps to whatever is due next.
public final class SimulatedClock: Clock {
    /// A point in simulated time: the time since the simulation began.
    public struct Instant: InstantProtocol {
        var offset: Duration

        /// Orders by time.
        public static func < (lhs: Self, rhs: Self) -> Bool { lhs.offset < rhs.offset }
        /// The point `duration` later.
        public func advanced(by duration: Duration) -> Self { Self(offset: offset + duration) }
        /// The time from this point to `other`.
        public func duration(to other: Self) -> Duration { other.offset - offset }
    }

    private struct Sleeper {
        var deadline: Instant
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [UInt64: Sleeper] = [:]
        var nextID: UInt64 = 0
    }

    private let state = Locked(State())

    /// Creates a clock that stands at zero.
    public init() {}

    /// The simulated time.
    public var now: Instant { state.withLock { $0.now } }
    /// Nothing is shorter than what can be told apart.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Returns when the simulation has come to `deadline`.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        try await waitCancellably { continuation in
            state.withLock { state in
                guard deadline > state.now else { return false }
                state.sleepers[id] = Sleeper(deadline: deadline, continuation: continuation)
                return true
            }
        } remove: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation
        }
    }

    /// Jumps to the next deadline and wakes who waits for it, the first to sleep first.
    ///
    /// Returns whether anybody did.
    public func advance() -> Bool {
        let due = state.withLock { state -> [Sleeper] in
            guard let next = state.sleepers.values.map(\.deadline).min() else { return [] }
            state.now = next
            let ids = state.sleepers.filter { $0.value.deadline <= next }.keys.sorted()
            return ids.compactMap { state.sleepers.removeValue(forKey: $0) }
        }
        for sleeper in due { sleeper.continuation.resume() }
        return !due.isEmpty
    }
}
