import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("Moving in a bucket", .timeLimit(.minutes(60)))
struct S3MovingTests {
    /// A bucket in memory, in which a test acts as another client between the requests.
    private struct SharedBucket: HTTPSending {
        /// The files by their keys, which are percent-encoded: as strings, canonically equivalent keys would be equal.
        let objects: Locked<[String: [UInt8]]>
        /// The parts of unfinished uploads, by their keys and numbers.
        let parts = Locked<[String: [Int: [UInt8]]]>([:])
        /// The maximum size of a copy in one request.
        var largestCopy = Int.max
        /// A key that every list of several keys names in addition, wherever it is.
        var foreignKey: String?
        /// Acts before a request, of which it receives the method and the key; returns whether the request fails.
        let meddle: @Sendable (String, inout [String: [UInt8]]) -> Bool

        init(_ keys: [String], _ meddle: @escaping @Sendable (String, inout [String: [UInt8]]) -> Bool) {
            objects = Locked(Dictionary(uniqueKeysWithValues: keys.map { ($0, Array($0.utf8)) }))
            self.meddle = meddle
        }

        var keys: [String] { objects.withLock { $0.keys.sorted() } }

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            let url = try #require(URLComponents(string: request.target))
            let key = String(url.percentEncodedPath.dropFirst())
            return objects.withLock { objects in
                if meddle("\(request.method) \(key)", &objects) {
                    return HTTPResponse(status: 403, headers: [:], bytes: [])
                }
                if key.isEmpty { return list(url.queryItems ?? [], objects) }
                if let query = url.queryItems { return answerUpload(request, key, query, &objects) }
                return answer(request, key, &objects)
            }
        }

        private func answer(_ request: HTTPRequest, _ key: String, _ objects: inout [String: [UInt8]]) -> HTTPResponse {
            let source = request.headers.first { $0.0 == "X-Amz-Copy-Source" }?.1
            let bytes = objects[source.map { String($0.dropFirst("/bucket/".count)) } ?? key]
            switch request.method {
            case .PUT where source == nil:
                objects[key] = []
                return HTTPResponse(status: 200, headers: ["ETag": "\"[]\""], bytes: [])
            case .PUT where bytes.map { $0.count > largestCopy } ?? false:
                return HTTPResponse(status: 400, headers: [:], bytes: [])
            case .PUT where bytes != nil:
                objects[key] = bytes
                let xml = "<CopyObjectResult><ETag>\"\(bytes ?? [])\"</ETag></CopyObjectResult>"
                return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
            case .DELETE:
                objects[key] = nil
                return HTTPResponse(status: 204, headers: [:], bytes: [])
            case .HEAD where bytes != nil: break
            default: return HTTPResponse(status: 404, headers: [:], bytes: [])
            }
            let size = ["Content-Length": "\(bytes?.count ?? 0)", "ETag": "\"\(bytes ?? [])\""] as HTTPHeaders
            return HTTPResponse(status: 200, headers: size, bytes: [])
        }

