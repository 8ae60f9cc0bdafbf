import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

@testable import RemoteStorageWebDAV

/// A WebDAV server whose answers a test defines, and that records the requests.
///
/// The share is at the path `/dav/`.
struct ScriptedServer: HTTPSending {
    private let received = Locked<[String]>([])
    /// Answers the request with this method and path.
    let answer: @Sendable (_ line: String, _ request: HTTPRequest) async throws -> HTTPResponse

    init(_ answer: @escaping @Sendable (_ line: String, _ request: HTTPRequest) async throws -> HTTPResponse) {
        self.answer = answer
    }

    /// The methods and paths of all requests, such as `GET /dav/file`.
    var lines: [String] { received.withLock(\.self) }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        let line = "\(request.method) \(request.target)"
        received.withLock { $0.append(line) }
        return try await answer(line, request)
    }

    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

    /// Returns a backend of the share.
    func backend(clock: any Clock<Duration> = ContinuousClock()) throws -> WebDAVBackend {
        guard let url = URL(string: "https://share.example/dav") else { preconditionFailure("the URL isn't valid") }
        var configuration = try WebDAVConfiguration(url: url)
        configuration.clock = clock
        return WebDAVBackend(configuration, transport: self)
    }

    /// Returns an answer without a body.
    static func status(_ code: Int) -> HTTPResponse { HTTPResponse(status: code, headers: [:], bytes: []) }

    /// The answer of a network's login page; its body can be read once.
    static var loginPage: HTTPResponse {
        HTTPResponse(status: 200, headers: ["Content-Type": "text/html"], bytes: Array("<html></html>".utf8))
    }

    /// The answer of a known server, whose PUT is atomic, to OPTIONS; its body can be read once.
    static var options: HTTPResponse {
        HTTPResponse(status: 200, headers: ["Server": "nginx/1.22", "DAV": "2"], bytes: [])
    }

    /// Returns the answer to a PROPFIND for a directory, or for a file of this size.
    static func properties(of target: String, size: Int64? = nil) -> HTTPResponse {
        properties(of: [(target, size)])
    }

    /// Returns the answer to a PROPFIND for several items; the size of a directory is `nil`.
    static func properties(of items: [(target: String, size: Int64?)]) -> HTTPResponse {
        let responses = items.map { target, size in
            let properties =
                size.map { "<resourcetype/><getcontentlength>\($0)</getcontentlength>" }
                ?? "<resourcetype><collection/></resourcetype>"
            return """
                <response><href>\(target)</href><propstat><prop>\(properties)</prop>\
                <status>HTTP/1.1 200 OK</status></propstat></response>
                """
        }
        let xml = "<multistatus xmlns=\"DAV:\">\(responses.joined())</multistatus>"
        return HTTPResponse(status: 207, headers: [:], bytes: Array(xml.utf8))
    }
}
