import RemoteStorage
import Testing

/// The promises of ``RemoteBackend`` about files.
@Suite("Every backend", .timeLimit(.minutes(30)))
struct RemoteBackendTests {
    static let chunk = RemoteContent.chunkSize

    @Test(
        "gives back what was written",
        arguments: BackendKind.allCases,
        [0, 1, 4095, chunk - 1, chunk, chunk + 1, 2 * chunk + 3]
    )
    func roundTrips(kind: BackendKind, size: Int) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("a/b/file")
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let written = try await backend.write(bytes, to: path, when: .always)
            #expect(written.name == "file")
            #expect(written.kind == .file)
            #expect(written.size == Int64(size))
            #expect(try await backend.status(of: path) == written)
            #expect(try await backend.read(path)?.length == Int64(size))
            #expect(try await backend.bytes(at: path) == bytes)
        }
    }

    @Test("reads the range that is asked for, as far as there is one", arguments: BackendKind.allCases)
    func ranges(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("file")
            try await backend.write(Array(0..<10), to: path, when: .always)
            let cases: [(Range<Int64>, [UInt8])] = [
                (0..<10, Array(0..<10)), (0..<1, [0]), (3..<5, [3, 4]), (9..<10, [9]), (8..<100, [8, 9]), (4..<4, []),
                (10..<20, []), (50..<60, []), (5..<Int64.max, [5, 6, 7, 8, 9]),
            ]
            for (range, expected) in cases {
                let content = try await backend.read(path, range: range)
                #expect(content?.length == Int64(expected.count))
                #expect(try await content?.bytes(upTo: 10) == expected)
            }
        }
    }

    @Test("tells absent from empty", arguments: BackendKind.allCases)
    func absence(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let (absent, empty) = (try RemotePath("absent"), try RemotePath("empty"))
            try await backend.createDirectory(at: empty)
            try await backend.write([], to: empty.appending("file"), when: .always)
            let inFile = try RemotePath("empty/file/x")
            for path in [absent, try absent.appending("x"), inFile] {
                #expect(try await backend.status(of: path) == nil)
                #expect(try await backend.list(path) == nil)
                #expect(try await backend.read(path) == nil)
                try await backend.remove(path)
            }
            try await backend.remove(empty.appending("file"))
            #expect(try await backend.list(empty) == [])
            #expect(try await backend.list(.root)?.map(\.name) == ["empty"])
            #expect(try await backend.status(of: .root)?.kind == .directory)
        }
    }

    @Test("keeps names as they are", arguments: BackendKind.allCases)
    func oddNames(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let names = [
                " leading", "a b", "%2e%2e%2f", "100%", "+plus+", "#hash?&=", "ü文書👩‍👩‍👧", ".hidden", "...", "back\\slash",
                "\"'`$(x);|*", "new\nline", "-rf", String(repeating: "x", count: 255),
            ]
            for name in names {
                let path = RemotePath.root.appending(literal: "odd")
                try await backend.write(Array(name.utf8), to: path.appending(name), when: .ifAbsent)
            }
            #expect(try await backend.list(RemotePath("odd"))?.map(\.name) == names.sorted())
            for name in names {
                #expect(try await backend.bytes(at: RemotePath("odd").appending(name)) == Array(name.utf8))
            }
        }
    }

    @Test("writes only if the condition holds", arguments: BackendKind.allCases)
    func conditions(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("file")
            let first = try await backend.write([1], to: path, when: .ifAbsent)
            await expect(.alreadyExists) { try await backend.write(.failing, to: path, when: .ifAbsent) }
            let tag = try #require(first.tag)
            let second = try await backend.write([2, 2], to: path, when: .ifMatches(tag))
            #expect(second.tag != tag)
            await expect(.preconditionFailed) { try await backend.write(.failing, to: path, when: .ifMatches(tag)) }
            let absent = try RemotePath("absent")
            await expect(.preconditionFailed) { try await backend.write([3], to: absent, when: .ifMatches(tag)) }
            #expect(try await backend.bytes(at: path) == [2, 2])
            try await backend.write([4], to: path, when: .always)
            #expect(try await backend.bytes(at: path) == [4])
        }
    }

    @Test("refuses a file where a directory is needed, and the other way round", arguments: BackendKind.allCases)
    func wrongKinds(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let (file, directory) = (try RemotePath("file"), try RemotePath("directory"))
            try await backend.write([1], to: file, when: .always)
            try await backend.createDirectory(at: directory)
            try await backend.createDirectory(at: directory)
            await expect(.wrongKind) { try await backend.list(file) }
            await expect(.wrongKind) { try await backend.createDirectory(at: file) }
            await expect(.wrongKind) { try await backend.createDirectory(at: file.appending("x")) }
            await expect(.wrongKind) { try await backend.write([2], to: file.appending("x"), when: .always) }
            await expect(.wrongKind) { try await backend.read(directory) }
            await expect(.wrongKind) { try await backend.read(.root) }
            await expect(.wrongKind) { try await backend.write([2], to: directory, when: .always) }
            await expect(.alreadyExists) { try await backend.write([2], to: directory, when: .ifAbsent) }
            await expect(.wrongKind) { try await backend.copy(directory, to: RemotePath("copy"), when: .always) }
            await expect(.invalidPath) { try await backend.write([2], to: .root, when: .always) }
            await expect(.invalidPath) { try await backend.remove(.root) }
            #expect(try await backend.bytes(at: file) == [1])
        }
    }

    @Test("reads one version, even if it is replaced or removed meanwhile", arguments: BackendKind.allCases)
    func oneVersion(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("file")
            try await backend.write([1, 1], to: path, when: .always)
            let first = try #require(try await backend.read(path))
            try await backend.write([2, 2, 2], to: path, when: .always)
            let second = try #require(try await backend.read(path))
            try await backend.remove(path)
            #expect(try await first.bytes(upTo: 10) == [1, 1])
            #expect(try await second.bytes(upTo: 10) == [2, 2, 2])
            #expect(try await backend.read(path) == nil)
        }
    }

    @Test("leaves nothing of a content that fails or isn't as long as it says", arguments: BackendKind.allCases)
    func failingContent(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("directory/file")
            let short = RemoteContent(length: 5) {
                var rest: [UInt8]? = [1]; return { rest.take() }
            }
            for condition in [WriteCondition.always, .ifAbsent] {
                await #expect(throws: BodyFailure.self) { try await backend.write(.failing, to: path, when: condition) }
                await expect(.wrongLength) { try await backend.write(short, to: path, when: condition) }
            }
            #expect(try await backend.list(RemotePath("directory")) ?? [] == [])
            try await backend.write([7], to: path, when: .always)
            await #expect(throws: BodyFailure.self) { try await backend.write(.failing, to: path, when: .always) }
            #expect(try await backend.bytes(at: path) == [7])
        }
    }

    @Test("leaves nothing of a write that is cancelled", arguments: BackendKind.allCases)
    func cancelledWrite(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let path = try RemotePath("directory/file")
            let (started, signal) = AsyncStream<Never>.makeStream()
            let write = Task { try await backend.write(.endless(reached: signal), to: path, when: .ifAbsent) }
            for await _ in started {}
            write.cancel()
            await #expect(throws: CancellationError.self) { try await write.value }
            #expect(try await backend.list(RemotePath("directory")) ?? [] == [])
        }
    }

    @Test("does nothing for a task that is cancelled already", arguments: BackendKind.allCases)
    func cancelledTask(kind: BackendKind) async throws {
        try await kind.withBackend { backend in
            let (path, other) = (try RemotePath("file"), try RemotePath("other"))
            try await backend.write([1], to: path, when: .always)
            let requests: [@Sendable () async throws -> Void] = [
                { _ = try await backend.status(of: path) }, { _ = try await backend.list(.root) },
                { _ = try await backend.read(path) }, { try await backend.createDirectory(at: other) },
                { try await backend.write([2], to: other, when: .always) },
                { try await backend.copy(path, to: other, when: .always) },
                { try await backend.move(path, to: other) }, { try await backend.remove(path) },
            ]
            for request in requests {
                let task = Task {
                    withUnsafeCurrentTask { $0?.cancel() }
                    try await request()
                }
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            #expect(try await backend.list(.root)?.map(\.name) == ["file"])
        }
    }
}
