import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("A network's login page in place of a bucket", .timeLimit(.minutes(60)))
struct LoginPageTests {
    /// A server that answers every request for a file with a success and these headers; its lists are empty.
    private struct Portal: HTTPSending {
        let headers: HTTPHeaders

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

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

    @Test(
        "A login page isn't taken for a file, which has an ETag",
        arguments: [nil, "text/html", "application/octet-stream"]
    )
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

    @Test(
        "A login page isn't read as a file, even if it has an ETag",
        arguments: [nil, 0..<5, 2..<Int64.max] as [Range<Int64>?],
        [nil, "\"1\""]
    )
    func get(range: Range<Int64>?, tag: String?) async throws {
        let headers = [("Content-Type", "text/html; charset=utf-8")] + (tag.map { [("ETag", $0)] } ?? [])
        let error = await #expect(throws: RemoteError.self) {
            try await Self.backend(headers).read(RemotePath("file"), range: range)
        }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
    }

    @Test(
        "A login page isn't read as the rest of a file whose version the server doesn't identify, even if it has an ETag",
        arguments: [false, true]
    )
    func rest(hasTag: Bool) async throws {
        var page = Self.page
        if hasTag { page.headers.add(name: "ETag", value: "\"1\"") }
        var file = PartedDownloadTests.OneFile(bytes: PartedDownloadTests.pattern(3 * PartedDownloadTests.partSize))
        file.answer = { [page] number, usual in
            var response = usual
            response.headers.remove(name: "ETag")
            return number == 1 ? response : page
        }
        let backend = try file.backend
        let error = await #expect(throws: RemoteError.self) { try await backend.read(RemotePath("file")) }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
    }

    @Test(
        "A login page with HTTP status 404 isn't taken for a missing bucket or directory",
        arguments: [nil, "file", "directory/file"]
    )
    func missingRoute(name: String?) async throws {
        let path = try name.map { try RemotePath($0) } ?? .root
        for request in [
            { _ = try await $0.status(of: path) }, { _ = try await $0.list(path) },
            { try await $0.remove(RemotePath("file")) },
        ] as [@Sendable (S3Backend) async throws -> Void] {
            let bucket = ConditionalBucket { _, _ in HTTPResponse(status: 404, headers: [:], bytes: Self.page.bytes) }
            let error = await #expect(throws: RemoteError.self) { try await request(bucket.backend()) }
            #expect(error?.code == .unavailable && error?.message.contains("Check the URL") == true, "\(error as Any)")
        }
    }

    @Test(
        "The answer to a removal that isn't S3's counts only if the key is gone",
        arguments: [200, 202, 404, 410],
        ["file", "directory"]
    )
    func removal(status: Int, name: String) async throws {
        let isCaught = Locked(true)
        var bucket = ConditionalBucket(["file": [1], "directory/a": [2]]) { _, method in
            guard method == .DELETE, isCaught.withLock(\.self) else { return nil }
            return HTTPResponse(status: status, headers: [:], bytes: [])
        }
        bucket.removalStatus = 200
        let (backend, path) = (try bucket.backend(), try RemotePath(name))
        let error = await #expect(throws: RemoteError.self) { try await backend.remove(path) }
        #expect(error?.code == .unavailable, "\(error as Any)")
        #expect(bucket.files.count == 2)
        isCaught.withLock { $0 = false }
        try await backend.remove(path)
        #expect(bucket.files.count == 1)
    }

    // MARK: In place of one answer

    static let page = HTTPResponse(
        status: 200,
        headers: ["Content-Type": "text/html"],
        bytes: Array("<html><body><form action='/login'>Sign in</form></body></html>".utf8)
    )
    private static let answers = [
        page,
        HTTPResponse(status: 302, headers: ["Location": "http://login.example/?from=here"], bytes: page.bytes),
        HTTPResponse(status: 511, headers: ["Content-Type": "text/html"], bytes: page.bytes),
        HTTPResponse(status: 200, headers: ["Content-Type": "text/html", "ETag": "\"1\""], bytes: page.bytes),
    ]

    /// Returns a page in place of the answer to a request; `nil` if the client can't tell it from a file.
    private static func page(_ answer: Int, to method: HTTPMethod) -> HTTPResponse? {
        method == .HEAD && answers[answer].headers.contains(name: "ETag") ? nil : answers[answer]
    }

