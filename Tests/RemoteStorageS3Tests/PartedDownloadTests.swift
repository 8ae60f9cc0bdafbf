import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import S3Servers
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageS3

@Suite("A file that is fetched in parts")
struct PartedDownloadTests {
    static let partSize = S3Configuration.smallestPartSize

    // MARK: The parts

    /// The requests that were sent, and how many of them are running.
    struct Requests {
        var begun: [Range<Int64>] = []
        var running = 0
        var most = 0
    }

    private static func download(
        _ requests: Locked<Requests>,
        parallelParts: Int = 3,
        fetch: @escaping @Sendable (Range<Int64>) async throws -> [UInt8]
    ) -> PartedDownload {
        PartedDownload(
            RemoteContent([0, 1, 2]),
            rest: 3..<20,
            partSize: 3,
            parallelParts: parallelParts
        ) { range in
            requests.withLock { requests in
                requests.begun.append(range)
                requests.running += 1
                requests.most = max(requests.most, requests.running)
            }
            defer { requests.withLock { $0.running -= 1 } }
            return try await fetch(range)
        }
    }

    static func bytes(_ range: Range<Int64>) -> [UInt8] { range.map { UInt8($0) } }

    @Test(
        "A file that is fetched in parts arrives whole and in order, whichever part arrives first",
        arguments: [-1, 0, 1, 2, 3, 6, 100]
    )
    func order(parallelParts: Int) async throws {
        let requests = Locked(Requests())
        let download = Self.download(requests, parallelParts: parallelParts) { range in
            // Later parts arrive sooner.
            for _ in 0..<(20 - range.lowerBound) { await Task.yield() }
            return Self.bytes(range)
        }
        var chunks: [[UInt8]] = []
        while let chunk = try await download.next() { chunks.append(chunk) }
        #expect(chunks == [0..<3, 3..<6, 6..<9, 9..<12, 12..<15, 15..<18, 18..<20].map { Self.bytes($0) })
        #expect(try await download.next() == nil)
        let (begun, most) = requests.withLock { ($0.begun, $0.most) }
        #expect(begun.count == 6 && Set(begun).count == 6)
        #expect(most <= max(1, parallelParts))
    }

    @Test("A reader that stops, or is cancelled, leaves no request behind", arguments: [false, true])
    func abandoned(isCancelled: Bool) async throws {
        let requests = Locked(Requests())
        let (events, event) = AsyncStream.makeStream(of: Bool.self)
        let reader = Task { () async throws in
            let download = Self.download(requests) { range in
                event.yield(true)
                // The server never answers.
                defer { event.yield(false) }
                try await ContinuousClock().sleep(for: .seconds(3600))
                return Self.bytes(range)
            }
            #expect(try await download.next() == [0, 1, 2])
            guard isCancelled else { return }
            await #expect(throws: CancellationError.self) { try await download.next() }
            await #expect(throws: CancellationError.self) { try await download.next() }
        }
        // Two requests in addition to the first one, or three once the reader waits for the next part.
        let count = isCancelled ? 3 : 2
        var (begun, ended) = (0, 0)
        for await isBeginning in events {
            if isBeginning { begun += 1 } else { ended += 1 }
            if begun == count { reader.cancel() }
            if ended == count { break }
        }
        try await reader.value
        #expect(begun == count)
        #expect(requests.withLock { $0.begun.count } == count)
    }

