import Foundation
import RemoteStorage
import Testing

@Suite("A folder with symbolic links", .timeLimit(.minutes(60)))
struct LocalFolderLinkTests {
    /// Runs `body` with a backend and a folder outside its root, which contains a file and is the target of links.
    private func withLinks(_ body: (LocalFolderBackend, URL) async throws -> Void) async throws {
        try await withTemporaryFolder { folder in
            let (root, outside) = (folder.appending(component: "root"), folder.appending(component: "outside"))
            for directory in [root, outside] {
                try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            }
            try Data([1]).write(to: outside.appending(component: "secret"))
            for (name, target) in [
                ("up", "../outside"), ("secret", "../outside/secret"), ("dangling", "../outside/new"),
            ] {
                try FileManager.default.createSymbolicLink(
                    atPath: root.appending(component: name).path,
                    withDestinationPath: target
                )
            }
            try await body(LocalFolderBackend(root: root), outside)
            #expect(try names(in: outside) == ["secret"])
            #expect(try Data(contentsOf: outside.appending(component: "secret")) == Data([1]))
        }
    }

    @Test("A folder follows no link in the middle of a path")
    func inTheMiddle() async throws {
        try await withLinks { backend, _ in
            for name in ["up/secret", "up/new", "up/new/deep"] {
                try await expectRefusals(of: backend, at: RemotePath(name))
                await expect(.notAllowed) { try await backend.status(of: RemotePath(name)) }
                await expect(.notAllowed) { try await backend.list(RemotePath(name)) }
                await expect(.notAllowed) { try await backend.createDirectory(at: RemotePath(name)) }
                await expect(.notAllowed) { try await backend.remove(RemotePath(name)) }
            }
        }
    }

    @Test(
        "A folder follows no link at the end of a path, but lists it as special",
        arguments: ["up", "secret", "dangling"]
    )
    func atTheEnd(name: String) async throws {
        try await withLinks { backend, _ in
            let path = try RemotePath(name)
            #expect(try await backend.status(of: path)?.kind == .other)
            #expect(try await backend.status(of: path)?.tag == nil)
            #expect(try await backend.list(.root)?.map(\.kind) == [.other, .other, .other])
            try await expectRefusals(of: backend, at: path)
            if name == "up" { await expect(.notAllowed) { try await backend.list(path) } }
            try await backend.remove(path)
            #expect(try await backend.status(of: path) == nil)
        }
    }

    @Test("Removing a directory with a link removes the link, never its target")
    func removes() async throws {
        try await withLinks { backend, outside in
            let link = outside.deletingLastPathComponent().appending(path: "root/tree/link")
            try await backend.createDirectory(at: RemotePath("tree"))
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: outside)
            try await backend.remove(RemotePath("tree"))
            #expect(try await backend.status(of: RemotePath("tree")) == nil)
        }
    }

    @Test("A folder never blocks on a pipe that another program created")
    func pipes() async throws {
        try await withLinks { backend, outside in
            let path = try RemotePath("pipe")
            mkfifo(outside.deletingLastPathComponent().appending(path: "root/pipe").path, 0o600)
            #expect(try await backend.status(of: path)?.kind == .other)
            try await expectRefusals(of: backend, at: path)
        }
    }

    private func expectRefusals(of backend: LocalFolderBackend, at path: RemotePath) async throws {
        let other = try RemotePath("other")
        await expect(.notAllowed) { try await backend.read(path) }
        await expect(.notAllowed) { try await backend.write([2], to: path, when: .always) }
        await expect(.notAllowed) { try await backend.copy(path, to: other, when: .always) }
        await expect(.notAllowed) { try await backend.move(path, to: other) }
        #expect(try await backend.status(of: other) == nil)
    }
}
