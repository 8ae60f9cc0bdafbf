/// Waits between attempts, each longer than the one before it, up to a limit.
package struct ExponentialBackoff: Sendable {
    private let initialDelay: Duration
    private let multiplier: Double
    private let maximumDelay: Duration

    /// Creates waits of which the first is `initialDelay`.
    package init(initialDelay: Duration, multiplier: Double = 2, maximumDelay: Duration) {
        self.initialDelay = initialDelay
        self.multiplier = max(1, multiplier)
        self.maximumDelay = maximumDelay
    }

    /// Returns the wait after attempt `attempt` (the first is 1) failed, before the caller adds its jitter.
    package func delay(after attempt: Int) -> Duration {
        // In seconds, which a large power makes infinite where a `Duration` would trap.
        let limit = maximumDelay / .seconds(1)
        var delay = initialDelay / .seconds(1)
        var attempt = attempt
        while attempt > 1, delay > 0, delay < limit, multiplier != 1 {
            delay *= multiplier
            attempt -= 1
        }
        return .seconds(max(0, min(delay, limit)))
    }
}
