import FileSupport
import Foundation
import TestSupport
import Testing
import ThreadSupport

@Suite("A watch of files", .timeLimit(.minutes(60)))
final class FileWatchTests {
    private let folder = TemporaryFolder()
    private var watch: FileWatch?
    /// Whether `isExpected` was true at the time of each report.
    private let reports: AsyncStream<Bool>
    private let continuation: AsyncStream<Bool>.Continuation
    private let isExpected = Locked<@Sendable () -> Bool>({ false })

    init() throws {
        (reports, continuation) = AsyncStream.makeStream(of: Bool.self)
    }

    private func start(_ path: String = "", database: String? = nil) throws {
        watch = try FileWatch(directory: folder.appending(path: path).path, database: database) {
            [continuation, isExpected] in continuation.yield(isExpected.withLock(\.self)())
        }
    }

    /// Changes something, and waits until that is reported.
    ///
    /// Fails if anything was reported before.
    private func expectReport(of change: () throws -> Void) async throws {
        isExpected.withLock { $0 = { true } }
        try change()
        var iterator = reports.makeAsyncIterator()
        #expect(await iterator.next() == true)
    }

    /// Changes something, and waits for a report at a time when a condition holds.
    private func expectReport(
        when condition: @escaping @Sendable () -> Bool,
        of change: () throws -> Void
    ) async throws {
        isExpected.withLock { $0 = condition }
        try change()
        for await isExpected in reports where isExpected { break }
    }

    private func append(_ text: String, to name: String) throws {
        let url = folder.appending(path: name)
        if !FileManager.default.fileExists(atPath: url.path) {
            try #require(FileManager.default.createFile(atPath: url.path, contents: nil))
        }
        let file = try FileHandle(forWritingTo: url)
        defer { try? file.close() }
        try file.seekToEnd()
        try file.write(contentsOf: Data(text.utf8))
    }

    @Test("A watch reports that a database or its write-ahead log is written", arguments: ["store", "store-wal"])
    func writes(name: String) async throws {
        try append("a", to: name)
        try start(database: "store")
        try await expectReport { try append("b", to: name) }
    }

    @Test("A watch reports a write-ahead log that is created and written")
    func newLog() async throws {
        try append("a", to: "store")
        try start(database: "store")
        try await expectReport { try append("b", to: "store-wal") }
    }

    @Test("A watch reports a database that is replaced or removed")
    func replacement() async throws {
        try append("a", to: "store")
        try append("b", to: "other")
        try start(database: "store")
        try await expectReport {
            let (other, store) = (folder.appending(path: "other").path, folder.appending(path: "store").path)
            #expect(rename(other, store) == 0)
        }
        watch = nil
        try start(database: "store")
        try await expectReport { try FileManager.default.removeItem(at: folder.appending(path: "store")) }
    }

    @Test("A watch of a database doesn't report readers, whose empty logs come and go, nor other files")
    func readers() async throws {
        try append("a", to: "store")
        try start(database: "store")
        for name in ["store-wal", "store-shm", "store-journal", "another"] {
            try append(name == "store-wal" ? "" : "x", to: name)
            try FileManager.default.removeItem(at: folder.appending(path: name))
        }
        try await expectReport { try append("b", to: "store") }
    }

    @Test("A watch of a directory reports names that come and go, except hidden names")
    func names() async throws {
        try start()
        try append("a", to: ".temporary")
        try FileManager.default.removeItem(at: folder.appending(path: ".temporary"))
        try await expectReport { try append("a", to: "name") }
        watch = nil
        try start()
        try await expectReport { try FileManager.default.removeItem(at: folder.appending(path: "name")) }
    }

    @Test("A watch waits for a directory that doesn't exist yet, however deep it is")
    func absentDirectory() async throws {
        try start("one/two/three")
        let file = folder.appending(path: "one/two/three/file")
        try await expectReport {
            FileManager.default.fileExists(atPath: file.path)
        } of: {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try append("a", to: "one/two/three/file")
        }
    }

    @Test("A watch reports a directory that ends without an event above it, and finds the next one on request")
    func withoutEvents() async throws {
        // The directory above the link has no event of what the link leads to.
        let directory = folder.appending(path: "elsewhere/directory")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let link = folder.appending(path: "link")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: directory)
        try start("link")
        try await expectReport { try FileManager.default.removeItem(at: directory) }
        try await expectReport {
            FileManager.default.fileExists(atPath: directory.path)
        } of: {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            watch?.lookAgain()
        }
        let file = directory.appending(path: "file")
        try await expectReport {
            FileManager.default.fileExists(atPath: file.path)
        } of: {
            try append("a", to: "elsewhere/directory/file")
        }
    }

    @Test("A watch continues when the directory, or a directory above it, is renamed away and back")
    func awayAndBack() async throws {
        try FileManager.default.createDirectory(
            at: folder.appending(path: "one/two"),
            withIntermediateDirectories: true
        )
        try append("a", to: "one/two/store")
        try start("one/two", database: "store")
        let (one, away) = (folder.appending(path: "one"), folder.appending(path: "away"))
        let store = one.appending(path: "two/store")
        try await expectReport {
            !FileManager.default.fileExists(atPath: store.path)
        } of: {
            try FileManager.default.moveItem(at: one, to: away)
        }
        try await expectReport {
            FileManager.default.fileExists(atPath: store.path)
        } of: {
            try FileManager.default.moveItem(at: away, to: one)
        }
        try await expectReport {
            (try? Data(contentsOf: store)) == Data("ab".utf8)
        } of: {
            try append("b", to: "one/two/store")
        }
    }
}
