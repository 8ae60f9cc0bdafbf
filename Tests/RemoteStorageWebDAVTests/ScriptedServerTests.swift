import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ServerFixtures
import Testing
import ThreadSupport

@testable import RemoteStorageWebDAV

@Suite("A WebDAV server that doesn't do what it reports", .timeLimit(.minutes(60)))
struct ScriptedServerTests {
    /// What a server does with a file whose length isn't known in advance.
    enum Loss: CaseIterable, Sendable {
        case nothing, everything, half, answersEarly
    }

    @Test("A file of unknown length counts as written only if all of its bytes arrived", arguments: Loss.allCases)
    func droppedBodies(loss: Loss) async throws {
        let stored = Locked<Int64?>(nil)
        let server = ScriptedServer { line, request in
            switch line {
            case "OPTIONS /dav/": return ScriptedServer.options
            case "PROPFIND /dav/": return ScriptedServer.properties(of: "/dav/")
            case "PROPFIND /dav/file":
                let size = stored.withLock(\.self)
                return size.map { ScriptedServer.properties(of: "/dav/file", size: $0) } ?? ScriptedServer.status(404)
            case "PUT /dav/file":
                guard case .content(let content, _) = request.body, loss != .answersEarly else {
                    stored.withLock { $0 = 0 }
                    return ScriptedServer.status(201)
                }
                let count = Int64(try await content.bytes(upTo: 1000).count)
                stored.withLock { $0 = loss == .nothing ? count : loss == .half ? count / 2 : 0 }
                return ScriptedServer.status(201)
            default: return ScriptedServer.status(501)
            }
        }
        let content = RemoteContent(length: nil) {
            var rest = 10
            return {
                defer { rest -= 1 }
                return rest > 0 ? [7] : nil
            }
        }
        let backend = try server.backend()
        guard loss != .nothing else {
            #expect(try await backend.write(content, to: RemotePath("file"), when: .always).size == 10)
            return
        }
        let error = await #expect(throws: RemoteError.self) {
            try await backend.write(content, to: RemotePath("file"), when: .always)
        }
        #expect(error?.code == .unavailable && error?.message.contains("Try again") == true)
    }

    @Test(
        "A temporary directory is forgotten with its removal, whether or not the file was written",
        arguments: [true, false]
    )
    func temporaryDirectories(isWritten: Bool) async throws {
        let server = ScriptedServer { line, request in
            switch (request.method, line) {
            case (_, "OPTIONS /dav/"):
                HTTPResponse(status: 200, headers: ["Server": "WsgiDAV/4.3", "DAV": "1, 2"], bytes: [])
            case (_, "PROPFIND /dav/"): ScriptedServer.properties(of: "/dav/")
            case (_, "PROPFIND /dav/file"), (_, "GET /dav/file"): ScriptedServer.status(404)
            case (.PROPFIND, _):
                ScriptedServer.properties(of: request.target, size: line.hasSuffix("/content") ? 1 : nil)
            case (.PUT, _): ScriptedServer.status(isWritten ? 201 : 403)
            default: ScriptedServer.status(201)
            }
        }
        let backend = try server.backend()
        _ = try? await backend.write(RemoteContent([7]), to: RemotePath("file"), when: .always)
        let made = server.lines.filter { $0.hasPrefix("MKCOL /dav/") }
        #expect(made.count == 1 && server.lines.contains { $0.hasPrefix("DELETE /dav/") }, "\(server.lines)")
        let directory = try #require(made.first?.dropFirst("MKCOL /dav/".count).dropLast())
        #expect(try await !backend.directories.contains(RemotePath(String(directory))))
    }

    @Test("A share that vanishes is an error at its root, and after a minute everywhere else, too")
    func vanishedShare() async throws {
        let isThere = Locked(true)
        let server = ScriptedServer { line, _ in
            guard isThere.withLock(\.self) else { return ScriptedServer.status(404) }
            switch line {
            case "OPTIONS /dav/": return ScriptedServer.options
            case "PROPFIND /dav/": return ScriptedServer.properties(of: "/dav/")
            default: return ScriptedServer.status(404)
            }
        }
        let clock = SteppedClock()
        let backend = try server.backend(clock: clock)
        let path = try RemotePath("absent")
        #expect(try await backend.status(of: path) == nil)
        var before = server.lines.count
        #expect(try await backend.list(path) == nil)
        #expect(try await backend.read(path, range: nil) == nil)
        // The share was seen a moment ago, which isn't checked again.
        #expect(!server.lines[before...].contains("PROPFIND /dav/"))

        clock.advance(by: .seconds(60))
        before = server.lines.count
        try await withThrowingTaskGroup(of: RemoteItem?.self) { group in
            for _ in 0..<10 { group.addTask { try await backend.status(of: path) } }
            for try await item in group { #expect(item == nil) }
        }
        // All ten requests share one check.
        #expect(server.lines[before...].count { $0 == "PROPFIND /dav/" } == 1)

        isThere.withLock { $0 = false }
        clock.advance(by: .seconds(60))
        let requests: [@Sendable () async throws -> Void] = [
            { _ = try await backend.status(of: path) }, { _ = try await backend.list(path) },
            { _ = try await backend.read(path, range: nil) }, { _ = try await backend.list(.root) },
            { try await backend.remove(path) }, { try await backend.createDirectory(at: .root) },
        ]
        for request in requests {
            let error = await #expect(throws: RemoteError.self) { try await request() }
            #expect(error?.code == .unavailable && error?.message.contains("There is no share") == true)
        }
        isThere.withLock { $0 = true }
        #expect(try await backend.list(.root) == [])
        isThere.withLock { $0 = false }
        // The root itself is never trusted to be there.
        let error = await #expect(throws: RemoteError.self) { try await backend.list(.root) }
        #expect(error?.code == .unavailable)
    }

    @Test(
        "An item that the server can't describe is an error, but its directory is listed; a vanished one isn't listed"
    )
    func undescribedItems() async throws {
        let status = Locked(404)
        let server = ScriptedServer { line, request in
            guard line != "OPTIONS /dav/" else { return ScriptedServer.options }
            let child = "<response><href>/dav/a</href><status>HTTP/1.1 \(status.withLock(\.self))</status></response>"
            let share = """
                <response><href>/dav/</href><propstat><prop><resourcetype><collection/></resourcetype></prop>\
                <status>HTTP/1.1 200 OK</status></propstat></response>
                """
            let isShare = line == "PROPFIND /dav/"
            let isList = request.headers.contains { $0 == ("Depth", "1") }
            let xml = """
                <multistatus xmlns="DAV:">\(isShare ? share : "")\(isShare && !isList ? "" : child)</multistatus>
                """
            return HTTPResponse(status: 207, headers: [:], bytes: Array(xml.utf8))
        }
        let backend = try server.backend()
        #expect(try await backend.list(.root) == [])
        #expect(try await backend.status(of: RemotePath("a")) == nil)
        status.withLock { $0 = 403 }
        #expect(try await backend.list(.root)?.map(\.name) == ["a"])
        let error = await #expect(throws: RemoteError.self) { _ = try await backend.status(of: RemotePath("a")) }
        #expect(error?.code == .unavailable && error?.message.contains("403") == true)
    }

    @Test("An item that the server names several times is listed once")
    func repeatedItems() async throws {
        let server = ScriptedServer { line, _ in
            guard line != "OPTIONS /dav/" else { return ScriptedServer.options }
            let responses = ["/dav/", "/dav/b/", "/dav/a/", "/dav/b/", "/dav/", "/dav/b"].map {
                """
                <response><href>\($0)</href><propstat><prop><resourcetype><collection/></resourcetype></prop>\
                <status>HTTP/1.1 200 OK</status></propstat></response>
                """
            }
            let xml = "<multistatus xmlns=\"DAV:\">\(responses.joined())</multistatus>"
            return HTTPResponse(status: 207, headers: [:], bytes: Array(xml.utf8))
        }
        #expect(try await server.backend().list(.root)?.map(\.name) == ["a", "b"])
    }

    @Test("An unknown server is probed once, however many requests wait for the result")
    func oneProbe() async throws {
        let server = ScriptedServer { line, _ in
            if line == "OPTIONS /dav/" { return HTTPResponse(status: 200, headers: ["DAV": "1"], bytes: []) }
            return line.hasPrefix("PROPFIND") ? ScriptedServer.properties(of: "/dav/") : ScriptedServer.status(201)
        }
        let backend = try server.backend()
        try await withThrowingTaskGroup(of: RemoteCapabilities.self) { group in
            for _ in 0..<10 { group.addTask { try await backend.capabilities() } }
            // Every move succeeds, so none is exclusive.
            for try await capabilities in group { #expect(capabilities == .rangedRead) }
        }
        let probes = server.lines.compactMap { $0.firstMatch(of: /probe-\d+/)?.output }
        #expect(Set(probes).count == 1)
        #expect(server.lines.count { $0.hasPrefix("OPTIONS") } == 1)
    }

    @Test("HTTP status 400 for the share itself is reported as a wrong URL, not as a wrong name")
    func badRequests() async throws {
        let server = ScriptedServer { _, _ in ScriptedServer.status(400) }
        for (url, remedy) in [("https://share.example", "Check the URL."), ("http://share.example", "require webdavs")]
        {
            let configuration = try WebDAVConfiguration(url: #require(URL(string: url)))
            let backend = WebDAVBackend(configuration, transport: server)
            for request in [
                { _ = try await backend.list(.root) }, { _ = try await backend.capabilities() },
            ] as [@Sendable () async throws -> Void] {
                let error = await #expect(throws: RemoteError.self) { try await request() }
                #expect(error?.code == .unavailable && error?.message.contains(remedy) == true)
            }
        }
    }

    @Test("A success that isn't WebDAV's, such as a login page's, is an error that says where to look")
    func loginPage() async throws {
        let backend = try ScriptedServer { _, _ in ScriptedServer.loginPage }.backend()
        for request in [
            { _ = try await backend.list(.root) }, { _ = try await backend.capabilities() },
            { _ = try await backend.read(RemotePath("file"), range: nil) },
        ] as [@Sendable () async throws -> Void] {
            await Self.expectLoginPage(request)
        }
    }

    private static func expectLoginPage(_ request: @Sendable () async throws -> Void) async {
        let error = await #expect(throws: RemoteError.self) { try await request() }
        #expect(error?.code == .unavailable)
        for part in ["HTTP status 200", "Check the URL", "login page"] {
            #expect(error?.message.contains(part) == true, "\(error as Any)")
        }
    }

    /// A request that changes a share with the file `file`.
    struct Change: Sendable, CustomTestStringConvertible {
        let method: HTTPMethod
        let send: @Sendable (WebDAVBackend) async throws -> Void

        init(_ method: HTTPMethod, _ send: @escaping @Sendable (WebDAVBackend) async throws -> Void) {
            (self.method, self.send) = (method, send)
        }

        var testDescription: String { "\(method)" }

        static let all = [
            Change(.MKCOL) { try await $0.createDirectory(at: RemotePath("directory")) },
            Change(.COPY) { try await $0.copy(RemotePath("file"), to: RemotePath("copy"), when: .always) },
            Change(.MOVE) { try await $0.move(RemotePath("file"), to: RemotePath("moved")) },
            Change(.MOVE) { try await $0.write([1, 2], to: RemotePath("new"), when: .always) },
            Change(.DELETE) { try await $0.remove(RemotePath("file")) },
        ]
    }

    @Test(
        "A login page's answer to a change that isn't carried out is an error, and the change succeeds later",
        arguments: Change.all
    )
    func interceptedChange(change: Change) async throws {
        var share = ScriptedShare()
        share.items.withLock { $0["/dav/file"] = 1 }
        share.interceptedMethod = change.method
        let backend = try share.backend()
        await Self.expectLoginPage { try await change.send(backend) }
        #expect(share.items.withLock { $0["/dav/file"] } == 1)
        share.interceptedMethod = nil
        try await change.send(share.backend())
    }

    @Test(
        "A file whose move was carried out, but answered with a failure or a page, is written and isn't moved again",
        arguments: [200, 404, 500],
        [false, true]
    )
    func refusedMove(status: Int, replaces: Bool) async throws {
        var share = ScriptedShare { _ in status }
        (share.carriesOutRefused, share.removesDestinationFirst) = (true, true)
        if replaces { share.items.withLock { $0["/dav/file"] = 1 } }
        let backend = try share.backend()
        #expect(try await backend.write([1, 2], to: RemotePath("file"), when: .always).size == 2)
        #expect(share.moves.withLock(\.self) == [replaces ? "URL T" : "URL F"])
        #expect(share.items.withLock(\.self) == ["/dav": -1, "/dav/file": 2])
    }

    @Test(
        "A file whose move a proxy sends twice is written, also if the server removes it with the second request",
        arguments: [false, true],
        [false, true]
    )
    func repeatedMove(replaces: Bool, removesDestinationFirst: Bool) async throws {
        var share = ScriptedShare()
        (share.isBehindRepeatingProxy, share.removesDestinationFirst) = (true, removesDestinationFirst)
        if replaces { share.items.withLock { $0["/dav/file"] = 1 } }
        let backend = try share.backend()
        #expect(try await backend.write([1, 2], to: RemotePath("file"), when: .always).size == 2)
        let moves = !replaces ? ["URL F"] : removesDestinationFirst ? ["URL T", "URL F"] : ["URL T"]
        #expect(share.moves.withLock(\.self) == moves)
        #expect(share.items.withLock(\.self) == ["/dav": -1, "/dav/file": 2])
    }

    @Test(
        "A proxy that sends moves twice doesn't disprove that an unknown server moves directories exclusively",
        arguments: [false, true]
    )
    func repeatedProbe(isRepeated: Bool) async throws {
        var share = ScriptedShare()
        (share.server, share.isBehindRepeatingProxy) = ("Other/1", isRepeated)
        #expect(try await share.backend().capabilities().contains(.exclusiveDirectoryMove))
        #expect(share.items.withLock(\.self) == ["/dav": -1])
    }

    @Test(
        "An answer to PUT that isn't WebDAV's counts only if the file has the bytes that were sent",
        arguments: [false, true]
    )
    func doubtfulPut(isStored: Bool) async throws {
        let stored = Locked<[UInt8]>([1, 2])
        let server = ScriptedServer { line, request in
            switch line {
            case "OPTIONS /dav/": return ScriptedServer.options
            case "PROPFIND /dav/": return ScriptedServer.properties(of: "/dav/")
            case "PROPFIND /dav/file":
                return ScriptedServer.properties(of: "/dav/file", size: Int64(stored.withLock(\.count)))
            case "GET /dav/file": return HTTPResponse(status: 200, headers: [:], bytes: stored.withLock(\.self))
            case "PUT /dav/file":
                guard case .content(let content, _) = request.body else { return ScriptedServer.status(400) }
                let bytes = try await content.bytes(upTo: 10)
                if isStored { stored.withLock { $0 = bytes } }
                return ScriptedServer.loginPage
            default: return ScriptedServer.status(501)
            }
        }
        let backend = try server.backend()
        @Sendable func write() async throws { try await backend.write([3, 4], to: RemotePath("file"), when: .always) }
        if isStored { try await write() } else { await Self.expectLoginPage(write) }
        #expect(stored.withLock(\.self) == (isStored ? [3, 4] : [1, 2]))
    }

    @Test("A move that another client has made in the meantime is refused")
    func overtakenMove() async throws {
        let share = ScriptedShare()
        share.items.withLock { $0["/dav/file"] = 1 }
        let other = try share.backend()
        let server = ScriptedServer { line, request in
            if request.method == .MOVE { try await other.move(RemotePath("file"), to: RemotePath("moved")) }
            return try await share.answer(line, request)
        }
        let error = await #expect(throws: RemoteError.self) {
            try await server.backend().move(RemotePath("file"), to: RemotePath("moved"))
        }
        #expect(error?.code == .alreadyExists)
    }
}
