import ThreadSupport

/// When an operation whose `main` failed is retried, and how long it waits before that.
///
/// The wait before attempt *n* + 1 is `initialDelay` · `multiplier`ⁿ⁻¹, at most `maximumDelay`. A random part of it, at
/// most `jitter`, is subtracted, so that a thousand devices don't retry at the same moment.
public struct RetryPolicy: Sendable {
    /// The maximum number of calls of `main`.
    public var maximumAttempts: Int
    /// The wait before the second attempt.
    public var initialDelay: Duration
    /// The factor by which each wait is longer than the previous one.
    public var multiplier: Double
    /// The longest wait.
    public var maximumDelay: Duration
    /// The maximum part of a wait that is randomly subtracted, from 0 to 1.
    public var jitter: Double
    /// Whether an error is temporary, so that a retry may succeed.
    public var shouldRetry: @Sendable (any Error) -> Bool

    /// Creates a policy.
    ///
    /// - Parameters:
    ///   - maximumAttempts: The maximum number of calls of `main`; 1 never retries.
    ///   - initialDelay: The wait before the second attempt.
    ///   - multiplier: The factor by which each wait is longer than the previous one.
    ///   - maximumDelay: The longest wait.
    ///   - jitter: The maximum part of a wait that is randomly subtracted.
    ///   - shouldRetry: Whether an error is temporary. Cancellation is never retried.
    public init(
        maximumAttempts: Int = 3,
        initialDelay: Duration = .seconds(1),
        multiplier: Double = 2,
        maximumDelay: Duration = .seconds(60),
        jitter: Double = 0.5,
        shouldRetry: @escaping @Sendable (any Error) -> Bool = { _ in true }
    ) {
        self.maximumAttempts = maximumAttempts
        self.initialDelay = initialDelay
        self.multiplier = multiplier
        self.maximumDelay = maximumDelay
        self.jitter = jitter
        self.shouldRetry = shouldRetry
    }

    /// The wait after attempt `attempt` (the first is 1) failed; `random` is from 0 up to 1.
    func delay(after attempt: Int, random: Double) -> Duration {
        let backoff = ExponentialBackoff(
            initialDelay: initialDelay,
            multiplier: multiplier,
            maximumDelay: maximumDelay
        )
        return backoff.delay(after: attempt) * (1 - min(max(0, jitter), 1) * random)
    }
}

/// The failure rate that a supervisor tolerates.
///
/// When failures come faster, the supervisor suspends itself and logs an error, because more attempts won't help. OTP's
/// supervisors have the same rule.
public struct RestartIntensity: Sendable, Hashable {
    /// How many failed attempts are tolerated in ``period``.
    public var maximumFailures: Int
    /// The time in which the failures are counted.
    public var period: Duration

    /// Tolerates `maximumFailures` failed attempts in any `period`.
    public init(maximumFailures: Int, period: Duration) {
        self.maximumFailures = maximumFailures
        self.period = period
    }
}
