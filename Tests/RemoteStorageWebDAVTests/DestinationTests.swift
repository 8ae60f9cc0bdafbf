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
    @Test(
        "A move's destination is sent as a path if the server refuses URLs, as behind a proxy that ends TLS",
        arguments: [400, 403, 502]
    )
    func fallback(status: Int) async throws {
        let share = ScriptedShare { $0.hasPrefix("https:") ? status : nil }
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
        let share = ScriptedShare { $0.hasSuffix("/forbidden") ? 403 : nil }
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
        var share = ScriptedShare { $0.hasPrefix("https:") ? 502 : nil }
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
        let share = ScriptedShare { _ in nil }
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

    @Test("A request isn't retried if the caller has another one to try")
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
