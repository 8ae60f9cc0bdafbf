import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import RemoteStorage

/// Sends requests to one server: with credentials, with retries, and following redirects that stay on that server.
package final class HTTPTransport: HTTPSending {
    /// The error of a request that got no answer.
    private struct Broken: Error {
        var cause: any Error

        /// Whether the request waited for a free connection and wasn't sent.
        var isUnsent: Bool { cause as? HTTPClientError == .getConnectionFromPoolTimeout }

        /// Whether the server didn't answer within the time limit.
        var isTimeout: Bool { cause as? HTTPClientError == .readTimeout }
    }

    package let settings: HTTPSettings
    private let base: URL
    private let authentication: any HTTPAuthentication
    private let client: HTTPClient

    /// Creates a transport, which connects with its first request.
    package init(_ settings: HTTPSettings, _ authentication: any HTTPAuthentication) {
        var settings = settings
        settings.timeouts = settings.timeouts.representable
        self.settings = settings
        self.authentication = authentication
        base = URL(string: settings.origin) ?? URL(filePath: "/")
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.additionalTrustRoots = settings.trustedCertificates.map { .file($0) }
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls,
            redirectConfiguration: .disallow,
            timeout: HTTPClient.Configuration.Timeout(
                connect: TimeAmount(settings.timeouts.connect),
                read: TimeAmount(settings.timeouts.read),
                write: TimeAmount(settings.timeouts.write)
            ),
            connectionPool: HTTPClient.Configuration.ConnectionPool(
                idleTimeout: .seconds(30),
                concurrentHTTP1ConnectionsPerHostSoftLimit: 64
            )
        )
        configuration.httpVersion = .http1Only
        // This type decides about retries, for connections too.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.http1_1ConnectionDebugInitializer = { InterimResponseLimit.install(in: $0) }
        // Not AsyncHTTPClient's own choice: on Apple platforms that is Network.framework, for which it ignores additional trust
        // roots without a word.
        client = HTTPClient(
            eventLoopGroupProvider: .shared(MultiThreadedEventLoopGroup.singleton),
            configuration: configuration
        )
    }

    deinit {
        client.shutdown { _ in }
    }

    // MARK: Sending

    /// Sends a request, and retries it while that may help.
    ///
    /// - Returns: The answer, whatever its status.
    /// - Throws: ``RemoteError``; what a content threw; `CancellationError`.
    package func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try checkCredentials()
        var schedule = RetrySchedule(settings.retries)
        while true {
            try Task.checkCancellation()
            schedule.begin()
            var retryAfter: Duration?
            var failure: RemoteError
            do {
                var response = try await exchange(request)
                response.wasRepeated = schedule.attempts > 1
                guard !request.finalStatuses.contains(response.status), settings.isTransient(response, request)
                else { return response }
                // A gateway may answer while the server behind it continues.
                let isLeftOpen = [408, 500, 502, 504].contains(response.status)
                retryAfter = RetrySchedule.retryAfter(response)
                await response.discard()
                let wish = retryAfter.map { " It asks to wait for \($0.components.seconds) s." } ?? ""
                failure = RemoteError(
                    .unavailable,
                    "\(settings.name) is overloaded or faulty (HTTP status \(response.status)).\(wish) Try again later."
                )
                guard request.mayBeRepeated || !isLeftOpen else { throw failure }
            } catch let error as Broken {
                let certificates = settings.trustedCertificates
                if let failure = RemoteError(ofTLS: error.cause, to: settings.name, trusting: certificates) {
                    throw failure
                }
                failure = RemoteError(
                    .unavailable,
                    "\(settings.name) can't be reached. Try again later.",
                    cause: error.cause
                )
                guard request.mayBeRepeated else { throw failure }
                if error.isTimeout { schedule.noteTimeout() }
            }
            guard let delay = schedule.delay(retryAfter: retryAfter, random: .random(in: 0..<1)) else { throw failure }
            try await settings.clock.sleep(for: delay)
        }
    }

    /// Sends a request without retries.
    package func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse {
        try checkCredentials()
        return try await exchange(request)
    }

    /// Sends a request with credentials, and follows redirects.
    private func exchange(_ request: HTTPRequest) async throws -> HTTPResponse {
        var request = request
        var challenges = 0
        var redirects = 0
        while true {
            let headers = authentication.headers(for: request, host: host)
            let response: HTTPResponse
            do {
                response = try await sendOnce(request, headers)
            } catch let error as Broken where error.isUnsent {
                // AsyncHTTPClient's limit for connecting also ends the wait for a connection that another request uses. Each
                // of these requests has limits of its own.
                continue
            }
            switch response.status {
            case 401:
                challenges += 1
                let sent = headers.first { $0.0 == "Authorization" }?.1
                guard try authentication.isChallenged(by: response.headers, after: sent, challenges) else {
                    return response
                }
                await response.discard()
            case 301, 302, 307, 308:
                redirects += 1
                guard settings.followsRedirects, let location = response.headers.first(name: "Location") else {
                    return response
                }
                await response.discard()
                request.target = try target(of: location, relativeTo: request.target, redirects)
            default:
                return response
            }
        }
    }

    /// The value of the `Host` header: with the port unless it is the scheme's own.
    private var host: String {
        var name = base.host() ?? ""
        if name.contains(":"), !name.hasPrefix("[") { name = "[\(name)]" }
        return base.effectivePort == (base.scheme == "https" ? 443 : 80) ? name : "\(name):\(base.effectivePort)"
    }

    private func checkCredentials() throws(RemoteError) {
        guard settings.exposesCredentials else { return }
        throw RemoteError(
            .notAllowed,
            "Credentials aren't sent to \(base.host() ?? "") without TLS. Use https, or allow it explicitly."
        )
    }

    /// Returns the target of a redirect, and throws if that is another server.
    private func target(of location: String, relativeTo target: String, _ redirects: Int) throws -> String {
        guard redirects <= 5 else {
            throw RemoteError(.unavailable, "\(settings.name) redirects in a loop. Check the share's URL.")
        }
        let url = URL(string: settings.origin + target).flatMap { URL(string: location, relativeTo: $0)?.absoluteURL }
        guard let url, let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath,
            url.isOnServer(of: base)
        else {
            let server = url?.origin ?? "another server"
            let isOwnServer = url?.addsTLS(to: base) == true
            let remedy =
                isOwnServer
                ? "Use \(server.replacing(/^https/, with: "webdavs"))."
                : "A network's login page may be in the way: sign in, then try again. If you trust \(server), use its URL."
            throw RemoteError(
                // A login page's redirects end when the user signs in.
                isOwnServer ? .notAllowed : .unavailable,
                """
                \(settings.name) redirects to \(server). No redirect to another scheme, host or port is followed, to protect \
                the credentials. \(remedy)
                """
            )
        }
        return path.isEmpty ? "/" : path
    }

    // MARK: One exchange

    private func sendOnce(_ request: HTTPRequest, _ headers: [(String, String)]) async throws -> HTTPResponse {
        var message = HTTPClientRequest(url: settings.origin + request.target)
        message.method = request.method
        message.headers = HTTPHeaders(request.headers + headers)
        message.headers.add(name: "Host", value: host)
        message.headers.add(name: "User-Agent", value: "swift-store-sync")
        // Without this header, a server may compress any answer (RFC 9110, 12.5.3). It isn't signed, because proxies change it.
        message.headers.add(name: "Accept-Encoding", value: "identity")
        switch request.body {
        case .content(let content, let path):
            message.headers.add(name: "Content-Type", value: "application/octet-stream")
            return try await upload(content, path, message, replyLimit: request.replyLimit)
        case .bytes(let bytes, let contentType):
            message.headers.add(name: "Content-Type", value: contentType)
            // AsyncHTTPClient starts its read timeout when it has been given the whole body, even if most of it is unsent.
            guard bytes.count <= UploadPipe.sliceBytes else {
                return try await upload(RemoteContent(bytes), .root, message, replyLimit: request.replyLimit)
            }
            message.body = .bytes(ByteBuffer(bytes: bytes))
        case nil: break
        }
        return try await execute(message, replyLimit: request.replyLimit)
    }

    private func execute(_ message: HTTPClientRequest, replyLimit: Int? = nil) async throws -> HTTPResponse {
        do {
            // Each phase has its own limit. The duration of a whole request depends on the amount of data.
            let answer = try await client.execute(message, deadline: .distantFuture)
            let pace = MinimumPace(readTimeout: settings.timeouts.read)
            let body = PacedBody(body: answer.body, pace: pace, clock: settings.clock)
            var response = HTTPResponse(
                status: Int(answer.status.code),
                headers: answer.headers,
                body: .stream(body)
            )
            response.transport = self
            if response.status >= 300 {
                // The beginning of an error's page says enough.
                do {
                    try await response.readWhole(upTo: replyLimit ?? 1 << 18)
                } catch is NIOTooManyBytesError {
                    response.bytes = []
                    response.body = .bytes(ByteBuffer())
                }
            } else if let replyLimit {
                try await response.readWhole(upTo: replyLimit)
            }
            return response
        } catch let error as NIOTooManyBytesError {
            let length = error.maxBytes.map { " of more than \($0) bytes" } ?? ""
            throw RemoteError(
                .unavailable,
                """
                \(settings.name) sent an answer\(length), which is too long. Check the URL, or move items out of a directory \
                that has too many.
                """,
                cause: error
            )
        } catch {
            try Task.checkCancellation()
            throw Broken(cause: error)
        }
    }

    /// Sends a content as a request's body.
    ///
    /// A child task of this one reads the content, so that cancellation reaches it. AsyncHTTPClient's own task isn't a
    /// child of this one.
    private func upload(
        _ content: RemoteContent,
        _ path: RemotePath,
        _ message: HTTPClientRequest,
        replyLimit: Int?
    ) async throws -> HTTPResponse {
        let pipe = UploadPipe(content, path)
        var message = message
        message.body = .stream(pipe.channel, length: content.length.map { .known($0) } ?? .unknown)
        return try await withThrowingTaskGroup(of: HTTPResponse?.self) { [message] group in
            group.addTask {
                await pipe.pump()
                return nil
            }
            group.addTask { try await self.execute(message, replyLimit: replyLimit) }
            group.addTask {
                try await self.watch(pipe)
                return nil
            }
            defer { group.cancelAll() }
            do {
                while let response = try await group.next() {
                    if let response { return response }
                }
            } catch {
                // An error of the content also breaks the request: throw the content's error.
                throw pipe.failure ?? error
            }
            throw CancellationError()
        }
    }

    /// Throws if the server accepts nothing of a body for the time limit of writing.
    ///
    /// AsyncHTTPClient's limit doesn't apply while the connection accepts no bytes. Like its limits, this one is real time.
    private func watch(_ pipe: UploadPipe) async throws {
        var former: Int?
        while true {
            try await Task.sleep(for: settings.timeouts.write)
            let waiting = pipe.waitingSlice
            if let waiting, waiting == former { throw Broken(cause: HTTPClientError.writeTimeout) }
            former = waiting
        }
    }
}

