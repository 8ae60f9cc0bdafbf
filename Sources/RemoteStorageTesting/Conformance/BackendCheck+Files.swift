import RemoteStorage

// Checks of reading and writing files.
extension BackendCheck {
    /// Checks ``/RemoteStorage/RemoteBackend/capabilities()`` and ``/RemoteStorage/RemoteBackend/identity``.
    public static let steadyCapabilities = BackendCheck(
        "Capabilities and identity never change"
    ) { trial in
        try trial.require(!trial.backend.identity.isEmpty, "the identity is empty")
        let before = trial.backend.identity
        try await trial.backend.write([1], to: RemotePath("file"), when: .always)
        try trial.requireEqual(try await trial.backend.capabilities(), trial.claimed, "the capabilities changed")
        let known = try await trial.backend.knownCapabilities()
        try trial.requireEqual(known ?? trial.claimed, trial.claimed, "the known capabilities")
        try trial.requireEqual(trial.backend.identity, before, "the identity changed")
    }

    private static let boundaries = [1, 512, 4096, 8192, 16384, 65536, RemoteContent.chunkSize]

    /// Checks files whose sizes are close to common buffer sizes.
    public static let roundTrip = BackendCheck(
        "Reading a file of any size returns the written bytes"
    ) { trial in
        let sizes = [0] + boundaries.flatMap { [$0 - 1, $0, $0 + 1] } + [2 * RemoteContent.chunkSize + 3]
        for size in Set(sizes).sorted() {
            let path = try RemotePath("a/b/\(size)")
            let bytes = pattern(size, seed: size)
            let written = try await trial.backend.write(bytes, to: path, when: .always)
            try trial.requireEqual(written.name, "\(size)", "the name of the written item")
            try trial.requireEqual(written.kind, .file, "the kind of the written item")
            try trial.requireEqual(written.size, Int64(size), "the size of the written item")
            guard let status = try await trial.backend.status(of: path) else {
                throw BackendTrial.Violation(words: "“\(path)” was written, but doesn't exist")
            }
            try trial.requireEqual(status.size, written.size, "the size of “\(path)”")
            try trial.requireEqual(status.kind, .file, "the kind of “\(path)”")
            try trial.requireEqual(try await trial.backend.read(path)?.length, Int64(size), "the length of “\(path)”")
            try await trial.requireBytes(bytes, at: path, "after a write")
        }
    }

    /// Checks contents with chunks of many sizes.
    public static let contentShapes = BackendCheck(
        "A content may have chunks of any size, and no announced length"
    ) { trial in
        let bytes = pattern(100_000)
        for (number, chunk) in [1000, 4096, 65537, 100_000].enumerated() {
            for announces in [true, false] {
                let path = try RemotePath("\(number)-\(announces)")
                let content = RemoteContent(bytes, chunkSize: chunk, announces: announces)
                let written = try await trial.backend.write(content, to: path, when: .always)
                try trial.requireEqual(written.size, Int64(bytes.count), "the size of the written item")
                try await trial.requireBytes(bytes, at: path, "written in chunks of \(chunk)")
            }
        }
        let chunks: [[UInt8]] = [[], [1], [], [], [2, 3], []]
        for (name, chunks) in [("gaps", chunks), ("empty", [[], []]), ("nothing", [])] {
            let content = RemoteContent(length: nil) {
                var rest = chunks[...]
                return { rest.popFirst() }
            }
            try await trial.backend.write(content, to: RemotePath(name), when: .always)
            try await trial.requireBytes(chunks.flatMap(\.self), at: RemotePath(name), "written with empty chunks")
        }
    }

