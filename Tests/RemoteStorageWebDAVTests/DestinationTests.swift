import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageWebDAV

@Suite("The destination of a move on a WebDAV server", .timeLimit(.minutes(60)))
struct DestinationTests {
    /// A share whose files are replaced by moves.
    private struct Share: Sendable {
        /// The sizes of files by their paths; −1 for a directory.
        let items = Locked<[String: Int64]>(["/dav": -1])
        /// The form of each move's destination, and whether it may be replaced.
        let moves = Locked<[String]>([])
        /// Whether a gateway reports a refusal after the server has carried out the move.
        var carriesOutRefused = false
        /// Whether a move that may replace the destination removes it before the source is looked for, as some servers do.
        var removesDestinationFirst = false
        /// The status of a refused destination, if the destination is refused.
        let refusal: @Sendable (_ destination: String) -> Int?

        init(_ refusal: @escaping @Sendable (_ destination: String) -> Int?) { self.refusal = refusal }

        func backend() throws -> WebDAVBackend { try ScriptedServer(answer).backend() }

        func answer(_ line: String, _ request: HTTPRequest) async throws -> HTTPResponse {
            let path = name(request.target)
            switch request.method {
            case .OPTIONS: return HTTPResponse(status: 200, headers: ["Server": "WsgiDAV/4", "DAV": "1"], bytes: [])
            case .PROPFIND:
                guard let item = items.withLock({ $0[path] }) else { return ScriptedServer.status(404) }
                return ScriptedServer.properties(of: path, size: item < 0 ? nil : item)
            case .MKCOL: items.withLock { $0[path] = -1 }
            case .PUT:
                guard case .content(let content, _) = request.body else { return ScriptedServer.status(400) }
                let size = Int64(try await content.bytes(upTo: 1000).count)
                items.withLock { $0[path] = size }
            case .DELETE: items.withLock { items in items = items.filter { !$0.key.hasPrefix(path) } }
            case .MOVE: return move(path, Dictionary(request.headers) { first, _ in first })
            default: return ScriptedServer.status(501)
            }
            return ScriptedServer.status(201)
        }

        private func move(_ path: String, _ headers: [String: String]) -> HTTPResponse {
            let destination = headers["Destination"] ?? ""
            let overwrites = headers["Overwrite"] ?? ""
            moves.withLock { $0.append("\(destination.hasPrefix("/") ? "path" : "URL") \(overwrites)") }
            let refused = refusal(destination)
            guard refused == nil || carriesOutRefused else { return ScriptedServer.status(refused ?? 400) }
            let target = name(destination.replacing("https://share.example", with: ""))
            let status = items.withLock { carryOut(path, to: target, replaces: overwrites == "T", &$0) }
            return ScriptedServer.status(refused ?? status)
        }

        private func carryOut(
            _ path: String,
            to target: String,
            replaces: Bool,
            _ items: inout [String: Int64]
        ) -> Int {
            if removesDestinationFirst {
                guard replaces || items[target] == nil else { return 412 }
                items[target] = nil
            }
            guard let item = items[path] else { return 404 }
            guard replaces || items[target] == nil else { return 412 }
            items[path] = nil
            items[target] = item
            return 201
        }

        private func name(_ target: String) -> String {
            target.hasSuffix("/") ? String(target.dropLast()) : target
        }
    }

    @Test(
        "A move's destination is sent as a path if the server refuses URLs, as behind a proxy that ends TLS",
        arguments: [400, 403, 502]
    )
    func fallback(status: Int) async throws {
        let share = Share { $0.hasPrefix("https:") ? status : nil }
        let backend = try share.backend()
        let (file, moved) = (try RemotePath("file"), try RemotePath("moved"))
        share.items.withLock { $0["/dav/file"] = 1 }
        // A file is replaced by a move, which must not replace the new file if it was carried out already.
        #expect(try await backend.write([1, 2], to: file, when: .always).size == 2)
        #expect(share.moves.withLock(\.self) == ["URL T", "path F", "path T"])
        try await backend.move(file, to: moved)
        #expect(share.moves.withLock { $0.last } == "path F" && share.moves.withLock(\.count) == 4)
        #expect(share.items.withLock { $0["/dav/moved"] } == 2)
        // The same if the first move replaces nothing.
        let other = try share.backend()
        try await other.move(moved, to: file)
        #expect(share.moves.withLock(\.self).suffix(2) == ["URL F", "path F"])
        #expect(share.items.withLock { $0["/dav/file"] } == 2)
    }