        /// Starts, continues or completes an upload whose parts are copies; ends it without completing it on DELETE.
        private func answerUpload(
            _ request: HTTPRequest,
            _ key: String,
            _ query: [URLQueryItem],
            _ objects: inout [String: [UInt8]]
        ) -> HTTPResponse {
            let headers = Dictionary(request.headers) { first, _ in first }
            let number = query.first { $0.name == "partNumber" }.flatMap { Int($0.value ?? "") }
            var xml = "<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>"
            if query.contains(where: { $0.name == "uploads" }) {
                parts.withLock { $0[key] = [:] }
                xml = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            } else if let number, let source = headers["X-Amz-Copy-Source"],
                let range = headers["X-Amz-Copy-Source-Range"].flatMap({
                    ContentRange($0.replacing("=", with: " ") + "/*")
                })?.range
            {
                guard let bytes = objects[String(source.dropFirst("/bucket/".count))] else {
                    return HTTPResponse(status: 404, headers: [:], bytes: [])
                }
                parts.withLock { $0[key]?[number] = Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]) }
                xml = "<CopyPartResult><ETag>\"1\"</ETag></CopyPartResult>"
            } else if let all = parts.withLock({ $0.removeValue(forKey: key) }), request.method == .POST {
                objects[key] = all.sorted { $0.key < $1.key }.flatMap(\.value)
            }
            return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
        }

        private func list(_ query: [URLQueryItem], _ objects: [String: [UInt8]]) -> HTTPResponse {
            let prefix = query.first { $0.name == "prefix" }?.value ?? ""
            let foreign = query.contains { $0.name == "max-keys" } ? nil : foreignKey
            let contents = objects.map { (key: $0.key.removingPercentEncoding ?? "", size: $0.value.count) }
                .filter { $0.key.utf8.starts(with: prefix.utf8) || $0.key == foreign }
                .map { "<Contents><Key>\($0.key)</Key><Size>\($0.size)</Size></Contents>" }
            let xml = "<ListBucketResult><IsTruncated>false</IsTruncated>\(contents.joined())</ListBucketResult>"
            return HTTPResponse(status: 200, headers: ["Server": "AmazonS3"], bytes: Array(xml.utf8))
        }

        func backend() throws -> S3Backend {
            var configuration = try S3Configuration(bucket: "bucket", region: "us-east-1")
            if largestCopy < .max { configuration.largestCopy = Int64(largestCopy) }
            return S3Backend(configuration, transport: self)
        }
    }

    private static let files = ["from/", "from/a", "from/inner/", "from/inner/b"]

    @Test("Moving a directory moves all files and directories in it, and leaves nothing")
    func whole() async throws {
        let bucket = SharedBucket(Self.files) { _, _ in false }
        try await bucket.backend().move(RemotePath("from"), to: RemotePath("to"))
        #expect(bucket.keys == ["to/a", "to/inner/b"])
        #expect(bucket.objects.withLock { $0["to/inner/b"] } == Array("from/inner/b".utf8))
    }

    @Test(
        "Moving a directory removes no file that another client has finished moving to the same destination",
        arguments: [false, true]
    )
    func sameMove(isRefused: Bool) async throws {
        let isFirst = Locked(true)
        let bucket = SharedBucket(Self.files) { line, objects in
            let isCopy =
                line.hasPrefix("PUT to/")
                && isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst
                }
            guard isCopy else { return false }
            // The other client moves everything at this moment.
            objects = ["to/a": [1], "to/inner/b": [2]]
            return isRefused
        }
        let backend = try bucket.backend()
        await #expect(throws: RemoteError.self) { try await backend.move(RemotePath("from"), to: RemotePath("to")) }
        #expect(bucket.keys.filter { !$0.hasSuffix("/") } == ["to/a", "to/inner/b"])
        #expect(bucket.objects.withLock { $0["to/inner/b"] } == [2])
    }

    @Test("Moving or removing a directory changes nothing if its list names a key outside of it")
    func foreignKeys() async throws {
        var bucket = SharedBucket(Self.files + ["from2/file"]) { _, _ in false }
        bucket.foreignKey = "from2/file"
        for request in [
            { try await $0.move(RemotePath("from"), to: RemotePath("to")) },
            { try await $0.remove(RemotePath("from")) },
        ] as [@Sendable (S3Backend) async throws -> Void] {
            let backend = try bucket.backend()
            let error = await #expect(throws: RemoteError.self) { try await request(backend) }
            #expect(error?.code == .unavailable)
            #expect(bucket.keys == (Self.files + ["from2/file"]).sorted())
        }
    }

    @Test("Moving a directory leaves only the source if it fails")
    func failure() async throws {
        let bucket = SharedBucket(Self.files) { line, _ in line == "PUT to/inner/b" }
        let backend = try bucket.backend()
        let error = await #expect(throws: RemoteError.self) {
            try await backend.move(RemotePath("from"), to: RemotePath("to"))
        }
        #expect(error?.code == .notAllowed)
        #expect(bucket.keys == Self.files)
    }

    @Test(
        "Moving a directory keeps files that another client writes into it meanwhile",
        arguments: ["from/new", "from/inner/new"]
    )
    func additions(key: String) async throws {
        let bucket = SharedBucket(Self.files) { line, objects in
            if line.hasPrefix("PUT to/") { objects[key] = [3] }
            return false
        }
        try await bucket.backend().move(RemotePath("from"), to: RemotePath("to"))
        #expect(bucket.objects.withLock { $0[key] } == [3])
        let files = bucket.keys.filter { !$0.hasSuffix("/") }
        #expect(files == [key, "to/a", "to/inner/b"].sorted())
        #expect(bucket.keys.contains("from/inner/") == (key == "from/inner/new"))
    }

    @Test("Moving a file or a directory copies in parts what is larger than the server copies in one request")
    func largeFiles() async throws {
        var bucket = SharedBucket(["from/", "from/inner/large", "small"]) { _, _ in false }
        bucket.largestCopy = 10
        try await bucket.backend().move(RemotePath("from"), to: RemotePath("to"))
        try await bucket.backend().move(RemotePath("small"), to: RemotePath("moved"))
        try await bucket.backend().copy(RemotePath("to/inner/large"), to: RemotePath("copied"), when: .always)
        #expect(bucket.keys == ["copied", "moved", "to/inner/large"])
        for key in ["copied", "to/inner/large"] {
            #expect(bucket.objects.withLock { $0[key] } == Array("from/inner/large".utf8))
        }
        #expect(bucket.parts.withLock { $0.isEmpty })
    }

    @Test("The parts of a copy cover any size that a server claims, and there are at most 10,000 of them")
    func claimedSizes() async throws {
        let backend = try SharedBucket([]) { _, _ in false }.backend()
        for size in [1, 5 << 40, Int64.max - 1, .max] {
            let parts = await backend.partsToCopy(of: size)
            #expect(parts.count <= PartedUpload.maximumParts)
            #expect(parts.first?.lowerBound == 0 && parts.last?.upperBound == size)
            #expect(zip(parts, parts.dropFirst()).allSatisfy { $0.upperBound == $1.lowerBound })
        }
    }

    /// Files and directories whose names differ only in the form of a Unicode character, percent-encoded.
    private static let equivalent = ["%C3%A9", "e%CC%81"]

    @Test("Moving a directory keeps apart names that differ only in the form of a Unicode character")
    func equivalentKeys() async throws {
        let bucket = SharedBucket(Self.equivalent.flatMap { ["from/\($0)/", "from/\($0)/\($0)"] }) { _, _ in false }
        try await bucket.backend().move(RemotePath("from"), to: RemotePath("to"))
        #expect(bucket.keys == Self.equivalent.map { "to/\($0)/\($0)" }.sorted())
    }

    @Test("A failed move of a directory keeps a file that another client moved, though an equivalent name is left")
    func equivalentLeftover() async throws {
        let hasFailed = Locked(false)
        let bucket = SharedBucket(Self.equivalent.map { "from/\($0)" } + ["from/last"]) { line, objects in
            if line == "PUT to/last" {
                hasFailed.withLock { $0 = true }
                return true
            }
            // The next list tells which copies are removed.
            guard line == "GET ", hasFailed.withLock(\.self) else { return false }
            objects["from/%C3%A9"] = nil
            objects["to/%C3%A9"] = [2]
            return false
        }
        let backend = try bucket.backend()
        await #expect(throws: RemoteError.self) { try await backend.move(RemotePath("from"), to: RemotePath("to")) }
        #expect(bucket.keys == ["from/e%CC%81", "from/last", "to/%C3%A9"])
        #expect(bucket.objects.withLock { $0["to/%C3%A9"] } == [2])
    }

    @Test("Moving a large file that is replaced while it is copied fails, and leaves no parts behind")
    func replacedLargeFile() async throws {
        var bucket = SharedBucket(["from/largefile"]) { line, objects in
            if line == "PUT to" { objects["from/largefile"] = [UInt8](repeating: 1, count: 20) }
            return false
        }
        bucket.largestCopy = 10
        let backend = try bucket.backend()
        let error = await #expect(throws: RemoteError.self) {
            try await backend.move(RemotePath("from/largefile"), to: RemotePath("to"))
        }
        #expect(error?.code == .unavailable)
        #expect(bucket.keys == ["from/largefile"])
        #expect(bucket.parts.withLock { $0.isEmpty })
    }

    @Test("Moving a file has no effect on a directory with the same name")
    func file() async throws {
        let bucket = SharedBucket(["from", "from/a"]) { _, _ in false }
        try await bucket.backend().move(RemotePath("from"), to: RemotePath("to"))
        #expect(bucket.keys == ["from/a", "to"])
    }
}
