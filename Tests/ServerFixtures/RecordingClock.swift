package import ThreadSupport

/// A clock that never waits, and records the requested delays.
package struct RecordingClock: Clock {
    package typealias Instant = ContinuousClock.Instant

    private let waits: Locked<[Duration]>

    package init(waits: Locked<[Duration]>) { self.waits = waits }

    package var now: Instant { .now }
    package var minimumResolution: Duration { .nanoseconds(1) }

    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let wait = now.duration(to: deadline)
        waits.withLock { $0.append(wait) }
    }
}
