/// When a ``StoreWatch`` synchronizes, and how often it asks the remote.
///
/// Of every wait for the remote, a random part is subtracted, so that a thousand devices don't ask at the same moment.
public struct WatchPolicy: Sendable, Hashable {
    /// How long nothing has changed before a synchronization begins.
    public var quietTime = Duration.milliseconds(200)
    /// How long a change waits at most while others follow it.
    public var maximumDelay = Duration.seconds(2)
    /// How soon the remote's listing is read again after something has changed; each further wait is twice as long.
    public var shortestPoll = Duration.seconds(2)
    /// The maximum wait between two listings, and the wait while the storage itself signals changes.
    public var longestPoll = Duration.seconds(60)
    /// The wait after a failure; each further wait is twice as long.
    public var shortestRetry = Duration.seconds(1)
    /// The maximum wait after a failure.
    public var longestRetry = Duration.seconds(300)
    /// The maximum part of a wait that is randomly subtracted, from 0 to 1.
    public var jitter = 0.2
    /// The longest time without a synchronization, by which this device tells the others that it still takes part.
    public var longestPause = Duration.seconds(3600)

    /// Creates a policy; everything can be set afterwards.
    public init() {}
}
