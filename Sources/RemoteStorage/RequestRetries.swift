/// How often a request is retried that a server didn't answer, or was too busy to answer.
public struct RequestRetries: Sendable {
    /// The number of attempts in all.
    ///
    /// A request that waits in vain for the limit of ``RequestTimeouts/read`` is retried only once.
    public var attempts: Int
    /// The average delay before the second attempt, which doubles before each further attempt.
    public var delay: Duration
    /// The maximum delay; if a server asks for a longer one, the request isn't retried.
    public var longestDelay: Duration

    /// Creates retries.
    public init(
        attempts: Int = 5,
        delay: Duration = .milliseconds(500),
        longestDelay: Duration = .seconds(60)
    ) {
        self.attempts = attempts
        self.delay = delay
        self.longestDelay = longestDelay
    }

    /// Every request is sent once.
    public static let none = RequestRetries(attempts: 1)
}

/// How long each phase of a request to a server may take.
public struct RequestTimeouts: Sendable {
    /// The limit for establishing the connection, TLS included.
    ///
    /// A request that waits because all connections are in use has no such limit.
    public var connect: Duration
    /// The limit for waiting for a byte from the server, after the request is sent.
    ///
    /// It also applies while a caller pauses in reading a file, because many servers end such a connection, too. By default,
    /// it is 60 seconds. After a longer pause, a bucket's backend fetches the rest. From a share, read the rest by its range.
    ///
    /// An answer that arrives more slowly than 100 bytes a second, for five times this limit, has exceeded it, too. The
    /// pauses of its reader don't count for that.
    public var read: Duration
    /// The limit for waiting until another byte can be sent, while the request is sent.
    public var write: Duration

    /// Creates timeouts.
    public init(connect: Duration = .seconds(10), read: Duration = .seconds(60), write: Duration = .seconds(300)) {
        self.connect = connect
        self.read = read
        self.write = write
    }
}
