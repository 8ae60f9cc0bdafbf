import ThreadSupport

/// A clock that stands still until nothing can run, and then jumps to the next deadline.
public final class SimulatedClock: Clock {
    /// A point in simulated time: the time since the simulation started.
    public struct Instant: InstantProtocol {
        var offset: Duration

        /// Orders by time.
        public static func < (lhs: Self, rhs: Self) -> Bool { lhs.offset < rhs.offset }
        /// The point `duration` later.
        public func advanced(by duration: Duration) -> Self { Self(offset: offset + duration) }
        /// The time from this point to `other`.
        public func duration(to other: Self) -> Duration { other.offset - offset }
    }

    private struct Timer {
        var deadline: Instant
        var fire: Fire
    }

    private enum Fire {
        case resume(CheckedContinuation<Void, any Error>)
        case call(@Sendable () -> Void)
    }

    private struct State {
        var now = Instant(offset: .zero)
        var timers: [UInt64: Timer] = [:]
        var nextID: UInt64 = 0
        var isOver = false
        /// The real time at which the clock reached its current time.
        var arrival = ContinuousClock.now

        mutating func takeID() -> UInt64 {
            nextID += 1
            return nextID
        }
    }

    private let state = Locked(State())

    /// Creates a clock at time zero.
    public init() {}

    /// The simulated time.
    public var now: Instant { state.withLock { $0.now } }
    /// The clock's resolution, one nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// Sleeps until the simulation has reached `deadline`.
    ///
    /// - Throws: `CancellationError` if the task is cancelled, or the simulation is over.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id: UInt64? = try state.withLock { state in
            if state.isOver { throw CancellationError() }
            return deadline > state.now ? state.takeID() : nil
        }
        guard let id else { return try Task.checkCancellation() }
        try await waitCancellably { continuation in
            state.withLock { $0.timers[id] = Timer(deadline: deadline, fire: .resume(continuation)) }
            return true
        } remove: { [self] in
            guard case .resume(let continuation) = state.withLock({ $0.timers.removeValue(forKey: id) })?.fire else {
                return nil
            }
            return continuation
        }
    }

    /// Calls `body` when the simulation has advanced by `delay` from now.
    func schedule(after delay: Duration, _ body: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.timers[state.takeID()] = Timer(deadline: state.now.advanced(by: delay), fire: .call(body))
        }
    }

    /// How long, in real time, the clock has had its current time.
    var standstill: Duration { ContinuousClock.now - state.withLock { $0.arrival } }

    /// Whether any timer is pending.
    var hasTimers: Bool { state.withLock { !$0.timers.isEmpty } }

    /// How many tasks sleep on this clock, not counting `Task.sleep`.
    ///
    /// For `Task.sleep`, a sleeping task can't be distinguished from one whose sleep was cancelled.
    var sleeperCount: Int {
        state.withLock { state in
            state.timers.values.count { if case .resume = $0.fire { true } else { false } }
        }
    }

    /// Jumps to the next deadline and fires its timers, in the order in which they were added.
    ///
    /// Returns whether there were any.
    public func advance() -> Bool {
        let due = state.withLock { state -> [Timer] in
            guard let next = state.timers.values.map(\.deadline).min() else { return [] }
            state.now = max(state.now, next)
            state.arrival = .now
            let ids = state.timers.filter { $0.value.deadline <= next }.keys.sorted()
            return ids.compactMap { state.timers.removeValue(forKey: $0) }
        }
        for timer in due {
            switch timer.fire {
            case .resume(let continuation): continuation.resume()
            case .call(let body): body()
            }
        }
        return !due.isEmpty
    }

    /// Fires all timers at once, with a `CancellationError` where possible, and refuses further sleep on this clock.
    func finish() {
        let timers = state.withLock { state in
            state.isOver = true
            let timers = state.timers.sorted { $0.key < $1.key }.map(\.value)
            state.timers = [:]
            return timers
        }
        for timer in timers {
            switch timer.fire {
            case .resume(let continuation): continuation.resume(throwing: CancellationError())
            case .call(let body): body()
            }
        }
    }
}