    /// A request to a backend, and whether it may be repeated after an error.
    struct Step: Sendable, CustomStringConvertible {
        let description: String
        var mayBeRepeated = true
        let run: @Sendable (S3Backend) async throws -> Void
    }

    private static let steps = [
        Step(description: "write") { try await $0.write([1, 2], to: RemotePath("new"), when: .always) },
        Step(description: "create") { try await $0.write([1, 2], to: RemotePath("new/file"), when: .ifAbsent) },
        Step(description: "replace") {
            let tag = try #require(try await $0.status(of: RemotePath("file"))?.tag)
            try await $0.write([1, 2], to: RemotePath("file"), when: .ifMatches(tag))
        },
        Step(description: "write in parts") { try await $0.write(large, to: RemotePath("new"), when: .always) },
        Step(description: "create in parts") { try await $0.write(large, to: RemotePath("new"), when: .ifAbsent) },
        Step(description: "create a directory") { try await $0.createDirectory(at: RemotePath("new")) },
        Step(description: "copy") { try await $0.copy(RemotePath("file"), to: RemotePath("new"), when: .always) },
        Step(description: "copy in parts") {
            try await $0.copy(RemotePath("large"), to: RemotePath("new"), when: .always)
        },
        Step(description: "move", mayBeRepeated: false) {
            try await $0.move(RemotePath("directory"), to: RemotePath("new"))
        },
        Step(description: "remove") { try await $0.remove(RemotePath("directory")) },
    ]
    private static let large = [UInt8](0..<50)

    private static func bucket(
        server: String? = "SeaweedFS 30GB 4.48",
        _ meddle: @escaping @Sendable (Int, HTTPMethod) -> HTTPResponse? = { _, _ in nil }
    ) -> ConditionalBucket {
        ConditionalBucket(
            ["file": [1], "large": large, "directory/a": [2], "directory/inner/b": [3]],
            server: server,
            meddle
        )
    }

    @Test(
        "A login page never counts as the success of a request, and what it stopped succeeds afterwards",
        arguments: steps,
        answers.indices
    )
    func oneAnswer(step: Step, answer: Int) async throws {
        let undisturbed = Self.bucket()
        try await step.run(undisturbed.backend())
        let count = undisturbed.state.withLock(\.requests)
        #expect(count > 1)
        for number in 0..<count {
            let bucket = Self.bucket { $0 == number ? Self.page(answer, to: $1) : nil }
            let backend = try bucket.backend()
            do {
                try await step.run(backend)
            } catch let error as RemoteError {
                #expect(error.code == .unavailable, "request \(number): \(error)")
                guard step.mayBeRepeated else { continue }
                try await step.run(backend)
            }
            #expect(bucket.files == undisturbed.files, "request \(number)")
        }
    }

    @Test("A login page disproves no capability of an unknown server", arguments: answers.indices)
    func probes(answer: Int) async throws {
        let undisturbed = Self.bucket(server: nil)
        let expected = try await undisturbed.backend().capabilities()
        #expect(expected.isSuperset(of: [.exclusiveCreate, .conditionalReplace]))
        for number in 0..<undisturbed.state.withLock(\.requests) {
            let bucket = Self.bucket(server: nil) { $0 == number ? Self.page(answer, to: $1) : nil }
            let backend = try bucket.backend()
            do {
                let found = try await backend.capabilities()
                #expect(found == expected, "request \(number)")
            } catch let error as RemoteError {
                #expect(error.code == .unavailable, "request \(number): \(error)")
                #expect(try await backend.capabilities() == expected, "request \(number)")
            }
        }
    }

    @Test("A login page doesn't keep a server from being recognized by its name afterwards", arguments: answers.indices)
    func recognition(answer: Int) async throws {
        let isCaught = Locked(true)
        let bucket = Self.bucket { _, _ in isCaught.withLock(\.self) ? Self.answers[answer] : nil }
        let backend = try bucket.backend()
        await #expect(throws: RemoteError.self) { try await backend.list(.root) }
        isCaught.withLock { $0 = false }
        #expect(try await backend.capabilities().contains(.resumableWrite))
    }
}
