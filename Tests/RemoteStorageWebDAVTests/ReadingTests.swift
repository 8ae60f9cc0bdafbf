import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageWebDAV

@Suite("Reading a file of a WebDAV share", .timeLimit(.minutes(60)))
struct ReadingTests {
    private static let place = "webdavs://share.example/dav"

    @Test("A second pass over the same content is an error that says what to do")
    func secondPass() async throws {
        let response = HTTPResponse(status: 200, headers: ["Content-Length": "3"], bytes: [1, 2, 3])
        let content = try RemoteContent(response, of: RemotePath("file"), range: nil, Self.place)
        #expect(try await content.bytes(upTo: 3) == [1, 2, 3])
        let error = await #expect(throws: RemoteError.self) { try await content.bytes(upTo: 3) }
        #expect(error?.code == .unsupported && error?.message.contains("Open it again") == true)
    }

    @Test(
        "A read requests only bytes from the beginning on, and none for an empty range",
        arguments: [
            (-5..<3, "bytes=0-2"), (Int64.min..<2, "bytes=0-1"), (-5..<0, nil), (Int64.min..<(-2), nil), (1..<1, nil),
        ] as [(Range<Int64>, String?)]
    )
    func negativeRanges(range: Range<Int64>, header: String?) async throws {
        let ranges = Locked<[String]>([])
        let server = ScriptedServer { line, request in
            switch line {
            case "OPTIONS /dav/": return ScriptedServer.options
            case "GET /dav/file":
                ranges.withLock { $0 += request.headers.filter { $0.0 == "Range" }.map(\.1) }
                return HTTPResponse(status: 200, headers: ["Content-Length": "4"], bytes: [1, 2, 3, 4])
            case "PROPFIND /dav/": return ScriptedServer.properties(of: "/dav/")
            default: return ScriptedServer.properties(of: "/dav/file", size: 4)
            }
        }
        let content = try #require(try await server.backend().read(RemotePath("file"), range: range))
        #expect(
            try await content.bytes(upTo: 4)
                == Array(([1, 2, 3, 4] as [UInt8]).prefix(header == nil ? 0 : Int(range.upperBound)))
        )
        #expect(ranges.withLock(\.self) == (header.map { [$0] } ?? []))
    }

    @Test(
        "A read accepts a part of a file only if it's all that was requested",
        arguments: [
            (0..<10, "bytes 0-9/100", true), (0..<10, "bytes 0-8/100", false), (0..<10, "bytes 1-9/100", false),
            (0..<10, "bytes 0-10/100", false), (0..<200, "bytes 0-99/100", true), (0..<200, "bytes 0-98/100", false),
            // The server doesn't report where the file ends.
            (0..<10, "bytes 0-8/*", true), (nil, "bytes 0-99/100", true), (nil, "bytes 0-98/100", false),
            (nil, "bytes 1-99/100", false), (nil, "bytes 0-99/*", false),
        ] as [(Range<Int64>?, String, Bool)]
    )
    func shortParts(range: Range<Int64>?, header: String, isAccepted: Bool) throws {
        let response = HTTPResponse(status: 206, headers: ["Content-Range": header], bytes: [])
        let path = try RemotePath("file")
        guard !isAccepted else {
            _ = try RemoteContent(response, of: path, range: range, Self.place)
            return
        }
        let error = #expect(throws: RemoteError.self) {
            try RemoteContent(response, of: path, range: range, Self.place)
        }
        #expect(error?.code == .unavailable)
    }

    @Test(
        "A file has as many bytes as the server reports, even if the answer doesn't announce its length",
        arguments: [
            (4, nil, [1, 2, 3, 4]), (3, nil, nil), (5, nil, nil), (4, 1..<3, [2, 3]), (4, 1..<9, [2, 3, 4]),
            (5, 1..<9, nil),
            (3, 1..<9, nil), (4, 9..<10, []),
            // A server that doesn't report sizes.
            (0, nil, [1, 2, 3, 4]), (0, 1..<9, [2, 3, 4]),
        ] as [(Int64, Range<Int64>?, [UInt8]?)]
    )
    func unannouncedLengths(size: Int64, range: Range<Int64>?, expected: [UInt8]?) async throws {
        let server = ScriptedServer { line, request in
            switch line {
            case "OPTIONS /dav/": ScriptedServer.options
            case "GET /dav/file": HTTPResponse(status: 200, headers: [:], bytes: [1, 2, 3, 4])
            case "PROPFIND /dav/": ScriptedServer.properties(of: "/dav/")
            default: ScriptedServer.properties(of: "/dav/file", size: size)
            }
        }
        let content = try #require(try await server.backend().read(RemotePath("file"), range: range))
        guard let expected else {
            let error = await #expect(throws: RemoteError.self) { try await content.bytes(upTo: 10) }
            #expect(error?.code == .unavailable)
            return
        }
        #expect(try await content.bytes(upTo: 10) == expected)
    }

    @Test("An empty file is read although the server gives it the type of a page")
    func emptyPage() async throws {
        let server = ScriptedServer { line, _ in
            switch line {
            case "OPTIONS /dav/": ScriptedServer.options
            case "GET /dav/file":
                HTTPResponse(status: 200, headers: ["Content-Type": "text/html", "Content-Length": "0"], bytes: [])
            case "PROPFIND /dav/": ScriptedServer.properties(of: "/dav/")
            default: ScriptedServer.properties(of: "/dav/file", size: 0)
            }
        }
        let content = try #require(try await server.backend().read(RemotePath("file"), range: nil))
        #expect(try await content.bytes(upTo: 1).isEmpty)
    }

    @Test(
        "A login page in place of a file isn't read, but an HTML file of the length that its status names is",
        arguments: [
            (13, true, true), (12, true, false), (0, true, false), (13, false, true), (0, false, false),
        ] as [(Int64, Bool, Bool)],
        [nil, 0..<6] as [Range<Int64>?]
    )
    func pages(file: (size: Int64, announcesLength: Bool, isRead: Bool), range: Range<Int64>?) async throws {
        let page = Array("<html></html>".utf8)
        let server = ScriptedServer { line, _ in
            switch line {
            case "OPTIONS /dav/": return ScriptedServer.options
            case "GET /dav/file":
                let headers: HTTPHeaders = ["Content-Type": "text/html; charset=utf-8"]
                var response = HTTPResponse(status: 200, headers: headers, bytes: page)
                if file.announcesLength { response.headers.add(name: "Content-Length", value: "\(page.count)") }
                return response
            case "PROPFIND /dav/": return ScriptedServer.properties(of: "/dav/")
            default: return ScriptedServer.properties(of: "/dav/file", size: file.size)
            }
        }
        let backend = try server.backend()
        guard !file.isRead else {
            let content = try #require(try await backend.read(RemotePath("file"), range: range))
            #expect(try await content.bytes(upTo: 20) == Array(page.prefix(range == nil ? 13 : 6)))
            return
        }
        let error = await #expect(throws: RemoteError.self) { try await backend.read(RemotePath("file"), range: range) }
        #expect(error?.code == .unavailable && error?.message.contains("login page") == true, "\(error as Any)")
    }

    @Test(
        "A server that refuses a range means an empty part only if the range begins after the file's end",
        arguments: [(0, nil, true), (4, nil, false), (4, 4..<9, true), (4, 5..<9, true), (4, 3..<9, false)]
            as [(Int64, Range<Int64>?, Bool)]
    )
    func refusedRanges(size: Int64, range: Range<Int64>?, isEmpty: Bool) async throws {
        let server = ScriptedServer { line, request in
            switch line {
            case "OPTIONS /dav/": ScriptedServer.options
            case "GET /dav/file": ScriptedServer.status(416)
            case "PROPFIND /dav/": ScriptedServer.properties(of: "/dav/")
            default: ScriptedServer.properties(of: "/dav/file", size: size)
            }
        }
        let backend = try server.backend()
        guard !isEmpty else {
            let content = try #require(try await backend.read(RemotePath("file"), range: range))
            #expect(try await content.bytes(upTo: 10) == [])
            return
        }
        let error = await #expect(throws: RemoteError.self) { try await backend.read(RemotePath("file"), range: range) }
        #expect(error?.code == .unavailable && error?.message.contains("416") == true, "\(error as Any)")
    }

    @Test("A request works with time limits that no clock can measure")
    func endlessTimeouts() async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in .answer(201) }
        let url = try #require(URL(string: "http://127.0.0.1:\(proxy.port)/dav"))
        var configuration = try WebDAVConfiguration(url: url)
        let endless = Duration.seconds(Int64.max)
        configuration.timeouts = WebDAVConfiguration.Timeouts(connect: endless, read: endless, write: endless)
        let transport = await WebDAVBackend(configuration).transport
        let content = RemoteContent([1, 2, 3])
        let request = HTTPRequest(method: .PUT, target: "/dav/file", body: .content(content, try RemotePath("file")))
        #expect(try await transport.send(request).status == 201)
    }
}
