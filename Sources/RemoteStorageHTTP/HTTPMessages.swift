package import AsyncHTTPClient
import NIOCore
package import NIOHTTP1
package import RemoteStorage

/// A request to a server.
package struct HTTPRequest: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8], contentType: String)
        case content(RemoteContent, RemotePath)
    }

    package var method: HTTPMethod
    /// The path and the query as they are sent: percent-encoded, from the server's root.
    package var target: String
    package var headers: [(String, String)]
    package var body: Body?
    /// Whether it may be sent again although it may have been carried out.
    package var mayBeRepeated = true
    /// How long an answer may be that is read whole before it counts as one, in bytes; `nil` to leave it on its way.
    package var replyLimit: Int?

    package init(
        method: HTTPMethod,
        target: String,
        headers: [(String, String)] = [],
        body: Body? = nil,
        replyLimit: Int? = nil
    ) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.replyLimit = replyLimit
    }
}

/// A server's answer, whose body may still be on its way.
package struct HTTPResponse: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    package var body: HTTPClientResponse.Body
    /// The whole body, where the request asked for it.
    package var bytes: [UInt8] = []
    /// Whether the request was sent more than once: an earlier one may have been carried out without an answer.
    package var wasRepeated = false

    package init(status: Int, headers: HTTPHeaders, body: HTTPClientResponse.Body) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// An answer that was read whole.
    package init(status: Int, headers: HTTPHeaders, bytes: [UInt8]) {
        self.init(status: status, headers: headers, body: .bytes(ByteBuffer(bytes: bytes)))
        self.bytes = bytes
    }

    package var isSuccess: Bool { (200..<300).contains(status) }

    /// Reads the whole body into ``bytes``.
    mutating func readWhole(upTo limit: Int) async throws {
        let announced = headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
        for try await chunk in body {
            // Not before: what answers to HEAD announce doesn't come.
            if bytes.isEmpty { bytes.reserveCapacity(max(0, min(announced, limit))) }
            guard announced <= limit, chunk.readableBytes <= limit - bytes.count else {
                throw NIOTooManyBytesError(maxBytes: limit)
            }
            bytes += chunk.readableBytesView
        }
        body = .bytes(ByteBuffer())
    }

    /// Reads a body that isn't needed, so that its connection can be used again.
    package func discard() async {
        _ = try? await body.collect(upTo: 1 << 16)
    }
}

/// What requests are sent by: a server's ``HTTPTransport``, or what a test puts in its place.
package protocol HTTPSending: Sendable {
    /// Sends a request, again as often as that may help.
    ///
    /// - Returns: The answer, whatever its status.
    /// - Throws: ``RemoteError``; what a content threw; `CancellationError`.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse

    /// Sends a request and doesn't insist on it.
    func sendOnceIfPossible(_ request: HTTPRequest) async throws -> HTTPResponse
}

/// What shows a server who asks.
package protocol HTTPAuthentication: Sendable {
    /// Says which headers a request gets besides its own, each time that it is sent.
    ///
    /// - Parameters:
    ///   - request: What is sent.
    ///   - host: The value of its `Host` header.
    /// - Returns: The headers' names and values.
    func headers(for request: HTTPRequest, host: String) -> [(String, String)]

    /// Says whether to send a request once more that was refused with the status 401.
    ///
    /// - Parameters:
    ///   - headers: The refusal's.
    ///   - sent: What the request had as its `Authorization`.
    ///   - count: How often this request was refused.
    /// - Returns: Whether the next one would have other headers; else the refusal is the answer.
    /// - Throws: ``RemoteError/Code/unauthorized``.
    func isChallenged(by headers: HTTPHeaders, after sent: String?, _ count: Int) throws -> Bool
}

/// Where requests go, and how.
package struct HTTPSettings: Sendable {
    /// The server, as `http://host:port`.
    package var origin: String
    /// The place's name for people, without credentials.
    package var name: String
    package var timeouts = RequestTimeouts()
    package var retries = RequestRetries()
    package var clock: any Clock<Duration> = ContinuousClock()
    /// Files with certificates, in PEM form, that are trusted besides those of the system.
    package var trustedCertificates: [String] = []
    /// Whether there are credentials, and whether they may be sent without TLS to another machine.
    package var credentials = Credentials.none
    /// Whether redirects are followed, on the same server; else they are given as answers.
    package var followsRedirects = true
    /// Whether the same request may succeed later that got this answer.
    package var isTransient: @Sendable (HTTPResponse, HTTPRequest) -> Bool

    package enum Credentials: Sendable {
        case none, protected, inTheClear
    }

    package init(
        origin: String,
        name: String,
        isTransient: @escaping @Sendable (HTTPResponse, HTTPRequest) -> Bool
    ) {
        self.origin = origin
        self.name = name
        self.isTransient = isTransient
    }
}
