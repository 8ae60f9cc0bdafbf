import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOSSL
import RemoteStorage
import ThreadSupport

/// A request to the share's server.
struct HTTPRequest: Sendable {
    enum Body: Sendable {
        case bytes(String, contentType: String)
        case content(RemoteContent, RemotePath)
    }

    var method: HTTPMethod
    /// The path as it is sent: percent-encoded, from the server's root.
    var target: String
    var headers: [(String, String)] = []
    var body: Body?

    /// Whether it may be sent again although it may have been carried out.
    var mayBeRepeated = true

    /// Whether it changes nothing.
    var isReading: Bool { [.GET, .HEAD, .OPTIONS, .PROPFIND].contains(method) }
}

/// A server's answer, whose body may still be on its way.
struct HTTPResponse: Sendable {
    var status: Int
    var headers: HTTPHeaders
    var body: HTTPClientResponse.Body
    /// Whether the request was sent more than once: an earlier one may have been carried out without an answer.
    var wasRepeated = false

    var isSuccess: Bool { (200..<300).contains(status) }
    /// A MOVE or DELETE that answers 207 names what it couldn't do.
    var isWholeSuccess: Bool { isSuccess && status != 207 }

    /// Reads a body that isn't needed, so that its connection can be used again.
    func discard() async {
        _ = try? await body.collect(upTo: 1 << 16)
    }
}

/// Sends requests to one server: with credentials, following redirects that stay there, and again when that may help.
final class HTTPTransport: Sendable {
    /// What sending a request failed with, when it wasn't an answer.
    private struct Broken: Error {
        var cause: any Error
    }

    let configuration: WebDAVConfiguration
    /// The server, as `http://host:port`.
    let origin: String
    /// The share's name for people, without credentials.
    let name: String
    private let client: HTTPClient
    private let authorization: Locked<Authorization>

