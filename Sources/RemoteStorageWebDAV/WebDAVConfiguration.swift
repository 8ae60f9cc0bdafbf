public import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

/// The location of a WebDAV share, and the settings for requests to it.
public struct WebDAVConfiguration: Sendable {
    /// How long each phase of a request may take.
    public typealias Timeouts = RequestTimeouts
    /// How often a request is retried that the server didn't answer, or was too busy to answer.
    public typealias Retries = RequestRetries

    /// The URL of an existing share, with the scheme `http` or `https`.
    public let url: URL
    /// The user's credentials; `nil` for a share that is open to all.
    public var credentials: WebDAVCredentials?
    /// Whether credentials may be sent without TLS to another machine.
    public var allowsCredentialsWithoutTLS = false
    /// Files with certificates, in PEM form, that are trusted besides those of the system.
    public var trustedCertificates: [URL] = []
    /// How long each phase may take.
    public var timeouts = Timeouts()
    /// How often a request is retried.
    public var retries = Retries()
    /// The clock that measures the delays between attempts, and how slowly an answer arrives.
    public var clock: any Clock<Duration> = ContinuousClock()

    /// Creates a configuration.
    ///
    /// - Parameters:
    ///   - url: The share, as `https://host:port/path`; also with the scheme `webdavs` or `webdav`, for `https` and `http`.
    ///   - credentials: The user's credentials.
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` if the URL is of another kind, or if it contains a password, which
    ///   would appear wherever the URL is shown.
    public init(url: URL, credentials: WebDAVCredentials? = nil) throws(RemoteError) {
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw Self.invalid("it can't be parsed")
        }
        switch components.scheme?.lowercased() {
        case "http", "webdav": components.scheme = "http"
        case "https", "webdavs": components.scheme = "https"
        default: throw Self.invalid("its scheme is neither https nor http")
        }
        guard components.password == nil else {
            throw Self.invalid("it contains a password, which belongs in the credentials")
        }
        guard components.query == nil, components.fragment == nil else {
            throw Self.invalid("it has a query or a fragment")
        }
        guard let host = components.host, !host.isEmpty else { throw Self.invalid("it names no host") }
        guard components.port.map((1...65_535).contains) ?? true else {
            throw Self.invalid("its port isn't a number from 1 to 65535")
        }
        components.user = nil
        guard let plain = components.url else { throw Self.invalid("it can't be parsed") }
        self.url = plain
        self.credentials = credentials
    }

    private static func invalid(_ reason: String) -> RemoteError {
        // Without the URL itself: it may contain a password.
        RemoteError(.invalidPath, "This can't be the URL of a WebDAV share: \(reason). Write webdavs://host:port/path.")
    }

    /// Whether an attacker on the network could read the credentials; no request is sent then.
    package var exposesCredentials: Bool { settings(name: "").exposesCredentials }

    /// Returns the settings for requests to the share.
    func settings(name: String) -> HTTPSettings {
        var settings = HTTPSettings(origin: url.origin ?? "", name: name) { response, request in
            switch response.status {
            case 408, 423, 425, 429, 502, 503, 504: true
            // Some servers answer 500 to requests that never succeed. So after a change, the backend checks the result.
            case 500: [.GET, .HEAD, .OPTIONS, .PROPFIND].contains(request.method)
            default: false
            }
        }
        settings.timeouts = timeouts
        settings.retries = retries
        settings.clock = clock
        settings.trustedCertificates = trustedCertificates.map { $0.path(percentEncoded: false) }
        if credentials != nil { settings.credentials = allowsCredentialsWithoutTLS ? .inTheClear : .protected }
        return settings
    }
}

/// A user of a WebDAV share.
///
/// No description shows the password.
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
