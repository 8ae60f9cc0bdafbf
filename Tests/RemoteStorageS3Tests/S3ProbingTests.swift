import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("The probe of an unknown S3 server", .timeLimit(.minutes(60)))
struct S3ProbingTests {
    /// A server that ignores every condition, and records the requests' targets.
    private struct CarelessBucket: HTTPSending {
        let targets = Locked<[String]>([])

        func sendOnceIfPossible(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            targets.withLock { $0.append(request.target) }
            guard request.method == .GET else {
                return HTTPResponse(status: request.method == .HEAD ? 404 : 200, headers: ["ETag": "\"1\""], bytes: [])
            }
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }
    }

    @Test("is made once, however many requests wait for the result")
    func oneProbe() async throws {
        let bucket = CarelessBucket()
        let endpoint = try #require(URL(string: "http://127.0.0.1:9"))
        let backend = S3Backend(try S3Configuration(bucket: "bucket", endpoint: endpoint), transport: bucket)
        try await withThrowingTaskGroup(of: RemoteCapabilities.self) { group in
            for _ in 0..<10 { group.addTask { try await backend.capabilities() } }
            for try await capabilities in group { #expect(!capabilities.contains(.exclusiveCreate)) }
        }
        let probes = bucket.targets.withLock {
            $0.compactMap { $0.firstMatch(of: /probe-\d+/).map { String($0.output) } }
        }
        #expect(Set(probes).count == 1)
    }
}
