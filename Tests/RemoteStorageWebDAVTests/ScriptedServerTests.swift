import RemoteStorage
import RemoteStorageHTTP
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
}