    /// Checks contents that aren't as long as they announce.
    public static let wrongLength = BackendCheck(
        "A content that isn't as long as it announces is refused and leaves nothing"
    ) { trial in
        let path = try RemotePath("directory/file")
        for (announced, actual) in [(5, 1), (1, 5), (100_000, 99_999), (99_999, 100_000)] {
            let bytes = pattern(actual)
            let content = RemoteContent(length: Int64(announced)) {
                var rest: [UInt8]? = bytes
                return { rest.take() }
            }
            try await trial.requireError(.wrongLength, of: "writing \(actual) bytes as \(announced)") {
                try await trial.backend.write(content, to: path, when: .always)
            }
            try await trial.requireBytes(nil, at: path, "after a refused write")
            try await trial.requireError(.wrongLength, of: "a resumable write of \(actual) bytes as \(announced)") {
                try await trial.backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                    RemoteContentRest(content, after: 0)
                }
            }
            try await trial.requireBytes(nil, at: path, "after a refused resumable write")
            let existing = try RemotePath("directory/existing")
            try await trial.backend.write([1], to: existing, when: .always)
            try await trial.requireError(.wrongLength, of: "replacing a file by \(actual) bytes as \(announced)") {
                try await trial.backend.write(content, to: existing, when: .always)
            }
            try await trial.requireBytes([1], at: existing, "after a refused replacement")
        }
    }

    /// Checks reads of parts of files.
    public static let ranges = BackendCheck(
        "Reading a range returns exactly its bytes, cut off at the file's end"
    ) { trial in
        let path = try RemotePath("file")
        let all = pattern(200_000)
        try await trial.backend.write(all, to: path, when: .always)
        let ranges: [Range<Int64>] = [
            0..<200_000, 0..<1, 3..<5, 65_535..<65_537, 199_999..<200_000, 199_998..<300_000, 4..<4, 199_999..<199_999,
            200_000..<200_001, 500_000..<600_000, 5..<Int64.max, 0..<Int64.max, 100_000..<199_999,
            -5..<3, -5..<0, -9..<(-2), Int64.min..<Int64.max,
        ]
        for range in ranges {
            let existing = range.clamped(to: 0..<200_000)
            let expected = Array(all[Int(existing.lowerBound)..<Int(existing.upperBound)])
            guard let content = try await trial.backend.read(path, range: range) else {
                throw BackendTrial.Violation(words: "reading the range \(range) of a file returned nil")
            }
            try trial.requireEqual(content.length, Int64(expected.count), "the length of the range \(range)")
            let bytes = try await content.bytes(upTo: 1 << 20)
            try trial.require(
                bytes == expected,
                "reading the range \(range) returned \(bytes.count) bytes from \(bytes.prefix(4)), not \(expected.count) from \(expected.prefix(4))"
            )
        }
        try trial.require(
            try await trial.backend.read(RemotePath("absent"), range: 0..<1) == nil,
            "reading a range of a missing file returned a content"
        )
    }

    /// Checks missing files and empty directories.
    public static let absence = BackendCheck(
        "A missing item is nil, and an empty directory isn't a missing one"
    ) { trial in
        let backend = trial.backend
        let (absent, empty) = (try RemotePath("absent"), try RemotePath("empty"))
        try await trial.requireNames([], in: .root, "an empty storage")
        try await backend.createDirectory(at: empty)
        try await trial.requireNames([], in: empty, "an empty directory")
        try await backend.write([], to: empty.appending("file"), when: .always)
        for path in [
            absent, try absent.appending("x"), try RemotePath("empty/file/x"), try RemotePath("empty/file/x/y"),
        ] {
            try trial.require(try await backend.status(of: path) == nil, "“\(path)” doesn't exist, but has a status")
            try trial.require(try await backend.list(path) == nil, "“\(path)” doesn't exist, but is listed")
            try trial.require(try await backend.read(path) == nil, "“\(path)” doesn't exist, but can be read")
            try await backend.remove(path)
        }
        try await backend.remove(empty.appending("file"))
        try await trial.requireNames([], in: empty, "an emptied directory")
        try await trial.requireNames(["empty"], in: .root, "after removing missing items")
        try trial.requireEqual(try await backend.status(of: empty)?.kind, .directory, "the kind of an empty directory")
        let root = try await backend.status(of: .root)
        try trial.requireEqual(root?.kind, .directory, "the kind of the root")
        try trial.requireEqual(root?.name, "", "the name of the root")
    }

    /// Checks files where directories are needed, and the reverse.
    public static let wrongKinds = BackendCheck(
        "A file where a directory is needed, or the reverse, is refused and changes nothing"
    ) { trial in
        let backend = trial.backend
        let (file, directory) = (try RemotePath("file"), try RemotePath("directory"))
        try await backend.write([1], to: file, when: .always)
        try await backend.createDirectory(at: directory)
        try await backend.createDirectory(at: directory)
        try await backend.createDirectory(at: .root)
        let inFile = try file.appending("x")
        try await trial.requireError(.wrongKind, of: "listing a file") { try await backend.list(file) }
        try await trial.requireError(.wrongKind, of: "creating a directory where a file is") {
            try await backend.createDirectory(at: file)
        }
        try await trial.requireError(.wrongKind, of: "creating a directory in a file") {
            try await backend.createDirectory(at: inFile)
        }
        try await trial.requireError(.wrongKind, of: "writing into a file as into a directory") {
            try await backend.write([2], to: inFile, when: .always)
        }
        try await trial.requireError(.wrongKind, of: "reading a directory") { try await backend.read(directory) }
        try await trial.requireError(.wrongKind, of: "reading the root") { try await backend.read(.root) }
        try await trial.requireError(.wrongKind, of: "writing a file where a directory is") {
            try await backend.write([2], to: directory, when: .always)
        }
        try await trial.requireError(.alreadyExists, of: "creating a file where a directory is") {
            try await backend.write([2], to: directory, when: .ifAbsent)
        }
        try await trial.requireError(.wrongKind, of: "copying a directory") {
            try await backend.copy(directory, to: RemotePath("copy"), when: .always)
        }
        try await trial.requireError(.wrongKind, of: "copying a file to where a directory is") {
            try await backend.copy(file, to: directory, when: .always)
        }
        try await trial.requireError(.alreadyExists, of: "copying a file to where a directory is, if absent") {
            try await backend.copy(file, to: directory, when: .ifAbsent)
        }
        for source in [file, directory] {
            try await trial.requireError(.wrongKind, .invalidPath, of: "moving “\(source)” into a file") {
                try await backend.move(source, to: inFile)
            }
        }
        try await trial.requireError(.wrongKind, of: "copying a file into a file") {
            try await backend.copy(file, to: inFile, when: .always)
        }
        try await trial.requireError(.invalidPath, of: "writing the root") {
            try await backend.write([2], to: .root, when: .always)
        }
        try await trial.requireError(.invalidPath, of: "copying to the root") {
            try await backend.copy(file, to: .root, when: .always)
        }
        try await trial.requireError(.invalidPath, of: "removing the root") { try await backend.remove(.root) }
        try await trial.requireBytes([1], at: file, "after refused requests")
        try await trial.requireNames(["directory", "file"], in: .root, "after refused requests")
    }

    /// Checks a file that is replaced while it is read.
    public static let oneVersion = BackendCheck(
        "A read returns one version of a file, even if the file is replaced or removed in the meantime"
    ) { trial in
        let path = try RemotePath("file")
        let versions = [pattern(300_000, seed: 1), pattern(300_001, seed: 2)]
        try await trial.backend.write(versions[0], to: path, when: .always)
        let first = try await trial.backend.read(path)
        try await trial.backend.write(versions[1], to: path, when: .always)
        let second = try await trial.backend.read(path)
        try await trial.backend.remove(path)
        for (content, version) in zip([first, second], versions) {
            do {
                let bytes = try await content?.bytes(upTo: 1 << 20)
                try trial.require(
                    bytes == version,
                    "reading a file that was replaced in the meantime returned a mixture of versions, or nothing"
                )
            } catch let error as RemoteError where error.code == .unavailable {
                // Allowed: an error instead of an end, so that the reader doesn't mistake the bytes for the whole file.
            }
        }
        try trial.require(try await trial.backend.read(path) == nil, "a removed file still exists")
    }

    /// Checks ``/RemoteStorage/RemoteCapabilities/contentTags``.
    public static let contentTags = BackendCheck(
        "A file has another tag after each write of other bytes, and keeps it until the next"
    ) { trial in
        guard trial.claimed.contains(.contentTags) else { return }
        let backend = trial.backend
        let (path, directory) = (try RemotePath("directory/file"), try RemotePath("directory"))
        var tags: [RemoteTag?] = []
        for byte in 0..<UInt8(5) {
            let tag = try await backend.write([byte], to: path, when: .always).tag
            try trial.require(tag != nil && !tags.contains(tag), "the tag of a new version: \(String(describing: tag))")
            tags.append(tag)
            try trial.requireEqual(try await backend.status(of: path)?.tag, tag, "the tag in the status")
            try await trial.requireBytes([byte], at: path, "written")
            try await backend.copy(path, to: RemotePath("copy"), when: .always)
            try await backend.write([9], to: directory.appending("other"), when: .always)
            let listed = try await backend.list(directory)?.first?.tag
            try trial.requireEqual(listed, tag, "the tag of a file that was only read and copied")
        }
    }

    /// Checks signals of changes; it doesn't end if a backend promises signals and sends none.
    public static let changeSignals = BackendCheck(
        "If a backend signals changes, it signals a new file, also in a directory that is created later"
    ) { trial in
        let directory = try RemotePath("watched/directory")
        guard let signals = await trial.backend.changes(in: directory) else { return }
        var iterator = signals.makeAsyncIterator()
        for number in 0..<3 {
            try await trial.backend.write([1], to: directory.appending("\(number)"), when: .ifAbsent)
            try trial.require(await iterator.next() != nil, "the signals ended although the reader hadn't ended them")
        }
    }
}
