public import Foundation
import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP

/// Where a WebDAV share is, and how to talk to it.
public struct WebDAVConfiguration: Sendable {
    /// How long each phase of a request may take.
    public typealias Timeouts = RequestTimeouts
    /// How often a request is tried again that the server didn't answer, or was too busy for.
    public typealias Retries = RequestRetries

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
    /// - Throws: ``/RemoteStorage/RemoteError/Code/invalidPath`` if the URL is of another kind, or holds a password, which must not be
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

    /// How requests to the share are sent.
    func settings(name: String) -> HTTPSettings {
        var origin = "\(url.scheme ?? "http")://\(url.host() ?? "")"
        if let port = url.port { origin += ":\(port)" }
        var settings = HTTPSettings(origin: origin, name: name) { response, request in
            switch response.status {
            case 408, 423, 425, 429, 502, 503, 504: true
            // Some servers answer so to what can never succeed, so what changes something is looked into instead.
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
