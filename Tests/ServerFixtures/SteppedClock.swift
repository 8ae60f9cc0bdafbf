import ThreadSupport

/// A clock that the tests advance.
package struct SteppedClock: Clock {
    private let passed = Locked(Duration.zero)
    private let start = ContinuousClock.now

    package init() {}

    package func advance(by duration: Duration) { passed.withLock { $0 += duration } }

    package var now: ContinuousClock.Instant { start + passed.withLock { $0 } }
    package var minimumResolution: Duration { .nanoseconds(1) }
    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {}
}
