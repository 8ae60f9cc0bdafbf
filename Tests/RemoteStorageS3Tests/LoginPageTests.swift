import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing

@testable import RemoteStorageS3

@Suite("A network's login page in place of a bucket", .timeLimit(.minutes(60)))
struct LoginPageTests {
    /// A server that answers HEAD with a success and these headers; its lists are empty.
    private struct Portal: HTTPSending {
        let headers: HTTPHeaders

        func sendOnceIfPossible(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            guard request.method == .GET else { return HTTPResponse(status: 200, headers: headers, bytes: []) }
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }
    }

    private static func status(_ headers: [(String, String)]) async throws -> RemoteItem? {
        let backend = S3Backend(try S3Configuration(bucket: "bucket"), transport: Portal(headers: HTTPHeaders(headers)))
        return try await backend.status(of: RemotePath("file"))
    }

    @Test("isn't taken for a file, which has an ETag", arguments: [nil, "text/html", "application/octet-stream"])
    func head(type: String?) async throws {
        let headers = [("Content-Length", "10")] + (type.map { [("Content-Type", $0)] } ?? [])
        let error = await #expect(throws: RemoteError.self) { try await Self.status(headers) }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
        // Some servers leave the tag empty.
        for tag in ["\"1\"", "\"\""] {
            let item = try await Self.status(headers + [("ETag", tag)])
            #expect(item?.kind == .file && item?.size == 10)
        }
    }
}
