import RemoteStorage
import ThreadSupport

// Checks of interrupted and concurrent requests: they leave nothing, and block no other request.
extension BackendCheck {
    private static let old = pattern(150_000, seed: 1)
    private static let new = pattern(150_000, seed: 2)

    /// Checks a file in the middle of a write.
    public static let unfinishedWrites = BackendCheck(
        "A file is invisible until it is completely written"
    ) { trial in
        let backend = trial.backend
        let (directory, path) = (try RemotePath("directory"), try RemotePath("directory/file"))
        for (state, condition) in [("a new file", WriteCondition.ifAbsent), ("a file", .always)] {
            let before: [UInt8]? = condition == .always ? old : nil
            if let before { try await backend.write(before, to: path, when: .always) }
            let content = RemoteContent(
                Array(new.prefix(100_000)),
                then: {
                    try await trial.requireBytes(before, at: path, "\(state) in the middle of its write")
                    let listed = try await backend.list(directory) ?? []
                    let sizes = listed.map { "\($0.name): \($0.size)" }
                    let expected = before.map { ["file: \($0.count)"] } ?? []
                    try trial.requireEqual(sizes, expected, "the list in the middle of writing \(state)")
                    let status = try await backend.status(of: path)
                    try trial.requireEqual(status?.size, before.map { Int64($0.count) }, "the size of \(state)")
                    let others = try await backend.list(.root)?.map(\.name).filter { $0 != "directory" }
                    try trial.requireEqual(others, [], "the other names in the root in the middle of writing \(state)")
                },
                Array(new.dropFirst(100_000))
            )
            try await backend.write(content, to: path, when: condition)
            try await trial.requireBytes(new, at: path, "\(state) after it was written")
            try await backend.remove(path)
        }
    }

    /// Checks contents that throw.
    public static let failingContent = BackendCheck(
        "A write whose content fails throws that error and changes nothing"
    ) { trial in
        let backend = trial.backend
        let (directory, path) = (try RemotePath("directory"), try RemotePath("directory/file"))
        for condition in [WriteCondition.always, .ifAbsent] {
            for count in [0, 3, 200_000] {
                try await trial.requireContentFailure(of: "a write") {
                    try await backend.write(.failing(after: count), to: path, when: condition)
                }
                try await trial.requireNothingVisible(in: directory, "after a failed write")
            }
        }
        try await backend.write(old, to: path, when: .always)
        for count in [0, 3, 200_000] {
            try await trial.requireContentFailure(of: "a write") {
                try await backend.write(.failing(after: count), to: path, when: .always)
            }
            try await trial.requireBytes(old, at: path, "after a failed write")
        }
        try await trial.requireContentFailure(of: "a resumable write that gets no content") {
            try await backend.resumeWrite(to: path, when: .always, receipts: InMemoryReceipts()) { _ in
                throw BackendTrial.ContentFailure()
            }
        }
        try await trial.requireBytes(old, at: path, "after a resumable write that got no content")
        try await trial.requireNames(["file"], in: directory, "after failed writes")
    }

    /// Checks writes that are cancelled in the middle.
    public static let cancelledWrite = BackendCheck(
        "A write that is cancelled in the middle changes nothing"
    ) { trial in
        let backend = trial.backend
        let (directory, path) = (try RemotePath("directory"), try RemotePath("directory/file"))
        for before in [nil, old] {
            if let before { try await backend.write(before, to: path, when: .always) }
            for count in [3, 200_000] {
                try await cancelInTheMiddle(after: count) { content in
                    try await backend.write(content, to: path, when: .always)
                }
                try await trial.requireBytes(before, at: path, "after a cancelled write")
                try trial.requireEqual(
                    try await backend.list(directory)?.map(\.name) ?? [],
                    before == nil ? [] : ["file"],
                    "the list after a cancelled write"
                )
            }
        }
        let receipts = InMemoryReceipts()
        // Large enough for storages that keep parts of some megabytes.
        let count = trial.claimed.contains(.resumableWrite) ? 16_000_000 : 200_000
        try await cancelInTheMiddle(after: count) { content in
            try await backend.resumeWrite(to: path, when: .always, receipts: receipts) { _ in
                RemoteContentRest(content, after: 0)
            }
        }
        try await trial.requireBytes(old, at: path, "after a cancelled resumable write")
        try await backend.resumeWrite(to: path, when: .always, receipts: receipts) { kept in
            try trial.requireEqual(kept, 0, "the kept bytes after a cancelled resumable write")
            return RemoteContentRest(RemoteContent(new), after: 0)
        }
        try await trial.requireBytes(new, at: path, "written after a cancelled resumable write")
        try await trial.requireNames(["file"], in: directory, "after cancelled writes")
    }

