import ContentDigests
import FileSupport
import Foundation
import GRDB
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A file that isn't a database, read in place", .timeLimit(.minutes(60)))
struct HeldFileTests {
    private let store: TestStore
    private let content = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 * 7) })

    init() throws {
        store = try TestStore()
        try content.write(to: store.url)
    }

    private func hold(_ steps: StepObserver = .none) throws -> HeldFile {
        try #require(HeldFile(try LocalStore(store.url, steps: steps), copyingTo: store.file("copy")))
    }

    private func bytes(of held: HeldFile, from start: Int = 0) throws -> Data {
        var bytes = Data()
        while true {
            let piece = try held.read(at: Int64(start + bytes.count), upTo: 1_000_000)
            guard !piece.isEmpty else { return bytes }
            bytes += piece
        }
    }

    private func root(of bytes: Data) -> ContentRoot {
        var hasher = ContentRootHasher()
        hasher.update(Array(bytes))
        return hasher.finalize()
    }

    /// Checks that the rest can't be read, or is refused.
    private func expectChanged(_ held: HeldFile, after start: Data) async {
        let error = await #expect(throws: StoreSyncError.self) {
            let read = try start + bytes(of: held, from: start.count)
            try await held.check(root(of: read), on: nil)
        }
        #expect(error?.code == .storeChanged)
        held.release()
    }

    @Test("A file read in place is read without a copy")
    func unchanged() async throws {
        let held = try hold()
        #expect(held.byteCount == Int64(content.count))
        let read = try bytes(of: held)
        #expect(read == content)
        #expect(try store.names() == ["store"])
        try await held.check(root(of: read), on: nil)
        held.release()
        #expect(throws: StoreSyncError.self) { try held.read(at: 0, upTo: 100) }
    }

    @Test(
        "A file read in place is refused if it's written to where it was read, or will be read",
        arguments: [0, 2_500_000]
    )
    func changed(at offset: UInt64) async throws {
        let held = try hold()
        let start = Data(try held.read(at: 0, upTo: 1_000_000))
        let file = try FileHandle(forWritingTo: store.url)
        try file.seek(toOffset: offset)
        try file.write(contentsOf: Data("changed".utf8))
        try file.close()
        await expectChanged(held, after: start)
    }

    @Test(
        "A file read in place is refused if it's replaced, or written to after it was read, even by equal content",
        arguments: [false, true]
    )
    func replaced(isReplaced: Bool) async throws {
        let held = try hold()
        let read = try bytes(of: held)
        try content.write(to: store.url, options: isReplaced ? .atomic : [])
        await expectChanged(held, after: read)
    }

    @Test("A file read in place is compared on the executor for blocking calls, block by block")
    func comparedOnExecutor() async throws {
        let held = try hold()
        let read = try bytes(of: held)
        let executor = CountingExecutor()
        try await held.check(root(of: read), on: executor)
        #expect(executor.jobCount > content.count / ContentRoot.blockSize)
        held.release()
    }

    @Test("A file read in place is refused if it's written to while it's compared")
    func changedWhileCompared() async throws {
        let held = try hold(StepObserver { [store] _ in try Data("other".utf8).write(to: store.url) })
        let read = try bytes(of: held)
        await expectChanged(held, after: read)
    }

    @Test("A file read in place is refused if the log of a database appears next to it")
    func logAppears() async throws {
        let held = try hold()
        let read = try bytes(of: held)
        try Data().write(to: store.file("store-wal"))
        #expect(await code { try await held.check(root(of: read), on: nil) } == .unsupportedFormat)
    }

    @Test("A file that is copied in the middle of a read may be written to from then on, and the copy is removed")
    func copiedInTheMiddle() async throws {
        let held = try hold()
        let start = Data(try held.read(at: 0, upTo: 1_000_000))
        try held.copy()
        try Data("changed".utf8).write(to: store.url)
        try held.copy()
        let read = try start + bytes(of: held, from: start.count)
        #expect(read == content)
        // What was read before the copy may have been another state.
        #expect(await code { try await held.check(root(of: Data("other".utf8)), on: nil) } == .storeChanged)
        try await held.check(root(of: read), on: nil)
        held.release()
        #expect(try store.names() == ["store"])
    }

    @Test("A file that was written to before it was copied in the middle of a read is refused")
    func changedBeforeCopy() async throws {
        let held = try hold()
        let start = Data(try held.read(at: 0, upTo: 1_000_000))
        try Data(content.reversed()).write(to: store.url)
        try held.copy()
        await expectChanged(held, after: start)
        #expect(try store.names() == ["store"])
    }

    @Test("A file that can't be copied in the middle of a read can't be read any further")
    func copyFails() async throws {
        let held = try hold()
        try Data().write(to: store.file("copy"))
        try held.copy()
        let error = #expect(throws: StoreSyncError.self) { try held.read(at: 0, upTo: 100) }
        #expect(error?.code == .cannotWrite)
        #expect(await code { try await held.check(root(of: content), on: nil) } == .cannotWrite)
        held.release()
        #expect(FileManager.default.fileExists(atPath: store.file("copy").path), "another file is kept")
    }

    @Test("A database, a missing file, or a file with a log next to it isn't read in place")
    func cannotBeHeld() throws {
        let queue = try DatabaseQueue(path: store.file("database").path)
        try queue.inDatabase { try $0.execute(sql: "CREATE TABLE note (text TEXT)") }
        try Data("text".utf8).write(to: store.file("logged"))
        try Data().write(to: store.file("logged-wal"))
        for name in ["database", "missing", "logged"] {
            let held = HeldFile(try LocalStore(store.file(name)), copyingTo: store.file("copy"))
            #expect(held == nil, "\(name)")
        }
    }
}

/// Counts its jobs.
private final class CountingExecutor: TaskExecutor {
    private let count = Locked(0)

    var jobCount: Int { count.withLock { $0 } }

    func enqueue(_ job: consuming ExecutorJob) {
        count.withLock { $0 += 1 }
        BlockingExecutor.shared.enqueue(job)
    }
}
