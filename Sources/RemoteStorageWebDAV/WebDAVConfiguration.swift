public import Foundation
public import RemoteStorage

/// Where a WebDAV share is, and how to talk to it.
public struct WebDAVConfiguration: Sendable {
    /// How long each phase of a request may take.
    public struct Timeouts: Sendable {
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

    /// How often a request is tried again that the server didn't answer, or was too busy for.
    public struct Retries: Sendable {
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
        public static let none = Retries(attempts: 1)
    }

    /// The share, with the scheme `http` or `https`; what it names is there already.
    public let url: URL
    /// Who asks; `nil` for a share that is open to all.
    public var credentials: WebDAVCredentials?
    /// Whether credentials may be sent without TLS to another machine.
    public var allowsCredentialsWithoutTLS = false
    /// Files with certificates, in PEM form, that are trusted besides those of the system.
    public var trustedCertificates: [URL] = []
    /// How long each phase may take.
    public var timeouts = Timeouts()
    /// How often a request is tried again.
    public var retries = Retries()
    /// The clock by which tries are waited for.
    public var clock: any Clock<Duration> = ContinuousClock()

    /// Creates a configuration.
    ///
    /// - Parameters:
    ///   - url: The share, as `https://host:port/path`; also with the scheme `webdavs` or `webdav`, for `https` and `http`.
    ///   - credentials: Who asks.
    /// - Throws: ``RemoteError/Code/invalidPath`` if the URL is of another kind, or holds a password, which must not be
    ///   where URLs are shown.
    public init(url: URL, credentials: WebDAVCredentials? = nil) throws(RemoteError) {
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw Self.invalid("it can't be taken apart")
        }
        switch components.scheme?.lowercased() {
        case "http", "webdav": components.scheme = "http"
        case "https", "webdavs": components.scheme = "https"
        default: throw Self.invalid("its scheme is neither https nor http")
        }
        guard components.password == nil else {
            throw Self.invalid("it holds a password, which belongs into the credentials")
        }
        guard components.query == nil, components.fragment == nil else {
            throw Self.invalid("it has a query or a fragment")
        }
        guard let host = components.host, !host.isEmpty else { throw Self.invalid("it names no host") }
        components.user = nil
        guard let plain = components.url else { throw Self.invalid("it can't be taken apart") }
        self.url = plain
        self.credentials = credentials
    }

    private static func invalid(_ reason: String) -> RemoteError {
        // Without the URL itself: it may hold a password.
        RemoteError(.invalidPath, "That can't be the URL of a WebDAV share: \(reason). Write https://host:port/path.")
    }

    /// Throws where the credentials would be readable by everybody on the way.
    func checkCredentials() throws(RemoteError) {
        guard credentials != nil, url.scheme == "http", !allowsCredentialsWithoutTLS, !isLoopback else { return }
        throw RemoteError(
            .notAllowed,
            "Credentials aren't sent to \(url.host() ?? "") without TLS. Use https, or allow it explicitly."
        )
    }

    private var isLoopback: Bool {
        let host = (url.host() ?? "").trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        return host == "localhost" || host == "::1" || host.wholeMatch(of: /127\.\d+\.\d+\.\d+/) != nil
    }
}

/// A user of a WebDAV share.
///
/// The password shows in no description.
public struct WebDAVCredentials: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The user's name.
    public let user: String
    let password: String

    /// Creates credentials.
    public init(user: String, password: String) {
        self.user = user
        self.password = password
    }

    /// The user's name, without the password.
    public var description: String { "\(user), with a password" }
    /// The user's name, without the password.
    public var debugDescription: String { description }
    /// The user's name, without the password.
    public var customMirror: Mirror { Mirror(self, children: ["user": user]) }
}
