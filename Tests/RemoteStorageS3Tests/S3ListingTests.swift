import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("A bucket whose list has many pages", .timeLimit(.minutes(60)))
struct S3ListingTests {
    /// A server whose pages a test defines, and that counts the pages it sends.
    private struct PagedBucket: HTTPSending {
        let pages = Locked(0)
        /// The targets of requests that remove keys.
        let removed = Locked<[String]>([])
        /// The keys of a page and the token of the next page, by the page's number from 0.
        let page: @Sendable (Int) -> (keys: [String], next: String?)

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            if request.method == .DELETE { removed.withLock { $0.append(request.target) } }
            switch request.method {
            case .GET: break
            case .HEAD: return HTTPResponse(status: 404, headers: [:], bytes: [])
            case .DELETE: return HTTPResponse(status: 204, headers: [:], bytes: [])
            default: return HTTPResponse(status: 200, headers: ["ETag": "\"1\""], bytes: [])
            }
            let number = pages.withLock { pages in
                defer { pages += 1 }
                return pages
            }
            let (keys, next) = page(number)
            let contents = keys.map { "<Contents><Key>\($0)</Key><Size>1</Size></Contents>" }.joined()
            let more = next.map { "<NextContinuationToken>\($0)</NextContinuationToken>" } ?? ""
            let xml =
                "<ListBucketResult><IsTruncated>\(next != nil)</IsTruncated>\(more)\(contents)</ListBucketResult>"
            return HTTPResponse(status: 200, headers: ["Server": "AmazonS3"], bytes: Array(xml.utf8))
        }

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func backend(prefix: String = "") throws -> S3Backend {
            S3Backend(try S3Configuration(bucket: "bucket", prefix: prefix, region: "us-east-1"), transport: self)
        }
    }

    @Test(
        "A list that never ends is an error that says what to do, whatever its continuation tokens are",
        arguments: [
            ("one token", 2), ("two tokens in turn", 11), ("another token each time", 11),
            ("another token, and no keys", 10), ("another token and another key each time", 1000),
        ]
    )
    func endless(way: String, pages: Int) async throws {
        let bucket = PagedBucket { number in
            switch way {
            case "one token": (["file"], "token")
            case "two tokens in turn": (["file"], "token \(number % 2)")
            case "another token each time": (["file"], "token \(number)")
            case "another token and another key each time": (["file \(number)"], "token \(number)")
            default: ([], "token \(number)")
            }
        }
        let error = await #expect(throws: RemoteError.self) { try await bucket.backend().list(.root) }
        #expect(error?.code == .unavailable)
        #expect(error?.message.contains("Try again later") == true, "\(String(describing: error))")
        #expect(bucket.pages.withLock(\.self) == pages)
    }

    @Test("A list that never ends is an error before its pages fill the memory")
    func hugePages() async throws {
        let name = String(repeating: "x", count: 20_000)
        // A page has 9 MB.
        let bucket = PagedBucket { number in ((0..<450).map { "\(number)-\($0)-\(name)" }, "token \(number)") }
        let error = await #expect(throws: RemoteError.self) { try await bucket.backend().list(.root) }
        #expect(error?.code == .unavailable && error?.message.contains("doesn't end") == true)
        #expect(bucket.pages.withLock(\.self) == 8)
    }

    @Test("A list ends before short or repeated keys fill the memory, but may have a million keys")
    func manyKeys() {
        func page(_ number: Int, repeating count: Int) -> [String] {
            ["\(number)"] + Array(repeating: "a", count: count)
        }
        var limits = ListLimits()
        var pages = 1
        while limits.allowAnotherPage(after: page(pages, repeating: 100_000)) { pages += 1 }
        #expect(pages == 11)
        limits = ListLimits()
        let fits = (1..<1000).allSatisfy { limits.allowAnotherPage(after: page($0, repeating: 999)) }
        #expect(fits)
    }

    @Test("A directory is removed whole, even if two keys differ only in the form of a Unicode character")
    func equivalentKeys() async throws {
        let bucket = PagedBucket { _ in (["directory/\u{E9}", "directory/e\u{301}"], nil) }
        try await bucket.backend().remove(RemotePath("directory"))
        let removed = bucket.removed.withLock(\.self)
        #expect(removed.contains("/directory/%C3%A9") && removed.contains("/directory/e%CC%81"), "\(removed)")
    }

    @Test(
        "A list that names a key outside of the directory or the prefix is an error, and nothing is removed",
        arguments: ["ann2/file", "ann", "annex", "Ann/file", "other/file", ""]
    )
    func foreignKeys(key: String) async throws {
        let bucket = PagedBucket { number in number == 0 ? (["ann/file"], "token") : (["ann/other", key], nil) }
        for request in [
            { try await bucket.backend().remove(RemotePath("ann")) },
            { _ = try await bucket.backend().list(RemotePath("ann")) },
            { _ = try await bucket.backend(prefix: "ann").list(.root) },
        ] as [@Sendable () async throws -> Void] {
            bucket.pages.withLock { $0 = 0 }
            let error = await #expect(throws: RemoteError.self) { try await request() }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("lists keys outside of it") == true, "\(error as Any)")
        }
        #expect(bucket.removed.withLock(\.self) == [])
    }

    @Test("A bucket's list is read to its end, even if a few pages are empty")
    func sparse() async throws {
        let bucket = PagedBucket { number in
            (number % 5 == 0 ? ["file-\(number)"] : [], number < 30 ? "token \(number)" : nil)
        }
        let items = try #require(try await bucket.backend().list(.root))
        #expect(items.map(\.name) == ["file-0", "file-10", "file-15", "file-20", "file-25", "file-30", "file-5"])
        #expect(bucket.pages.withLock(\.self) == 31)
    }
}
