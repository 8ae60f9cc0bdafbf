import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("The probe of an unknown S3 server", .timeLimit(.minutes(60)))
struct S3ProbingTests {
    /// A server that ignores every condition, and records the requests.
    private struct CarelessBucket: HTTPSending {
        let requests = Locked<[HTTPRequest]>([])
        /// Whether the server refuses requests with checksums that S3 introduced in 2022, as Cloudflare R2 does.
        var refusesChecksums = false

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            requests.withLock { $0.append(request) }
            if refusesChecksums, request.namesChecksum { return HTTPResponse(status: 501, headers: [:], bytes: []) }
            if request.target.contains("uploads=") {
                let xml = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
            }
            guard request.method == .GET else {
                return HTTPResponse(status: request.method == .HEAD ? 404 : 200, headers: ["ETag": "\"1\""], bytes: [])
            }
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }
    }

    @Test("An unknown S3 server is probed once, however many requests wait for the result")
    func oneProbe() async throws {
        let bucket = CarelessBucket()
        let endpoint = try #require(URL(string: "http://127.0.0.1:9"))
        let backend = S3Backend(try S3Configuration(bucket: "bucket", endpoint: endpoint), transport: bucket)
        try await withThrowingTaskGroup(of: RemoteCapabilities.self) { group in
            for _ in 0..<10 { group.addTask { try await backend.capabilities() } }
            for try await capabilities in group { #expect(!capabilities.contains(.exclusiveCreate)) }
        }
        let probes = bucket.requests.withLock {
            $0.compactMap { $0.target.firstMatch(of: /probe-\d+/).map { String($0.output) } }
        }
        #expect(Set(probes).count == 1)
    }

    @Test("A proxy that sends requests twice disproves no capability of an unknown S3 server")
    func repeatedRequests() async throws {
        let expected = try await ConditionalBucket().backend().capabilities()
        #expect(expected.isSuperset(of: [.exclusiveCreate, .conditionalReplace]))
        var bucket = ConditionalBucket()
        bucket.isBehindRepeatingProxy = true
        #expect(try await bucket.backend().capabilities() == expected)
        #expect(bucket.files.isEmpty)
    }

    @Test(
        "A probe finds out whether a server refuses SHA-256 checksums, which it then doesn't get",
        arguments: [false, true]
    )
    func checksums(refuses: Bool) async throws {
        let bucket = CarelessBucket(refusesChecksums: refuses)
        let endpoint = try #require(URL(string: "http://127.0.0.1:9"))
        var configuration = try S3Configuration(bucket: "bucket", endpoint: endpoint)
        (configuration.partSize, configuration.minimumPartSize) = (4, 4)
        let backend = S3Backend(configuration, transport: bucket)
        try await backend.createDirectory(at: RemotePath("directory"))
        try await backend.write([1, 2], to: RemotePath("small"), when: .always)
        try await backend.write([UInt8](repeating: 1, count: 10), to: RemotePath("large"), when: .always)
        let files = bucket.requests.withLock { requests in
            requests.filter { $0.method == .PUT && $0.target.firstMatch(of: /small|large/) != nil }
        }
        // One file, and three parts of the other one.
        #expect(files.count == 4)
        #expect(files.allSatisfy { $0.headers.contains { $0.0 == "Content-MD5" } })
        #expect(files.allSatisfy { $0.namesChecksum != refuses })
        let refused = bucket.requests.withLock { $0.count { $0.namesChecksum } }
        #expect(!refuses || refused == 1)
    }
}

extension HTTPRequest {
    /// Whether a header or the body of this request names a SHA-256 checksum.
    fileprivate var namesChecksum: Bool {
        var text = headers.map(\.0).joined(separator: " ")
        if case .bytes(let bytes, _) = body { text += String(decoding: bytes, as: UTF8.self) }
        return text.contains("X-Amz-Checksum") || text.contains("ChecksumSHA256")
    }
}
