import ByteCoding
import Foundation
import NIOHTTP1
import OperationsTesting
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

@testable import RemoteStorageS3

/// A bucket in memory at which every request takes a second of simulated time.
///
/// The seconds that pass are therefore the length of the longest chain of requests that waited for each other.
struct DistantBucket: HTTPSending {
    /// The content of a bucket, which several connections may share.
    struct Objects {
        var bytes: [String: [UInt8]] = [:]
        var requests = 0
    }

    let objects: Locked<Objects>
    let clock: SimulatedClock

    static func configuration() throws -> S3Configuration {
        try S3Configuration(bucket: "bucket", region: "us-east-1")
    }

    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await clock.sleep(for: .seconds(1))
        return objects.withLock { objects in
            objects.requests += 1
            var response = answer(request, &objects.bytes)
            response.headers.add(name: "Server", value: "AmazonS3")
            if request.replyLimit == nil, response.isSuccess { response.bytes = [] }
            return response
        }
    }

    private func answer(_ request: HTTPRequest, _ objects: inout [String: [UInt8]]) -> HTTPResponse {
        let parts = request.target.split(separator: "?", maxSplits: 1).map { String($0) }
        let key = (parts[0].removingPercentEncoding ?? "").dropFirst()
        guard !key.isEmpty else { return list(parts.count > 1 ? parts[1] : "", objects) }
        let existing = objects[String(key)]
        switch request.method {
        case .PUT:
            guard case .bytes(let bytes, _) = request.body else {
                return HTTPResponse(status: 501, headers: [:], bytes: [])
            }
            let isRefused = request.headers.contains { name, value in
                name == "If-None-Match" && existing != nil || name == "If-Match" && existing.map { tag($0) } != value
            }
            guard !isRefused else { return HTTPResponse(status: 412, headers: [:], bytes: []) }
            objects[String(key)] = bytes
            return HTTPResponse(status: 200, headers: ["ETag": tag(bytes)], bytes: [])
        case .DELETE:
            objects[String(key)] = nil
            return HTTPResponse(status: 204, headers: [:], bytes: [])
        default:
            guard let existing else { return HTTPResponse(status: 404, headers: [:], bytes: []) }
            let headers: HTTPHeaders = [
                "ETag": tag(existing), "Content-Length": "\(existing.count)",
                "Last-Modified": "Sat, 21 Nov 2026 19:18:38 GMT",
            ]
            return HTTPResponse(status: 200, headers: headers, bytes: request.method == .HEAD ? [] : existing)
        }
    }

    private func tag(_ bytes: [UInt8]) -> String { "\"\(S3Payload(bytes).sha256.hexadecimal)\"" }

    private func list(_ query: String, _ objects: [String: [UInt8]]) -> HTTPResponse {
        let items = URLComponents(string: "?\(query)")?.queryItems ?? []
        let prefix = items.first { $0.name == "prefix" }?.value ?? ""
        let isFlat = !items.contains { $0.name == "delimiter" }
        var (contents, prefixes) = ("", Set<String>())
        for (key, bytes) in objects.sorted(by: { $0.key < $1.key }) where key.hasPrefix(prefix) {
            if !isFlat, let slash = key.dropFirst(prefix.count).firstIndex(of: "/") {
                prefixes.insert(String(key[...slash]))
            } else {
                contents +=
                    "<Contents><Key>\(key)</Key><Size>\(bytes.count)</Size><ETag>\(tag(bytes))</ETag></Contents>"
            }
        }
        for prefix in prefixes { contents += "<CommonPrefixes><Prefix>\(prefix)</Prefix></CommonPrefixes>" }
        let xml = "<ListBucketResult><IsTruncated>false</IsTruncated>\(contents)</ListBucketResult>"
        return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
    }
}