    @Test("A failed part is an error after the parts before it")
    func failure() async throws {
        let requests = Locked(Requests())
        let download = Self.download(requests) { range in
            guard range.lowerBound != 9 else { throw RemoteError(.unavailable, "gone") }
            return Self.bytes(range)
        }
        for first in [0, 3, 6] as [Int64] { #expect(try await download.next() == Self.bytes(first..<first + 3)) }
        // No part follows, as if the failed one weren't missing.
        for _ in 0..<3 { await #expect(throws: RemoteError.self) { try await download.next() } }
    }

    // MARK: A server

    /// A server with one file at every path, whose responses a test can change.
    struct OneFile: HTTPSending {
        var bytes: [UInt8]
        let ranges = Locked<[String]>([])
        /// Changes the response to the request with this number.
        var answer: @Sendable (_ number: Int, _ usual: HTTPResponse) -> HTTPResponse = { $1 }

        func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse { try await send(request) }

        func send(_ request: HTTPRequest) async throws -> HTTPResponse {
            guard !request.target.contains("list-type") else {
                let xml = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
                return HTTPResponse(status: 200, headers: [:], bytes: Array(xml.utf8))
            }
            guard request.method == .GET else {
                let headers: HTTPHeaders = ["ETag": "\"1\"", "Content-Length": "\(bytes.count)"]
                return HTTPResponse(status: 200, headers: headers, bytes: [])
            }
            let header = try #require(request.headers.first { $0.0 == "Range" }?.1)
            let number = ranges.withLock { ranges in
                ranges.append(header)
                return ranges.count
            }
            let ends = header.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
            guard ends[0] < bytes.count else {
                return answer(number, HTTPResponse(status: 416, headers: [:], bytes: []))
            }
            let range = ends[0]..<min(ends.count > 1 ? ends[1] + 1 : .max, bytes.count)
            let headers: HTTPHeaders = [
                "ETag": "\"1\"", "Content-Length": "\(range.count)",
                "Content-Range": "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)",
            ]
            var response = answer(number, HTTPResponse(status: 206, headers: headers, bytes: Array(bytes[range])))
            if request.replyLimit == nil, response.isSuccess { response.bytes = [] }
            return response
        }

        var backend: S3Backend {
            get throws {
                var configuration = try S3Configuration(bucket: "bucket")
                configuration.partSize = PartedDownloadTests.partSize
                return S3Backend(configuration, transport: self)
            }
        }
    }

    /// Bytes whose parts all differ.
    static func pattern(_ count: Int) -> [UInt8] {
        let period = (0..<251 * 400).map { UInt8($0 % 251) }
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += period }
        return Array(bytes.prefix(count))
    }

    @Test(
        "A read needs one request if the file fits into a part, and two if it doesn't",
        arguments: [0, 1, partSize - 1, partSize, partSize + 1]
    )
    func requests(count: Int) async throws {
        let file = OneFile(bytes: Self.pattern(count))
        let content = try #require(try await file.backend.read(RemotePath("file")))
        #expect(content.length == Int64(count))
        let isSame = try await content.bytes(upTo: count) == file.bytes
        #expect(isSame)
        #expect(file.ranges.withLock { $0.count } == (count > Self.partSize ? 2 : 1))
    }

    @Test("A range of a large file is fetched in parts too")
    func ranges() async throws {
        let file = OneFile(bytes: Self.pattern(3 * Self.partSize))
        let size = Int64(Self.partSize)
        let ends: [Int64] = [-4, 0, 1, size - 1, size, size + 1, 2 * size, 3 * size - 1, 3 * size, .max]
        for lower in ends {
            for upper in ends where upper >= lower {
                let content = try #require(try await file.backend.read(RemotePath("file"), range: lower..<upper))
                let there = (lower..<upper).clamped(to: 0..<3 * size)
                #expect(content.length == Int64(there.count), "\(lower) \(upper)")
                let expected = file.bytes[Int(there.lowerBound)..<Int(there.upperBound)]
                let isSame = try await content.bytes(upTo: 1 << 30) == Array(expected)
                #expect(isSame, "\(lower) \(upper)")
            }
        }
    }

    /// The server's behavior that makes it impossible to read one version whole.
    enum Offence: CaseIterable, Sendable {
        case replaced, removed, shortened, longer, later, other, whole, tooShort, noTag, failed

        func apply(_ response: HTTPResponse) -> HTTPResponse {
            var response = response
            let range = response.headers.first(name: "Content-Range") ?? ""
            switch self {
            case .replaced: response.headers.replaceOrAdd(name: "ETag", value: "\"2\"")
            case .removed: response = HTTPResponse(status: 404, headers: [:], bytes: [])
            case .shortened: response = HTTPResponse(status: 416, headers: [:], bytes: [])
            case .other:
                let total = 4 * PartedDownloadTests.partSize
                response.headers.replaceOrAdd(
                    name: "Content-Range",
                    value: "bytes 1-\(PartedDownload.partSize)/\(total)"
                )
            case .longer: response.headers.replaceOrAdd(name: "Content-Range", value: range + "0")
            case .later: response.headers.add(name: "Last-Modified", value: "Sun, 22 Nov 2026 12:00:00 GMT")
            case .whole: response.status = 200
            case .tooShort: response = HTTPResponse(status: 206, headers: response.headers, bytes: [1])
            case .noTag: response.headers.remove(name: "ETag")
            case .failed: response = HTTPResponse(status: 500, headers: [:], bytes: [])
            }
            return response
        }

        var words: String {
            switch self {
            case .replaced, .removed, .shortened, .longer, .later, .noTag: "was replaced or removed while it was read"
            case .other, .whole, .tooShort: "sent another part"
            case .failed: "500"
            }
        }
    }

    @Test("A file that is replaced while it is read is an error, never a mixture", arguments: Offence.allCases)
    func mixtures(offence: Offence) async throws {
        var file = OneFile(bytes: Self.pattern(4 * Self.partSize))
        file.answer = { number, usual in number >= 3 ? offence.apply(usual) : usual }
        let backend = try file.backend
        let error = await #expect(throws: RemoteError.self) {
            _ = try await backend.read(RemotePath("file"))?.bytes(upTo: 1 << 30)
        }
        #expect(
            error?.code == .unavailable && error?.message.contains(offence.words) == true,
            "\(String(describing: error))"
        )
    }

    @Test(
        "A file is fetched in one piece if the server doesn't identify its version",
        arguments: ["", "\"\"", "W/\"1\"", nil]
    )
    func withoutVersions(tag: String?) async throws {
        var file = OneFile(bytes: Self.pattern(3 * Self.partSize))
        file.answer = { _, usual in
            var response = usual
            if let tag {
                response.headers.replaceOrAdd(name: "ETag", value: tag)
            } else {
                let range = usual.headers.first(name: "Content-Range")?.split(separator: "/").first ?? ""
                response.headers.replaceOrAdd(name: "Content-Range", value: "\(range)/*")
            }
            return response
        }
        let backend = try file.backend
        for range in [nil, 5..<Int64.max, 7..<Int64(2 * Self.partSize)] {
            let expected = file.bytes[
                Int(range?.lowerBound ?? 0)..<Int(min(range?.upperBound ?? .max, Int64(file.bytes.count)))
            ]
            let content = try await backend.read(RemotePath("file"), range: range)
            let isSame = try await content?.bytes(upTo: 1 << 30) == Array(expected)
            #expect(isSame)
        }
        #expect(file.ranges.withLock { $0.count } == 6)
    }

    @Test("A second pass over the same content is an error that says what to do", arguments: [10, 3 * partSize])
    func secondPass(count: Int) async throws {
        let file = OneFile(bytes: Self.pattern(count))
        let content = try #require(try await file.backend.read(RemotePath("file")))
        let isSame = try await content.bytes(upTo: 1 << 30) == file.bytes
        #expect(isSame)
        let requests = file.ranges.withLock { $0.count }
        let error = await #expect(throws: RemoteError.self) { try await content.bytes(upTo: 1 << 30) }
        #expect(error?.code == .unsupported && error?.message.contains("Open it again") == true)
        #expect(file.ranges.withLock { $0.count } == requests)
    }

    @Test("A response that a file is empty isn't trusted if the file isn't")
    func nothing() async throws {
        var file = OneFile(bytes: [1, 2, 3])
        file.answer = { _, _ in HTTPResponse(status: 416, headers: [:], bytes: []) }
        let backend = try file.backend
        let error = await #expect(throws: RemoteError.self) { _ = try await backend.read(RemotePath("file")) }
        #expect(error?.code == .unavailable)
    }

    @Test("A server that ignores ranges and sends the whole file can be read")
    func withoutRanges() async throws {
        var file = OneFile(bytes: Self.pattern(2 * Self.partSize))
        file.answer = { [bytes = file.bytes] _, _ in
            HTTPResponse(status: 200, headers: ["ETag": "\"1\"", "Content-Length": "\(bytes.count)"], bytes: bytes)
        }
        let backend = try file.backend
        #expect(try await backend.bytes(at: RemotePath("file"), upTo: 1 << 30) == file.bytes)
        #expect(try await backend.read(RemotePath("file"), range: 3..<9)?.bytes(upTo: 6) == Array(file.bytes[3..<9]))
        #expect(file.ranges.withLock { $0.count } == 2)
    }

    @Test(
        "A whole file without a length isn't read, because its end would look like that of a broken connection",
        arguments: [false, true]
    )
    func withoutLength(isChunked: Bool) async throws {
        var file = OneFile(bytes: [1, 2, 3])
        file.answer = { _, _ in
            var response = HTTPResponse(status: 200, headers: ["ETag": "\"1\""], bytes: [1, 2, 3])
            if isChunked { response.headers.add(name: "Transfer-Encoding", value: "chunked") }
            return response
        }
        let backend = try file.backend
        guard !isChunked else {
            #expect(try await backend.bytes(at: RemotePath("file"), upTo: 3) == [1, 2, 3])
            return
        }
        let error = await #expect(throws: RemoteError.self) { try await backend.read(RemotePath("file")) }
        #expect(error?.code == .unavailable && error?.message.contains("has no length") == true)
    }

    @Test("A part that looks like an error document is a part")
    func errorDocument() async throws {
        let document = Array("<Error><Code>InternalError</Code><Message>".utf8)
        let end = Array("</Message></Error>".utf8)
        // The error document fills the whole part.
        let count = Int(PartedDownload.partSize) - document.count - end.count
        let part = document + [UInt8](repeating: UInt8(ascii: "x"), count: count) + end
        let file = OneFile(bytes: Self.pattern(Self.partSize) + part)
        let isSame = try await file.backend.bytes(at: RemotePath("file"), upTo: 1 << 30) == file.bytes
        #expect(isSame)
        #expect(file.ranges.withLock { $0.count } == 2)
    }

    // MARK: Real servers

    @Test(
        "A file that is replaced or removed on a server while it is read is an error",
        .enabled(if: S3ServerKind.seaweedFS.isInstalled),
        arguments: S3ServerKind.plainInstalled,
        [false, true]
    )
    func replacement(kind: S3ServerKind, isRemoved: Bool) async throws {
        let server = try await S3Server.shared(kind)
        var configuration = try server.configuration(prefix: UUID().uuidString)
        configuration.partSize = Self.partSize
        configuration.parallelParts = 2
        let backend = S3Backend(configuration)
        let path = try RemotePath("large")
        let bytes = Self.pattern(5 * Self.partSize)
        try await backend.write(bytes, to: path, when: .always)
        var content = try #require(try await backend.read(path)).makeAsyncIterator()
        var count = try #require(try await content.next()).count
        if isRemoved {
            try await backend.remove(path)
        } else {
            try await backend.write(bytes.reversed(), to: path, when: .always)
        }
        let error = await #expect(throws: RemoteError.self) {
            while let chunk = try await content.next() {
                let isSame = Array(bytes[count..<count + chunk.count]) == chunk
                #expect(isSame)
                count += chunk.count
            }
        }
        #expect(error?.code == .unavailable)
        #expect(count < bytes.count)
    }

    @Test(
        "A file arrives whole though the connection is cut in each part, and no complete part is fetched again",
        .enabled(if: S3ServerKind.seaweedFS.isInstalled),
        arguments: S3ServerKind.plainInstalled
    )
    func cuts(kind: S3ServerKind) async throws {
        let server = try await S3Server.shared(kind)
        let prefix = UUID().uuidString
        let bytes = Self.pattern(5 * Self.partSize + 1)
        let path = try RemotePath("large")
        try await S3Backend(server.configuration(prefix: prefix)).write(bytes, to: path, when: .ifAbsent)
        let counts = Locked(0)
        let proxy = try FaultProxy(to: server.port) { _, line in
            guard line.hasPrefix("GET"), line.contains("/large ") else { return .none }
            let count = counts.withLock { counts in
                counts += 1
                return counts
            }
            // The first response isn't cut, so that the parts are those after it.
            return count > 1 && count % 2 == 0 ? .cutReply(after: 1 << 20) : .none
        }
        var configuration = try server.configuration(port: proxy.port, prefix: prefix)
        configuration.partSize = Self.partSize
        configuration.parallelParts = 2
        configuration.clock = RecordingClock(waits: Locked([]))
        let content = try #require(try await S3Backend(configuration).read(path))
        #expect(content.length == Int64(bytes.count))
        let isSame = try await content.bytes(upTo: 1 << 30) == bytes
        #expect(isSame)
        // The beginning and eleven parts. Each request is cut at most as often as it succeeds.
        let count = counts.withLock { $0 }
        #expect(count > 12 && count <= 24, "\(count)")
    }
}
