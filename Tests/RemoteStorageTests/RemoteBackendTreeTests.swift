import RemoteStorage
import Testing

/// The promises of ``RemoteBackend`` about copies, moves and removals.
@Suite("Every backend's tree", .timeLimit(.minutes(30)))
struct RemoteBackendTreeTests {
    @Test("lists by name, with kinds and sizes", arguments: BackendKind.allCases)
    func lists(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            try await backend.write([1, 2], to: RemotePath("d/b"), when: .always)
            try await backend.write([1], to: RemotePath("d/a/x"), when: .always)
            try await backend.write([], to: RemotePath("d/c"), when: .always)
            let items = try #require(try await backend.list(RemotePath("d")))
            #expect(items.map(\.name) == ["a", "b", "c"])
            #expect(items.map(\.kind) == [.directory, .file, .file])
            #expect(items.map(\.size) == [0, 2, 0])
            #expect(items.allSatisfy { $0.modified != nil })
            for item in items { #expect(try await backend.status(of: RemotePath("d").appending(item.name)) == item) }
        }
    }

    @Test("copies a file by the same conditions as a write", arguments: BackendKind.allCases)
    func copies(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let (source, copy) = (try RemotePath("source"), try RemotePath("new/copy"))
            try await backend.write([1, 2, 3], to: source, when: .always)
            try await backend.copy(source, to: copy, when: .ifAbsent)
            await expect(.alreadyExists) { try await backend.copy(source, to: copy, when: .ifAbsent) }
            try await backend.copy(source, to: copy, when: .always)
            try await backend.copy(copy, to: copy, when: .always)
            #expect(try await backend.list(RemotePath("new"))?.map(\.name) == ["copy"])
            try await backend.write([9], to: source, when: .always)
            #expect(try await backend.bytes(at: copy) == [1, 2, 3])
            await expect(.preconditionFailed) {
                try await backend.copy(source, to: copy, when: .ifMatches(RemoteTag("another")))
            }
            let tag = try #require(try await backend.status(of: copy)?.tag)
            try await backend.copy(source, to: copy, when: .ifMatches(tag))
            #expect(try await backend.bytes(at: copy) == [9])
            await expect(.notFound) { try await backend.copy(RemotePath("absent/x"), to: copy, when: .always) }
        }
    }

    @Test("moves files and whole directories", arguments: BackendKind.allCases)
    func moves(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            try await backend.write([1], to: RemotePath("staging/deep/file"), when: .always)
            try await backend.createDirectory(at: RemotePath("staging/empty"))
            try await backend.move(RemotePath("staging"), to: RemotePath("published/store"))
            #expect(try await backend.status(of: RemotePath("staging")) == nil)
            #expect(try await backend.status(of: RemotePath("published/store"))?.name == "store")
            #expect(try await backend.list(RemotePath("published/store"))?.map(\.name) == ["deep", "empty"])
            #expect(try await backend.bytes(at: RemotePath("published/store/deep/file")) == [1])
            try await backend.move(RemotePath("published/store/deep/file"), to: RemotePath("file"))
            #expect(try await backend.bytes(at: RemotePath("file")) == [1])
            #expect(try await backend.list(RemotePath("published/store/deep")) == [])
            await expect(.notFound) { try await backend.move(RemotePath("absent"), to: RemotePath("x")) }
            await expect(.invalidPath) {
                try await backend.move(RemotePath("published"), to: RemotePath("published/x"))
            }
            await expect(.invalidPath) { try await backend.move(.root, to: RemotePath("x")) }
        }
    }

    @Test("moves nothing onto anything", arguments: BackendKind.allCases, ["file", "empty", "full"])
    func movesExclusively(kind: BackendKind, destination: String) async throws {
        try await kind.withBackend { backend in
            try await backend.write([1], to: RemotePath("file"), when: .always)
            try await backend.createDirectory(at: RemotePath("empty"))
            try await backend.write([2], to: RemotePath("full/x"), when: .always)
            try await backend.write([3], to: RemotePath("directory/y"), when: .always)
            try await backend.write([4], to: RemotePath("other"), when: .always)
            for source in ["directory", "other", destination] {
                await expect(.alreadyExists) { try await backend.move(RemotePath(source), to: RemotePath(destination)) }
            }
            #expect(try await backend.list(.root)?.map(\.name) == ["directory", "empty", "file", "full", "other"])
            #expect(try await backend.bytes(at: RemotePath("file")) == [1])
            #expect(try await backend.list(RemotePath("empty")) == [])
            #expect(try await backend.bytes(at: RemotePath("full/x")) == [2])
            #expect(try await backend.bytes(at: RemotePath("directory/y")) == [3])
        }
    }

    @Test("removes a directory with all that is in it", arguments: BackendKind.allCases)
    func removes(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            for name in ["a", "b/c", "b/d/e", "b/d/f/g"] {
                try await backend.write([1], to: RemotePath("tree/\(name)"), when: .always)
            }
            try await backend.write([2], to: RemotePath("tree-not"), when: .always)
            try await backend.remove(RemotePath("tree/b/d"))
            #expect(try await backend.list(RemotePath("tree/b"))?.map(\.name) == ["c"])
            try await backend.remove(RemotePath("tree"))
            #expect(try await backend.list(.root)?.map(\.name) == ["tree-not"])
        }
    }
}
