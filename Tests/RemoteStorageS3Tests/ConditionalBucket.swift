import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

@testable import RemoteStorageS3

/// A bucket in memory that enforces conditions, and in whose place a test can answer.
struct ConditionalBucket: HTTPSending {
    struct File: Equatable {
        var bytes: [UInt8]
        /// The identifier of the write that created it.
        var mark: String?

        var tag: String { "\"\(bytes)\"" }
    }

    struct State {
        var files: [String: File]
        /// The number of requests.
        var requests = 0
        fileprivate var uploads: [String: Upload] = [:]
    }

    fileprivate struct Upload {
        var mark: String?
        var parts: [Int: [UInt8]] = [:]
    }

    let state: Locked<State>
    /// The name by which the server is recognized; `nil` for an unknown server.
    private let server: String?
    /// Answers the request with this number, from 0, and method; `nil` to let the bucket answer.
    private let meddle: @Sendable (Int, HTTPMethod) -> HTTPResponse?
    /// Whether a proxy sends every PUT twice, and returns the second answer.
    var isBehindRepeatingProxy = false
    /// The status of the answer to a removal.
    var removalStatus = 204

    init(
        _ files: [String: [UInt8]] = [:],
        server: String? = nil,
        _ meddle: @escaping @Sendable (Int, HTTPMethod) -> HTTPResponse? = { _, _ in nil }
    ) {
        state = Locked(State(files: files.mapValues { File(bytes: $0) }))
        (self.server, self.meddle) = (server, meddle)
    }

    /// The bytes of the files that lists show.
    var files: [String: [UInt8]] {
        state.withLock { state in
            state.files.filter { key, _ in
                !key.split(separator: "/").contains { TemporaryName.isOne(String($0)) }
            }.mapValues(\.bytes)
        }
    }

    func backend() throws -> S3Backend {
        var configuration = try S3Configuration(bucket: "bucket", endpoint: URL(string: "http://127.0.0.1:9"))
        (configuration.partSize, configuration.minimumPartSize, configuration.largestCopy) = (8, 8, 40)
        return S3Backend(configuration, transport: self)
    }

    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

    func send(_ request: HTTPRequest) async throws -> HTTPResponse {
        state.withLock { state in
            defer { state.requests += 1 }
            if let response = meddle(state.requests, request.method) { return response }
            if isBehindRepeatingProxy, request.method == .PUT { _ = answer(request, &state) }
            var response = answer(request, &state)
            if let server { response.headers.add(name: "Server", value: server) }
            return response
        }
    }

    private func answer(_ request: HTTPRequest, _ state: inout State) -> HTTPResponse {
        guard let url = URLComponents(string: request.target) else { return reply(400) }
        let key = String(url.path.dropFirst("/bucket/".count))
        let query = Dictionary((url.queryItems ?? []).map { ($0.name, $0.value ?? "") }) { $1 }
        let headers = Dictionary(request.headers) { first, _ in first }
        let existing = state.files[key]
        let isRefused =
            headers["If-None-Match"] != nil && existing != nil
            || headers["If-Match"].map { $0 != existing?.tag } ?? false
        guard !isRefused else { return reply(412) }
        switch request.method {
        case .GET:
            return xml(query["uploads"] == nil ? list(query["prefix"] ?? "", state) : "<ListMultipartUploadsResult/>")
        case .HEAD:
            guard let existing else { return reply(404) }
            let time = "Sun, 22 Nov 2026 12:00:00 GMT"
            let headers = [
                ("ETag", existing.tag), ("Content-Length", "\(existing.bytes.count)"), ("Date", time),
                ("Last-Modified", time),
            ]
            return reply(200, headers + (existing.mark.map { [(S3Backend.Write.header, $0)] } ?? []))
        case .DELETE:
            if let upload = query["uploadId"] { state.uploads[upload] = nil } else { state.files[key] = nil }
            return reply(removalStatus)
        case .POST where query["uploads"] != nil:
            state.uploads["\(state.requests)"] = Upload(mark: headers[S3Backend.Write.header])
            return xml(
                """
                <InitiateMultipartUploadResult><UploadId>\(state.requests)</UploadId></InitiateMultipartUploadResult>
                """
            )
        case .POST:
            guard let upload = state.uploads.removeValue(forKey: query["uploadId"] ?? "") else {
                return xml("<Error><Code>NoSuchUpload</Code></Error>", status: 404)
            }
            let file = File(bytes: upload.parts.sorted { $0.key < $1.key }.flatMap(\.value), mark: upload.mark)
            state.files[key] = file
            return xml("<CompleteMultipartUploadResult><ETag>\(file.tag)</ETag></CompleteMultipartUploadResult>")
        default: return store(request, headers, key, query, &state)
        }
    }

    /// Stores a file or a part, from the request or from a file that it names.
    private func store(
        _ request: HTTPRequest,
        _ headers: [String: String],
        _ key: String,
        _ query: [String: String],
        _ state: inout State
    ) -> HTTPResponse {
        var file = File(bytes: [], mark: headers[S3Backend.Write.header])
        if case .bytes(let bytes, _) = request.body { file.bytes = bytes }
        let source = headers["X-Amz-Copy-Source"].map { String($0.dropFirst("/bucket/".count)) }
        if let source {
            guard let original = state.files[source] else {
                return xml("<Error><Code>NoSuchKey</Code></Error>", status: 404)
            }
            file = original
            if let range = headers["X-Amz-Copy-Source-Range"].flatMap({
                ContentRange($0.replacing("=", with: " ") + "/*")
            })?.range {
                file.bytes = Array(original.bytes[Int(range.lowerBound)..<Int(range.upperBound)])
            }
        }
        if let upload = query["uploadId"], let number = query["partNumber"].flatMap({ Int($0) }) {
            state.uploads[upload]?.parts[number] = file.bytes
        } else {
            state.files[key] = file
        }
        return source == nil
            ? reply(200, [("ETag", file.tag)]) : xml("<CopyResult><ETag>\(file.tag)</ETag></CopyResult>")
    }

    private func list(_ prefix: String, _ state: State) -> String {
        let contents = state.files.filter { $0.key.hasPrefix(prefix) }.map {
            "<Contents><Key>\($0.key)</Key><Size>\($0.value.bytes.count)</Size></Contents>"
        }
        return "<ListBucketResult><IsTruncated>false</IsTruncated>\(contents.joined())</ListBucketResult>"
    }

    private func reply(_ status: Int, _ headers: [(String, String)] = []) -> HTTPResponse {
        HTTPResponse(status: status, headers: HTTPHeaders(headers), bytes: [])
    }

    private func xml(_ text: String, status: Int = 200) -> HTTPResponse {
        HTTPResponse(status: status, headers: ["Content-Type": "application/xml"], bytes: Array(text.utf8))
    }
}