    /// Runs `write` in a task that is cancelled when the content has returned its first chunk, of `count` bytes.
    private static func cancelInTheMiddle(
        after count: Int,
        _ write: @escaping @Sendable (RemoteContent) async throws -> RemoteItem
    ) async throws {
        let (started, signal) = AsyncStream<Never>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                // A write that fails before it reads the content doesn't reach the signal.
                defer { signal.finish() }
                _ = try await write(.endless(after: count, reached: signal))
            }
            for await _ in started {}
            group.cancelAll()
            do {
                try await group.waitForAll()
                throw BackendTrial.Violation(words: "a write that was cancelled in the middle succeeded")
            } catch is CancellationError {
            }
        }
    }

    /// Checks reads that are cancelled in the middle.
    public static let cancelledReading = BackendCheck(
        "A content that a cancelled task reads never ends early without an error"
    ) { trial in
        let path = try RemotePath("file")
        let bytes = pattern(3 * RemoteContent.chunkSize + 5)
        try await trial.backend.write(bytes, to: path, when: .always)
        let content = try await trial.backend.read(path)
        let read = try await withThrowingTaskGroup(of: Int?.self) { group in
            group.addTask {
                var count = 0
                do {
                    for try await chunk in content ?? RemoteContent([]) {
                        count += chunk.count
                        withUnsafeCurrentTask { $0?.cancel() }
                    }
                } catch is CancellationError {
                    return nil
                }
                return count
            }
            return try await group.next() ?? nil
        }
        try trial.require(
            read == nil || read == bytes.count,
            "reading in a cancelled task ended after \(read ?? 0) of \(bytes.count) bytes without an error"
        )
    }

    /// Checks tasks that are cancelled from the start.
    public static let cancelledTask = BackendCheck(
        "A request of a cancelled task changes nothing"
    ) { trial in
        let backend = trial.backend
        let (path, other) = (try RemotePath("file"), try RemotePath("other"))
        try await backend.write([1], to: path, when: .always)
        let requests: [(String, @Sendable () async throws -> Void)] = [
            ("status", { _ = try await backend.status(of: path) }), ("list", { _ = try await backend.list(.root) }),
            ("read", { _ = try await backend.read(path) }),
            ("createDirectory", { try await backend.createDirectory(at: other) }),
            ("write", { try await backend.write([2], to: other, when: .always) }),
            ("write if absent", { try await backend.write([2], to: other, when: .ifAbsent) }),
            (
                "resumeWrite",
                {
                    try await backend.resumeWrite(to: other, when: .always, receipts: InMemoryReceipts()) { _ in
                        RemoteContentRest(RemoteContent([2]), after: 0)
                    }
                }
            ),
            ("copy", { try await backend.copy(path, to: other, when: .always) }),
            ("move", { try await backend.move(path, to: other) }), ("remove", { try await backend.remove(path) }),
        ]
        for (name, request) in requests {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    withUnsafeCurrentTask { $0?.cancel() }
                    do {
                        try await request()
                    } catch is CancellationError {
                        return
                    } catch {
                        throw BackendTrial.Violation(words: "\(name) of a cancelled task threw \(error)")
                    }
                    throw BackendTrial.Violation(words: "\(name) of a cancelled task succeeded")
                }
                try await group.waitForAll()
            }
        }
        try await trial.requireNames(["file"], in: .root, "after requests of cancelled tasks")
    }

    /// Checks requests during a slow write.
    public static let concurrentRequests = BackendCheck(
        "No request waits for another"
    ) { trial in
        let backend = trial.backend
        let writers = trial.effort.racers
        // Each write continues when all have started: a write that waits for another one never ends.
        let meeting = Meeting(of: writers)
        try await (0..<writers).concurrentMap(atMost: writers) { number in
            let content = RemoteContent(
                [1],
                then: {
                    try await meeting.arrive(number)
                    let beside = try RemotePath("beside \(number)")
                    try await backend.createDirectory(at: beside)
                    _ = try await backend.list(.root)
                    try await backend.write([0], to: beside.appending("other"), when: .always)
                    try await backend.copy(beside.appending("other"), to: beside.appending("copy"), when: .ifAbsent)
                    try await backend.move(beside.appending("copy"), to: beside.appending("moved"))
                    try await trial.requireBytes([0], at: beside.appending("moved"), "in the middle of a write")
                    try await backend.remove(beside)
                },
                [2]
            )
            try await backend.write(content, to: RemotePath("file \(number)"), when: .always)
        }
        for number in 0..<writers {
            try await trial.requireBytes([1, 2], at: RemotePath("file \(number)"), "written concurrently with others")
        }
    }
}
