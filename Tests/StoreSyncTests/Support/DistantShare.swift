import Foundation
import NIOHTTP1
import OperationsTesting
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

@testable import RemoteStorageWebDAV

/// A WebDAV share in memory that answers like a real server.
///
/// Every request takes a second of simulated time, as at a ``DistantBucket``.
struct DistantShare: HTTPSending {
    /// The server that it imitates.
    enum Kind: CaseIterable {
        case apache, lighttpd, wsgiDAV

        fileprivate var headers: [(String, String)] {
            switch self {
            case .apache: [("Server", "Apache/2.4"), ("DAV", "1,2"), ("DAV", "<http://apache.org/dav/propset/fs/1>")]
            case .lighttpd: [("Server", "lighttpd/1.4"), ("DAV", "1,2,3")]
            case .wsgiDAV: [("Server", "WsgiDAV/4.3"), ("DAV", "1,2")]
            }
        }
    }

    enum Entry {
        case directory
        case file([UInt8])

        var bytes: [UInt8]? {
            guard case .file(let bytes) = self else { return nil }
            return bytes
        }
    }

    /// The content of a share, which several connections may use.
    struct Contents {
        var entries: [String: Entry] = ["": .directory]
        /// The beginning of a file name: of the next such file, only half is stored, and the server reports success.
        var cut: String?
        var requests = 0
    }

    let kind: Kind
    let contents: Locked<Contents>
    let clock: SimulatedClock

    static func configuration() throws -> WebDAVConfiguration {
        guard let url = URL(string: "https://share.example/") else { preconditionFailure("the URL isn't valid") }
        return try WebDAVConfiguration(url: url)
    }

    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await clock.sleep(for: .seconds(1))
        let bytes: [UInt8] =
            switch request.body {
            case .content(let content, _): try await content.bytes(upTo: 1 << 28)
            case .bytes(let bytes, _): bytes
            case nil: []
            }
        return contents.withLock { contents in
            contents.requests += 1
            var bytes = bytes
            if request.method == .PUT, let cut = contents.cut, request.target.contains("/\(cut)") {
                contents.cut = nil
                bytes = Array(bytes.prefix(bytes.count / 2))
            }
            var response = answer(request, bytes, &contents.entries)
            for (name, value) in kind.headers { response.headers.add(name: name, value: value) }
            return response
        }
    }

    private static func key(_ target: some StringProtocol) -> String {
        (target.removingPercentEncoding ?? "").split(separator: "/").joined(separator: "/")
    }

    private func answer(
        _ request: HTTPRequest,
        _ bytes: [UInt8],
        _ entries: inout [String: Entry]
    ) -> HTTPResponse {
        func status(_ code: Int) -> HTTPResponse { HTTPResponse(status: code, headers: [:], bytes: []) }
        func header(_ name: String) -> String? { request.headers.first { $0.0 == name }?.1 }
        let key = Self.key(request.target)
        let parent = key.split(separator: "/").dropLast().joined(separator: "/")
        let isInDirectory = entries[parent].map { $0.bytes == nil } ?? false
        switch request.method {
        case .OPTIONS: return status(200)
        case .PROPFIND: return properties(of: key, depth: header("Depth"), entries)
        case .GET:
            guard let bytes = entries[key]?.bytes else { return status(404) }
            return HTTPResponse(status: 200, headers: ["Content-Length": "\(bytes.count)"], bytes: bytes)
        case .MKCOL:
            guard entries[key] == nil else { return status(405) }
            guard isInDirectory else { return status(409) }
            entries[key] = .directory
            return status(201)
        case .PUT:
            guard isInDirectory else { return status(409) }
            if header("If-None-Match") != nil, entries[key] != nil { return status(412) }
            if let tag = header("If-Match"), entries[key]?.bytes.map({ Self.tag($0) }) != tag { return status(412) }
            entries[key] = .file(bytes)
            return status(201)
        case .DELETE:
            guard entries[key] != nil else { return status(404) }
            entries = entries.filter { $0.key != key && !$0.key.hasPrefix(key + "/") }
            return status(204)
        case .MOVE, .COPY:
            guard let destination = header("Destination").flatMap(URL.init(string:)).map({ Self.key($0.path()) }),
                entries[key] != nil
            else { return status(404) }
            guard header("Overwrite") == "T" || entries[destination] == nil else { return status(412) }
            for (name, entry) in entries where name == key || name.hasPrefix(key + "/") {
                entries[destination + name.dropFirst(key.count)] = entry
                if request.method == .MOVE { entries[name] = nil }
            }
            return status(201)
        default: return status(501)
        }
    }

    private static func tag(_ bytes: [UInt8]) -> String { "\"\(bytes.count)-\(bytes.hashValue)\"" }

    private func properties(of key: String, depth: String?, _ entries: [String: Entry]) -> HTTPResponse {
        guard entries[key] != nil else { return HTTPResponse(status: 404, headers: [:], bytes: []) }
        let prefix = key.isEmpty ? "" : key + "/"
        let responses = entries.filter { name, _ in
            name == key || depth == "1" && name.hasPrefix(prefix) && !name.dropFirst(prefix.count).contains("/")
        }
        let bodies = responses.map { name, entry in
            let properties =
                entry.bytes.map { "<getcontentlength>\($0.count)</getcontentlength><getetag>\(Self.tag($0))</getetag>" }
                ?? "<resourcetype><collection/></resourcetype>"
            return """
                <response><href>/\(name)</href><propstat><prop>\(properties)</prop><status>HTTP/1.1 200 OK</status>\
                </propstat></response>
                """
        }
        let xml = "<multistatus xmlns=\"DAV:\">\(bodies.joined())</multistatus>"
        return HTTPResponse(status: 207, headers: [:], bytes: Array(xml.utf8))
    }
}
