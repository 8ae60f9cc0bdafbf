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
    /// The path and the query in the form that is sent: percent-encoded, from the server's root.
    package var target: String
    package var headers: [(String, String)]
    package var body: Body?
    /// Whether the request may be sent again although the server may have carried it out.
    package var mayBeRepeated = true
    /// The statuses that are returned although a retry may help, because the caller has another request to try.
    package var finalStatuses: Set<Int> = []
    /// The maximum length in bytes of an answer that is read completely before ``HTTPSending/send(_:)`` returns it.
    ///
    /// If it is `nil`, the body is streamed.
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

/// A server's answer, whose body may still be arriving.
package struct HTTPResponse: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    package var body: HTTPClientResponse.Body
    /// The transport that still receives the body, which must not be released before.
    package var transport: (any HTTPSending)?
    /// The whole body, if the request asked for it.
    package var bytes: [UInt8] = []
    /// Whether the request was sent more than once: the server may have carried out an earlier one without an answer.
    package var wasRepeated = false

    package init(status: Int, headers: HTTPHeaders, body: HTTPClientResponse.Body) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Creates an answer that was read completely.
    package init(status: Int, headers: HTTPHeaders, bytes: [UInt8]) {
        self.init(status: status, headers: headers, body: .bytes(ByteBuffer(bytes: bytes)))
        self.bytes = bytes
    }

    package var isSuccess: Bool { (200..<300).contains(status) }

    /// Whether this answer is a whole page of HTML of another length than the file that was asked for, such as a login page.
    ///
    /// - Parameter size: The file's size in bytes; if it's `nil`, no HTML counts as the file.
    /// - Returns: `false` also for an answer with a part of a file.
    package func isPage(insteadOfFileWith size: Int64?) -> Bool {
        guard status == 200, headers.first(name: "Content-Type")?.lowercased().hasPrefix("text/html") == true else {
            return false
        }
        guard let length = headers.first(name: "Content-Length") else {
            // The body is compared with the size while it arrives.
            return size == nil
        }
        // An empty body is no page.
        return Int64(length) != size && Int64(length) != 0
    }

    /// Reads the whole body into ``bytes``.
    mutating func readWhole(upTo limit: Int) async throws {
        let announced = Int(clamping: headers.contentLength ?? 0)
        for try await chunk in body {
            // Not before the first chunk: answers to HEAD announce bytes that don't follow.
            if bytes.isEmpty { bytes.reserveCapacity(max(0, min(announced, limit))) }
            guard announced <= limit, chunk.readableBytes <= limit - bytes.count else {
                throw NIOTooManyBytesError(maxBytes: limit)
            }
            bytes += chunk.readableBytesView
        }
        body = .bytes(ByteBuffer())
    }

    /// Reads and discards the body, so that its connection can be used again.
    package func discard() async {
        _ = try? await body.collect(upTo: 1 << 16)
    }
}

/// The sender of requests: a server's ``HTTPTransport``, or a test's replacement for it.
package protocol HTTPSending: Sendable {
    /// Sends a request, and retries it while that may help.
    ///
    /// - Returns: The answer, whatever its status.
    /// - Throws: ``RemoteError``; what a content threw; `CancellationError`.
    func send(_ request: HTTPRequest) async throws -> HTTPResponse

    /// Sends a request without retries.
    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse
}

/// The authentication of a client to a server.
package protocol HTTPAuthentication: Sendable {
    /// Returns the headers that are added to a request, each time that it is sent.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - host: The value of its `Host` header.
    /// - Returns: The headers' names and values.
    func headers(for request: HTTPRequest, host: String) -> [(String, String)]

    /// Returns whether to repeat a request that was refused with the status 401.
    ///
    /// - Parameters:
    ///   - headers: The headers of the refusal.
    ///   - sent: The request's `Authorization` header.
    ///   - count: How often this request was refused.
    /// - Returns: Whether the next attempt would have other headers; else the refusal is the answer.
    /// - Throws: ``RemoteError/Code/unauthorized``.
    func isChallenged(by headers: HTTPHeaders, after sent: String?, _ count: Int) throws -> Bool
}

/// The server to which requests are sent, and the rules for sending them.
package struct HTTPSettings: Sendable {
    /// The server, as `http://host:port`.
    package var origin: String
    /// The storage's name for people, without credentials.
    package var name: String
    package var timeouts = RequestTimeouts()
    package var retries = RequestRetries()
    package var clock: any Clock<Duration> = ContinuousClock()
    /// Files with certificates, in PEM form, that are trusted besides those of the system.
    package var trustedCertificates: [String] = []
    /// Whether there are credentials, and whether they may be sent without TLS to another machine.
    package var credentials = Credentials.none
    /// Whether redirects on the same server are followed; else they are returned as answers.
    package var followsRedirects = true
    /// Whether a request that got this answer may succeed later.
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
