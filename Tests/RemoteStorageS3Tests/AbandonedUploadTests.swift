import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("The abandoned uploads that a bucket lists", .timeLimit(.minutes(60)))
struct AbandonedUploadTests {
    /// A bucket that lists these uploads as unfinished, and records the requests that remove something.
    private struct Bucket: HTTPSending {
        let bucket = ConditionalBucket(server: "SeaweedFS 30GB 4.48")
        let removals = Locked<[String]>([])
        let uploads: [(key: String, identifier: String)]

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            if request.method == .DELETE { removals.withLock { $0.append(request.target) } }
            guard request.method == .GET, request.target.contains("uploads=") else {
                return try await bucket.send(request)
            }
            let listed = uploads.map { key, identifier in
                """
                <Upload><Key>\(key)</Key><UploadId>\(identifier)</UploadId>\
                <Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>
                """
            }
            let xml = "<ListMultipartUploadsResult>\(listed.joined())</ListMultipartUploadsResult>"
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }

        /// Writes a file in parts, after which abandoned uploads are aborted.
        func writeInParts() async throws {
            var configuration = try S3Configuration(bucket: "bucket", endpoint: URL(string: "http://127.0.0.1:9"))
            (configuration.partSize, configuration.minimumPartSize) = (8, 8)
            let backend = S3Backend(configuration, transport: self)
            try await backend.write([UInt8](0..<50), to: RemotePath("new"), when: .always)
        }
    }

    @Test("An upload without an identifier isn't aborted, which would remove the file of its name")
    func unnamed() async throws {
        let bucket = Bucket(uploads: [("file", ""), ("file", "old")])
        try await bucket.writeInParts()
        #expect(bucket.removals.withLock(\.self) == ["/bucket/file?uploadId=old"])
    }

    @Test("At most the uploads of a page are aborted, however many the server lists")
    func count() async throws {
        let bucket = Bucket(uploads: (0..<1001).map { ("file", "old-\($0)") })
        try await bucket.writeInParts()
        #expect(bucket.removals.withLock(\.count) == 1000)
    }
}
