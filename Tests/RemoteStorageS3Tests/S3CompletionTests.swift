import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import S3Servers
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageS3

extension S3Tests {
    @Suite("A multipart upload that the server completed although no answer arrived", .serialized)
    struct CompletionTests {
        @Test(
            "The next write of the same bytes recognizes a completed multipart upload, and sends no part again",
            arguments: S3ServerKind.plainInstalled
        )
        func lostAnswers(kind: S3ServerKind) async throws {
            let server = try await S3Server.shared(kind)
            let path = try RemotePath("large")
            let isBroken = Locked(true)
            let proxy = try FaultProxy(to: server.port) { _, line in
                let isCompletion = line.hasPrefix("POST") && line.contains("large?uploadId=")
                return isCompletion && isBroken.withLock(\.self) ? .loseReply : .none
            }
            var configuration = try server.configuration(port: proxy.port, prefix: UUID().uuidString)
            configuration.partSize = S3Configuration.smallestPartSize
            let backend = S3Backend(configuration)
            let bytes = [UInt8](repeating: 7, count: 2 * configuration.partSize + 1)
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write(RemoteContent(bytes), to: path, when: .always)
            }
            #expect(error?.code == .unavailable)
            isBroken.withLock { $0 = false }
            let before = proxy.lines.count
            let written = try await backend.write(RemoteContent(bytes), to: path, when: .always)
            #expect(!proxy.lines.dropFirst(before).contains { $0.contains("partNumber=") })
            #expect(try await backend.status(of: path)?.tag == written.tag)
            #expect(try await backend.bytes(at: path, upTo: bytes.count) == bytes)
            // Content of the same parts but the last isn't mistaken for it. moto fails if an upload that it has completed gets a part.
            for other in [Array(bytes.dropLast())] + (kind == .moto ? [] : [bytes.dropLast() + [8]]) {
                isBroken.withLock { $0 = true }
                await #expect(throws: RemoteError.self) {
                    try await backend.write(RemoteContent(bytes), to: path, when: .always)
                }
                isBroken.withLock { $0 = false }
                do {
                    try await backend.write(RemoteContent(other), to: path, when: .always)
                } catch let error as RemoteError {
                    #expect(error.code == .unavailable)
                    try await backend.write(RemoteContent(other), to: path, when: .always)
                }
                #expect(try await backend.bytes(at: path, upTo: bytes.count) == other)
            }
        }
    }
}

@Suite("A multipart upload that the server completes late", .timeLimit(.minutes(60)))
struct S3LateCompletionTests {
    /// A bucket with one file, whose first completion isn't answered, and is carried out with the next request that ends the
    /// upload.
    private struct SlowBucket: HTTPSending {
        struct State {
            var file: [UInt8]?
            var mark: String?
            var parts: [Int: [UInt8]] = [:]
            var completions = 0
            /// The file of the first completion, until that is carried out.
            var pending: [UInt8]?
        }

        let state = Locked(State())

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            let query = URLComponents(string: request.target)?.queryItems ?? []
            let answer = state.withLock { self.answer(request, query, &$0) }
            guard let answer else { throw RemoteError(.unavailable, "The connection broke off.") }
            return answer
        }

        /// Returns the answer to a request; `nil` if none arrives.
        private func answer(
            _ request: HTTPRequest,
            _ query: [URLQueryItem],
            _ state: inout State
        ) -> HTTPResponse? {
            let number = query.first { $0.name == "partNumber" }.flatMap { Int($0.value ?? "") }
            let mark = request.headers.first { $0.0 == S3Backend.Write.header }?.1
            switch request.method {
            case .GET: return xml("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
            case .HEAD where state.file != nil:
                let headers = [(S3Backend.Write.header, state.mark ?? ""), ("ETag", "\"1\"")]
                return HTTPResponse(status: 200, headers: HTTPHeaders(headers), bytes: [])
            case .POST where mark != nil:
                (state.mark, state.parts) = (mark, [:])
                return xml("<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
            case .PUT:
                guard let number, case .bytes(let bytes, _) = request.body else { break }
                state.parts[number] = bytes
                return HTTPResponse(status: 200, headers: ["ETag": "\"\(bytes)\""], bytes: [])
            case .POST, .DELETE:
                if let late = state.pending {
                    (state.file, state.pending) = (late, nil)
                    return xml("<Error><Code>NoSuchUpload</Code></Error>", status: 404)
                }
                guard request.method == .POST else { break }
                let file = state.parts.sorted { $0.key < $1.key }.flatMap(\.value)
                state.completions += 1
                guard state.completions > 1 else {
                    state.pending = file
                    return nil
                }
                state.file = file
                return xml(
                    " \n<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>2</ETag></CompleteMultipartUploadResult>"
                )
            default: break
            }
            return HTTPResponse(status: 404, headers: [:], bytes: [])
        }

        private func xml(_ text: String, status: Int = 200) -> HTTPResponse {
            HTTPResponse(status: status, headers: ["Server": "AmazonS3"], bytes: Array(text.utf8))
        }
    }

    @Test(
        "A multipart upload that is completed late counts as the next write only if that has the same bytes",
        arguments: [true, false]
    )
    func lateCompletion(isSame: Bool) async throws {
        let bucket = SlowBucket()
        var configuration = try S3Configuration(bucket: "bucket")
        (configuration.partSize, configuration.minimumPartSize) = (4, 4)
        let backend = S3Backend(configuration, transport: bucket)
        let path = try RemotePath("large")
        let former = [UInt8](0..<10)
        await #expect(throws: RemoteError.self) { try await backend.write(former, to: path, when: .always) }
        // As many parts, of which the last differs.
        let next = isSame ? former : former.dropLast() + [100]
        if !isSame {
            let error = await #expect(throws: RemoteError.self) {
                try await backend.write(next, to: path, when: .always)
            }
            #expect(error?.code == .unavailable)
        }
        try await backend.write(next, to: path, when: .always)
        #expect(bucket.state.withLock { $0.file } == next)
        #expect(bucket.state.withLock { $0.completions } == (isSame ? 1 : 2))
    }
}