    init(_ configuration: WebDAVConfiguration, name: String) {
        self.configuration = configuration
        self.name = name
        var origin = "\(configuration.url.scheme ?? "http")://\(configuration.url.host() ?? "")"
        if let port = configuration.url.port { origin += ":\(port)" }
        self.origin = origin
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.additionalTrustRoots = configuration.trustedCertificates.map { .file($0.path(percentEncoded: false)) }
        var settings = HTTPClient.Configuration(
            tlsConfiguration: tls,
            redirectConfiguration: .disallow,
            timeout: HTTPClient.Configuration.Timeout(
                connect: TimeAmount(configuration.timeouts.connect),
                read: TimeAmount(configuration.timeouts.read),
                write: TimeAmount(configuration.timeouts.write)
            ),
            connectionPool: HTTPClient.Configuration.ConnectionPool(
                idleTimeout: .seconds(30),
                concurrentHTTP1ConnectionsPerHostSoftLimit: 64
            )
        )
        settings.httpVersion = .http1Only
        // Whether to try again is decided here, for connections too.
        settings.connectionPool.retryConnectionEstablishment = false
        client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: settings)
        authorization = Locked(Authorization(configuration.credentials))
    }

    deinit {
        client.shutdown { _ in }
    }

    // MARK: Sending

    /// Sends a request, again as often as that may help.
    ///
    /// - Returns: The answer, whatever its status.
    /// - Throws: ``RemoteError``; what a content threw; `CancellationError`.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try configuration.checkCredentials()
        var schedule = RetrySchedule(configuration.retries)
        while true {
            try Task.checkCancellation()
            schedule.begin()
            var retryAfter: Duration?
            var failure: RemoteError
            do {
                var response = try await exchange(request)
                response.wasRepeated = schedule.attempts > 1
                guard RetrySchedule.isWorthRetrying(status: response.status, isReading: request.isReading) else {
                    return response
                }
                retryAfter = RetrySchedule.retryAfter(response.headers.first(name: "Retry-After"), now: Date())
                await response.discard()
                let wish = retryAfter.map { " It asks to be left alone for \($0.components.seconds) s." } ?? ""
                failure = RemoteError(
                    .unavailable,
                    "\(name) is too busy or not in order (HTTP status \(response.status)).\(wish) Try again later."
                )
            } catch let error as Broken {
                failure = RemoteError(.unavailable, "\(name) can't be reached. Try again later.", cause: error.cause)
                guard request.mayBeRepeated else { throw failure }
            }
            guard let delay = schedule.delay(retryAfter: retryAfter, random: .random(in: 0..<1)) else { throw failure }
            try await configuration.clock.sleep(for: delay)
        }
    }

    /// Sends a request and doesn't insist on it.
    func sendOnceIfPossible(_ request: HTTPRequest) async throws -> HTTPResponse {
        try configuration.checkCredentials()
        return try await exchange(request)
    }

    /// Sends a request, with credentials where they are asked for, and to where it is redirected.
    private func exchange(_ request: HTTPRequest) async throws -> HTTPResponse {
        var request = request
        var challenges = 0
        var redirects = 0
        while true {
            let clientNonce = String(UInt64.random(in: .min ... .max), radix: 36)
            let header = authorization.withLock {
                $0.header(method: request.method.rawValue, target: request.target, clientNonce: clientNonce)
            }
            let response = try await sendOnce(request, authorization: header)
            switch response.status {
            case 401:
                challenges += 1
                let asked = AuthenticationChallenge.read(response.headers["WWW-Authenticate"])
                guard challenges <= 3, authorization.withLock({ $0.challenged(after: header, asked) }) else {
                    await response.discard()
                    throw unauthorized
                }
                await response.discard()
            case 301, 302, 307, 308:
                redirects += 1
                guard let location = response.headers.first(name: "Location") else { return response }
                await response.discard()
                request.target = try target(of: location, relativeTo: request.target, redirects)
            default:
                return response
            }
        }
    }

    private var unauthorized: RemoteError {
        let advice =
            configuration.credentials == nil
            ? "It wants a user name and a password." : "Check the user name and the password."
        return RemoteError(.unauthorized, "\(name) refuses access. \(advice)")
    }

    /// Where a redirect leads, if that is the same server.
    private func target(of location: String, relativeTo target: String, _ redirects: Int) throws -> String {
        guard redirects <= 5 else {
            throw RemoteError(.unavailable, "\(name) redirects in a circle. Check the share's URL.")
        }
        guard let base = URL(string: origin + target), let url = URL(string: location, relativeTo: base)?.absoluteURL,
            let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath,
            url.scheme == base.scheme, url.host() == base.host(), url.effectivePort == base.effectivePort
        else {
            let host = URL(string: location)?.host() ?? "another place"
            throw RemoteError(
                .notAllowed,
                "\(name) redirects to \(host), which isn't followed: credentials go to no other server. Use its URL if you trust it."
            )
        }
        return path.isEmpty ? "/" : path
    }

    // MARK: One exchange

    private func sendOnce(_ request: HTTPRequest, authorization: String?) async throws -> HTTPResponse {
        var message = HTTPClientRequest(url: origin + request.target)
        message.method = request.method
        message.headers = HTTPHeaders(request.headers)
        message.headers.add(name: "User-Agent", value: "swift-store-sync")
        if let authorization { message.headers.add(name: "Authorization", value: authorization) }
        switch request.body {
        case .content(let content, let path):
            return try await upload(content, path, message)
        case .bytes(let text, let contentType):
            message.headers.add(name: "Content-Type", value: contentType)
            message.body = .bytes(ByteBuffer(string: text))
        case nil: break
        }
        return try await execute(message)
    }

    private func execute(_ message: HTTPClientRequest) async throws -> HTTPResponse {
        do {
            // Each phase has its own limit; how long a whole request takes depends on how much there is to send.
            let response = try await client.execute(message, deadline: .distantFuture)
            return HTTPResponse(status: Int(response.status.code), headers: response.headers, body: response.body)
        } catch {
            try Task.checkCancellation()
            throw Broken(cause: error)
        }
    }

    /// Sends a content as a request's body.
    ///
    /// The content is read by a child task of this one, so it is cancelled with it; AsyncHTTPClient's own isn't.
    private func upload(
        _ content: RemoteContent,
        _ path: RemotePath,
        _ message: HTTPClientRequest
    ) async throws -> HTTPResponse {
        let pipe = UploadPipe(content, path)
        var message = message
        message.headers.add(name: "Content-Type", value: "application/octet-stream")
        message.body = .stream(pipe.channel, length: content.length.map { .known($0) } ?? .unknown)
        return try await withThrowingTaskGroup(of: HTTPResponse?.self) { [message] group in
            group.addTask {
                await pipe.pump()
                return nil
            }
            group.addTask { try await self.execute(message) }
            defer { group.cancelAll() }
            do {
                while let response = try await group.next() {
                    if let response { return response }
                }
            } catch {
                // What the content failed with broke the request too.
                throw pipe.failure ?? error
            }
            throw CancellationError()
        }
    }
}

extension TimeAmount {
    init(_ duration: Duration) {
        self = .nanoseconds(
            duration.components.seconds * 1_000_000_000 + duration.components.attoseconds / 1_000_000_000
        )
    }
}

extension URL {
    var effectivePort: Int { port ?? (scheme == "https" ? 443 : 80) }
}
