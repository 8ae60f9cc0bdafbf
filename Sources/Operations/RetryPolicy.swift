/// When an operation whose `main` failed is tried again, and how long it waits before that.
///
/// The wait before attempt *n* + 1 is `initialDelay` · `multiplier`ⁿ⁻¹, at most `maximumDelay`, of which a part that chance
/// decides, at most `jitter`, is taken off: so that a thousand devices don't come back at the same moment.
public struct RetryPolicy: Sendable {
    /// How often `main` is called at most.
    public var maximumAttempts: Int
    /// The wait before the second attempt.
    public var initialDelay: Duration
    /// By how much each wait is longer than the one before.
    public var multiplier: Double
    /// The longest wait.
    public var maximumDelay: Duration
    /// The part of a wait that chance may take off, from 0 to 1.
    public var jitter: Double
    /// Whether this error may pass by itself.
    public var shouldRetry: @Sendable (any Error) -> Bool

    /// Creates a policy.
    ///
    /// - Parameters:
    ///   - maximumAttempts: How often `main` is called at most; 1 never tries again.
    ///   - initialDelay: The wait before the second attempt.
    ///   - multiplier: By how much each wait is longer than the one before.
    ///   - maximumDelay: The longest wait.
    ///   - jitter: The part of a wait that chance may take off.
    ///   - shouldRetry: Whether this error may pass by itself. Cancellation is never tried again.
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
        var delay = initialDelay / .seconds(1)
        // Not a power, which overflows: the loop ends at the longest wait.
        for _ in 1..<max(1, attempt) where delay < maximumDelay / .seconds(1) { delay *= max(1, multiplier) }
        delay = max(0, min(delay, maximumDelay / .seconds(1)))
        return .seconds(delay * (1 - min(max(jitter, 0), 1) * random))
    }
}

/// How many failures in how short a time a supervisor takes for more than bad luck.
///
/// When they come faster, it suspends itself and says so: something is wrong that trying on doesn't mend. The rule is that
/// of OTP's supervisors.
public struct RestartIntensity: Sendable, Hashable {
    /// How many failed attempts are tolerated.
    public var maximumFailures: Int
    /// In how long a time.
    public var period: Duration

    /// Tolerates `maximumFailures` failed attempts in any `period`.
    public init(maximumFailures: Int, period: Duration) {
        self.maximumFailures = maximumFailures
        self.period = period
    }
}
