import RemoteStorage
import RemoteStorageTesting
import Testing

/// An archive: nothing is removed from it.
private actor Archive: ForwardingBackend {
    nonisolated let base: any RemoteBackend

    init(_ base: any RemoteBackend) { self.base = base }

    func remove(_ path: RemotePath) async throws {
        throw RemoteError(.notAllowed, "“\(path)” is in an archive. Keep it there.", path: path)
    }
}

/// A backend that implements no request itself.
private actor Wrapper: ForwardingBackend {
    nonisolated let base: any RemoteBackend

    init(_ base: any RemoteBackend) { self.base = base }
}

@Suite("A backend that forwards requests", .timeLimit(.minutes(60)))
struct ForwardingBackendTests {
    @Test("A forwarding backend keeps every promise of the backend that it forwards to", arguments: BackendCheck.all)
    func promises(check: BackendCheck) async throws {
        try await check.run(on: Wrapper(InMemoryBackend()))
    }

    @Test("A forwarding backend replaces only the requests that it implements")
    func replaces() async throws {
        let base = InMemoryBackend()
        let archive = Archive(base)
        let path = try RemotePath("notes")
        try await archive.write([1, 2, 3], to: path, when: .always)
        let error = await #expect(throws: RemoteError.self) { try await archive.remove(path) }
        #expect(error?.code == .notAllowed)
        #expect(try await base.bytes(at: path) == [1, 2, 3])
        #expect(archive.identity == base.identity)
    }
}
