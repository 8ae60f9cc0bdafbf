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
            guard request.method == .GET else { return HTTPResponse(status: 404, headers: [:], bytes: []) }
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

        func backend() throws -> S3Backend {
            S3Backend(try S3Configuration(bucket: "bucket", region: "us-east-1"), transport: self)
        }
    }

    @Test(
        "A list that never ends is an error that says what to do, whatever its continuation tokens are",
        arguments: ["one token", "two tokens in turn", "another token each time", "another token, and no keys"]
    )
    func endless(way: String) async throws {
        let bucket = PagedBucket { number in
            switch way {
            case "one token": (["file"], "token")
            case "two tokens in turn": (["file"], "token \(number % 2)")
            case "another token each time": (["file"], "token \(number)")
            default: ([], "token \(number)")
            }
        }
        let error = await #expect(throws: RemoteError.self) { try await bucket.backend().list(.root) }
        #expect(error?.code == .unavailable)
        #expect(error?.message.contains("Try again later") == true, "\(String(describing: error))")
        #expect(bucket.pages.withLock(\.self) <= 11)
    }

    @Test("A directory is removed whole, even if two keys differ only in the form of a Unicode character")
    func equivalentKeys() async throws {
        let bucket = PagedBucket { _ in (["directory/\u{E9}", "directory/e\u{301}"], nil) }
        try await bucket.backend().remove(RemotePath("directory"))
        let removed = bucket.removed.withLock(\.self)
        #expect(removed.contains("/directory/%C3%A9") && removed.contains("/directory/e%CC%81"), "\(removed)")
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
