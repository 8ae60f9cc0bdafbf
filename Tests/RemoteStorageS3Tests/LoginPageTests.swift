import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing

@testable import RemoteStorageS3

@Suite("A network's login page in place of a bucket", .timeLimit(.minutes(60)))
struct LoginPageTests {
    /// A server that answers every request for a file with a success and these headers; its lists are empty.
    private struct Portal: HTTPSending {
        let headers: HTTPHeaders

        func sendOnceIfPossible(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            guard request.target.contains("list-type") else {
                let body = request.method == .GET ? Array("<html>Sign in</html>".utf8) : []
                return HTTPResponse(status: 200, headers: headers, bytes: body)
            }
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }
    }

    private static func backend(_ headers: [(String, String)]) throws -> S3Backend {
        S3Backend(try S3Configuration(bucket: "bucket"), transport: Portal(headers: HTTPHeaders(headers)))
    }

    @Test("isn't taken for a file, which has an ETag", arguments: [nil, "text/html", "application/octet-stream"])
    func head(type: String?) async throws {
        let headers = [("Content-Length", "10")] + (type.map { [("Content-Type", $0)] } ?? [])
        let error = await #expect(throws: RemoteError.self) {
            try await Self.backend(headers).status(of: RemotePath("file"))
        }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
        // Some servers leave the tag empty.
        for tag in ["\"1\"", "\"\""] {
            let item = try await Self.backend(headers + [("ETag", tag)]).status(of: RemotePath("file"))
            #expect(item?.kind == .file && item?.size == 10)
        }
    }

    @Test("isn't read as a file", arguments: [nil, 0..<5, 2..<Int64.max] as [Range<Int64>?])
    func get(range: Range<Int64>?) async throws {
        let error = await #expect(throws: RemoteError.self) {
            try await Self.backend([("Content-Type", "text/html")]).read(RemotePath("file"), range: range)
        }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
    }
}
