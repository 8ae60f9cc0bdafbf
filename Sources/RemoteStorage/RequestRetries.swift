/// How often a request is tried again that a server didn't answer, or was too busy for.
public struct RequestRetries: Sendable {
    /// How many tries there are in all.
    public var attempts: Int
    /// How long to wait before the second try, on average; before each further one, twice as long.
    public var delay: Duration
    /// How long to wait at most; a server that asks for more isn't asked again.
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
    /// Until the connection stands, TLS included.
    public var connect: Duration
    /// Without a byte from the server, once the request is sent.
    public var read: Duration
    /// Without a byte that could be sent, while the request is.
    public var write: Duration

    /// Creates timeouts.
    public init(connect: Duration = .seconds(10), read: Duration = .seconds(60), write: Duration = .seconds(300)) {
        self.connect = connect
        self.read = read
        self.write = write
    }
}