extension RequestTimeouts {
    /// The same limits, but at most 100 years: the types that measure them can't hold every duration.
    fileprivate var representable: RequestTimeouts {
        let longest = Duration.seconds(100 * 365 * 86_400)
        return RequestTimeouts(connect: min(connect, longest), read: min(read, longest), write: min(write, longest))
    }
}

extension TimeAmount {
    fileprivate init(_ duration: Duration) {
        self = .nanoseconds(
            duration.components.seconds * 1_000_000_000 + duration.components.attoseconds / 1_000_000_000
        )
    }
}

extension URLComponents {
    /// Removes what makes no difference: upper case in the host's name, the scheme's own port, slashes at the end.
    package mutating func normalize() {
        host = host?.lowercased()
        if port == (scheme?.lowercased() == "https" ? 443 : 80) { port = nil }
        while percentEncodedPath.hasSuffix("/") { percentEncodedPath.removeLast() }
    }
}

extension URL {
    fileprivate var effectivePort: Int { port ?? (scheme?.lowercased() == "https" ? 443 : 80) }

    /// The scheme, the host and the port, as `https://host:port`; `nil` for a URL without a host.
    package var origin: String? {
        // `URL.host()` omits the brackets of an IPv6 address.
        guard let components = URLComponents(url: self, resolvingAgainstBaseURL: true),
            let scheme = components.scheme?.lowercased(), let host = components.percentEncodedHost, !host.isEmpty
        else { return nil }
        return "\(scheme)://\(host)" + (components.port.map { ":\($0)" } ?? "")
    }

    /// Whether this URL names the host of another one, with TLS instead of without.
    package func addsTLS(to other: URL) -> Bool {
        scheme?.lowercased() == "https" && other.scheme?.lowercased() == "http"
            && host()?.lowercased() == other.host()?.lowercased()
    }

    /// Whether two URLs have the same scheme, host and port; letter case doesn't matter in the first two.
    fileprivate func isOnServer(of other: URL) -> Bool {
        scheme?.lowercased() == other.scheme?.lowercased() && host()?.lowercased() == other.host()?.lowercased()
            && effectivePort == other.effectivePort
    }
}