    @Test("A move's destination stays a URL after a move succeeded with a URL, whatever the server refuses later")
    func provenForm() async throws {
        let share = Share { $0.hasSuffix("/forbidden") ? 403 : nil }
        let backend = try share.backend()
        share.items.withLock { $0["/dav/file"] = 1 }
        try await backend.move(RemotePath("file"), to: RemotePath("moved"))
        let error = await #expect(throws: RemoteError.self) {
            try await backend.move(RemotePath("moved"), to: RemotePath("forbidden"))
        }
        #expect(error?.code == .notAllowed)
        #expect(share.moves.withLock(\.self) == ["URL F", "URL F"])
    }

    @Test("A move's second request doesn't replace a destination that may be the moved file")
    func carriedOutRefusal() async throws {
        var share = Share { $0.hasPrefix("https:") ? 502 : nil }
        (share.carriesOutRefused, share.removesDestinationFirst) = (true, true)
        let backend = try share.backend()
        share.items.withLock { $0["/dav/file"] = 1 }
        #expect(try await backend.write([1, 2], to: RemotePath("file"), when: .always).size == 2)
        #expect(share.moves.withLock(\.self) == ["URL T", "path F"])
        #expect(share.items.withLock { $0["/dav/file"] } == 2)
    }

    @Test(
        "A move's URL is sent again after a gateway's failure, if a concurrent move shows that URLs work",
        arguments: [false, true]
    )
    func concurrentProof(replaces: Bool) async throws {
        let share = Share { _ in nil }
        let other = Locked<WebDAVBackend?>(nil)
        let server = ScriptedServer { line, request in
            let mover = other.withLock { mover in
                defer { if request.method == .MOVE { mover = nil } }
                return request.method == .MOVE ? mover : nil
            }
            guard let mover else { return try await share.answer(line, request) }
            // The first move fails after the other one.
            try await mover.move(RemotePath("other"), to: RemotePath("moved"))
            return ScriptedServer.status(502)
        }
        let backend = try server.backend(clock: RecordingClock(waits: Locked([])))
        share.items.withLock { $0.merge(["/dav/other": 5, "/dav/source": 2]) { $1 } }
        if replaces { share.items.withLock { $0["/dav/file"] = 1 } }
        other.withLock { $0 = backend }
        if replaces {
            #expect(try await backend.write([1, 2], to: RemotePath("file"), when: .always).size == 2)
        } else {
            try await backend.move(RemotePath("source"), to: RemotePath("file"))
        }
        #expect(share.items.withLock { $0["/dav/file"] } == 2 && share.items.withLock { $0["/dav/moved"] } == 5)
        #expect(share.moves.withLock { $0.allSatisfy { $0.hasPrefix("URL") } })
    }

    @Test("a request isn't retried if the caller has another one to try")
    func finalStatus() async throws {
        let proxy = try FaultProxy(to: 9) { _, _ in .answer(502) }
        let url = try #require(URL(string: "http://127.0.0.1:\(proxy.port)/dav"))
        var configuration = try WebDAVConfiguration(url: url)
        configuration.clock = RecordingClock(waits: Locked([]))
        let settings = configuration.settings(name: "share")
        let transport = HTTPTransport(settings, WebDAVAuthentication(nil, name: "share"))
        var request = HTTPRequest(method: .MOVE, target: "/dav/file")
        request.finalStatuses = [502]
        #expect(try await transport.send(request).status == 502)
        #expect(proxy.lines.count == 1)
    }
}
