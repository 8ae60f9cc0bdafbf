import RemoteStorage
import RemoteStorageTesting
import Testing

// The examples in the documentation.

// DOC: backend
actor Subdirectory: RemoteBackend {
    nonisolated let identity: String
    private let base: any RemoteBackend
    private let directory: RemotePath

    init(_ directory: RemotePath, of base: any RemoteBackend) {
        self.base = base
        self.directory = directory
        identity = "\(base.identity)/\(directory)"
    }

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities() }

    func knownCapabilities() async throws -> RemoteCapabilities? { try await base.knownCapabilities() }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        var item = try await found(base.status(of: whole(path)))
        item?.name = path.lastComponent ?? ""
        return item
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try await found(base.list(whole(directory)))
    }

    func createDirectory(at path: RemotePath) async throws {
        try await requirePlace()
        try await base.createDirectory(at: whole(path))
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await found(base.read(whole(path), range: range))
    }

    func write(_ content: RemoteContent, to path: RemotePath, when condition: WriteCondition) async throws -> RemoteItem
    {
        try await requirePlace()
        return try await base.write(content, to: inside(path), when: condition)
    }

    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await requirePlace()
        return try await base.resumeWrite(to: inside(path), when: condition, receipts: receipts, rest)
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try await base.copy(whole(source), to: inside(destination), when: condition)
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try await base.move(inside(source), to: inside(destination))
    }

    func remove(_ path: RemotePath) async throws { try await base.remove(inside(path)) }

    func changes(in directory: RemotePath) async -> AsyncStream<Void>? {
        guard let directory = try? whole(directory) else { return nil }
        return await base.changes(in: directory)
    }

    private func whole(_ path: RemotePath) throws -> RemotePath {
        try RemotePath(components: directory.components + path.components)
    }

    /// Returns the whole path of an item that a request changes, which can't be the root.
    private func inside(_ path: RemotePath) throws -> RemotePath {
        guard path != .root else { throw RemoteError.rootIsFixed() }
        return try whole(path)
    }

    /// Returns the answer of the base; `nil` is valid only if the directory exists.
    private func found<Answer>(_ answer: Answer?) async throws -> Answer? {
        if answer == nil { try await requirePlace() }
        return answer
    }

    private func requirePlace() async throws {
        guard try await base.status(of: directory) != nil else {
            throw RemoteError(.unavailable, "\(identity) doesn't exist. Create the directory first.")
        }
    }
}
// DOC: end

@Suite("D16: The documentation's examples, including a backend", .timeLimit(.minutes(60)))
struct ExampleTests {
    // DOC: suite
    @Test("A directory of another backend keeps every promise", arguments: BackendCheck.all)
    func keepsItsPromises(check: BackendCheck) async throws {
        let base = InMemoryBackend()
        let directory = try RemotePath("users/ann")
        try await base.createDirectory(at: directory)
        try await check.run(on: Subdirectory(directory, of: base))
    }
    // DOC: end

    @Test("A missing directory of another backend is an error, not an empty storage")
    func absence() async throws {
        let backend = Subdirectory(try RemotePath("users/ann"), of: InMemoryBackend())
        let requests: [@Sendable () async throws -> Void] = [
            { _ = try await backend.status(of: .root) },
            { _ = try await backend.list(.root) },
            { _ = try await backend.read(RemotePath("a")) },
            { try await backend.createDirectory(at: RemotePath("a")) },
            { try await backend.write([1], to: RemotePath("a"), when: .always) },
        ]
        for request in requests {
            let error = await #expect(throws: RemoteError.self) { try await request() }
            #expect(error?.code == .unavailable)
        }
    }

    @Test("A folder keeps a file")
    func folder() async throws {
        try await withTemporaryFolder { share in
            // DOC: folder
            let backend = LocalFolderBackend(root: share)
            let path = try RemotePath("letters/2026/hello.txt")
            try await backend.write(Array("Hello".utf8), to: path, when: .ifAbsent)
            let bytes = try await backend.bytes(at: path)
            // DOC: end
            #expect(bytes == Array("Hello".utf8))
        }
    }
}
