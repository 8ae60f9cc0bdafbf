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
        "requests only bytes from the beginning on, and none for an empty range",
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

    @Test("works with limits that no clock can measure")
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
