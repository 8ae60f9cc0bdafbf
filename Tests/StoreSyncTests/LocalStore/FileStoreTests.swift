import ContentDigests
import FileSupport
import Foundation
import GRDB
import Testing

@testable import StoreSync

@Suite("A store that is copied as a file", .timeLimit(.minutes(60)))
struct FileStoreTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
    }

    private func take(_ steps: StepObserver = .none) throws -> StoreSnapshot {
        try StoreSnapshot.take(of: LocalStore(store.url, steps: steps), at: store.file("copy"))
    }

    private func changedWhileCopied(_ change: @escaping @Sendable () throws -> Void) -> StoreSyncError.Code? {
        #expect(throws: StoreSyncError.self) { _ = try take(StepObserver { _ in try change() }) }?.code
    }

    @Test("A file is copied byte by byte, and only this user can read the copy", arguments: [0, 1, 100, 3_000_000])
    func copies(byteCount: Int) throws {
        let content = Data((0..<byteCount).map { UInt8(truncatingIfNeeded: $0 * 7) })
        try content.write(to: store.url)
        let snapshot = try take()
        #expect(snapshot.byteCount == Int64(byteCount))
        #expect(try Data(contentsOf: snapshot.url) == content)
        #expect(try snapshot.contentRoot == ContentRoot.ofFile(at: store.url, .plain).root)
        let attributes = try FileManager.default.attributesOfItem(atPath: snapshot.url.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let error = #expect(throws: StoreSyncError.self) { _ = try take() }
        #expect(error?.code == .cannotWrite, "an existing file isn't overwritten")
        #expect(try Data(contentsOf: snapshot.url) == content, "nor removed")
    }

    @Test("A file that is written to while it's copied is refused", arguments: ["longer content", "CONTENT"])
    func changed(newContent: String) throws {
        try Data("content".utf8).write(to: store.url)
        let times = try FileManager.default.attributesOfItem(atPath: store.url.path)
        let modified = times[.modificationDate] as? Date
        let code = changedWhileCopied { [store] in
            let file = try FileHandle(forWritingTo: store.url)
            try file.write(contentsOf: Data(newContent.utf8))
            try file.close()
            guard let modified else { return }
            try FileManager.default.setAttributes([.modificationDate: modified], ofItemAtPath: store.url.path)
        }
        #expect(code == .storeChanged)
        #expect(try store.names() == ["store"])
    }

    /// A way to read a store that isn't SQLite's.
    struct Reading: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let read: @Sendable (_ store: LocalStore, _ copy: URL) async throws -> ContentRoot

        static let all = [
            Reading(testDescription: "copy") { try StoreSnapshot.take(of: $0, at: $1).contentRoot },
            Reading(testDescription: "digest") { store, _ in try StoreSnapshot.digest(store).root },
            Reading(testDescription: "in place") { store, copy in
                let held = try #require(HeldFile(store, copyingTo: copy))
                defer { held.release() }
                var hasher = ContentRootHasher()
                hasher.update(try held.read(at: 0, upTo: 1_000_000))
                let root = hasher.finalize()
                try await held.check(root, on: nil)
                return root
            },
        ]
    }

    @Test(
        "A file that a program writes to through mapped memory is refused, though its times don't change",
        arguments: Reading.all
    )
    func changedThroughMemory(reading: Reading) async throws {
        // In a file system in memory, a write through mapped memory never changes a file's times.
        let memory = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
        let isInMemory = FileManager.default.isWritableFile(atPath: memory.path)
        let url = (isInMemory ? memory : store.folder).appending(path: "storesync-test-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: url) }
        try Data(repeating: UInt8(ascii: "a"), count: 100_000).write(to: url)
        let local = try LocalStore(url)
        let descriptor = open(url.path, O_RDWR)
        defer { close(descriptor) }
        let mapping = try #require(mmap(nil, 100_000, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
        try #require(mapping != MAP_FAILED)
        defer { munmap(mapping, 100_000) }
        // In other file systems, the first write to a page changes the times, and later writes don't.
        mapping.storeBytes(of: UInt8(ascii: "b"), toByteOffset: 50_000, as: UInt8.self)
        let before = local.fingerprint
        // Only the reading below calls the observer, on this thread, and it ends before the mapping does.
        nonisolated(unsafe) let map = mapping
        let writing = try LocalStore(
            url,
            // Called when the store was read, before it's compared.
            steps: StepObserver { _ in
                map.storeBytes(of: UInt8(ascii: "c"), toByteOffset: 50_000, as: UInt8.self)
            }
        )
        let code = await #expect(throws: StoreSyncError.self) {
            _ = try await reading.read(writing, store.file("copy"))
        }?.code
        #expect(code == .storeChanged)
        if isInMemory { #expect(local.fingerprint == before) }
        #expect(try store.names().isEmpty)
        let root = try await reading.read(local, store.file("copy"))
        #expect(try root == ContentRoot.ofFile(at: url, .plain).root)
    }

    @Test("A file next to which a log appears while it's copied is refused")
    func logAppears() throws {
        try Data("content".utf8).write(to: store.url)
        let code = changedWhileCopied { [store] in try Data().write(to: store.file("store-wal")) }
        #expect(code == .unsupportedFormat)
    }

    @Test(
        "A file that a program saves while it's compared isn't replaced",
        arguments: ["store read", "before the rename"],
        [false, true]
    )
    func savedMeanwhile(step: String, byRenaming: Bool) throws {
        try Data("old".utf8).write(to: store.url)
        let root = try take().contentRoot
        let steps = StepObserver { [store] reached in
            guard reached == step else { return }
            try Data("new".utf8).write(to: store.url, options: byRenaming ? .atomic : [])
        }
        let download = StoreReplacement.temporaryURL(for: try LocalStore(store.url))
        try Data("download".utf8).write(to: download)
        let error = #expect(throws: StoreSyncError.self) {
            try StoreReplacement.replace(
                LocalStore(store.url, steps: steps),
                with: download,
                expecting: .unchanged(acceptable: [root])
            )
        }
        #expect([.localChanges, .storeChanged].contains(error?.code))
        #expect(try Data(contentsOf: store.url) == Data("new".utf8))
    }

    @Test("A file replaces an SQLite store, and an SQLite store replaces a file")
    func changesKind() throws {
        try store.make("old", in: .killedInWALMode)
        let download = StoreReplacement.temporaryURL(for: try LocalStore(store.url))
        try Data("text".utf8).write(to: download)
        try StoreReplacement.replace(LocalStore(store.url), with: download, expecting: .anything)
        #expect(try Data(contentsOf: store.url) == Data("text".utf8))
        #expect(try store.names() == ["store"])
        try store.replace(expecting: .unchanged(acceptable: [take().contentRoot]))
        #expect(try store.content() == "new")
    }

    @Test("Copying an SQLite store as a file doesn't drop the locks of this process's connections")
    func keepsLocks() throws {
        try store.make("old")
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let queue = try DatabaseQueue(path: store.url.path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "BEGIN IMMEDIATE") }
        _ = try take()
        let program = try SQLProgram(opening: store.url)
        #expect(throws: SQLProgram.Failure.self) { try program.sql("BEGIN IMMEDIATE") }
        try queue.inDatabase { try $0.execute(sql: "COMMIT") }
        try program.sql("BEGIN IMMEDIATE")
    }
}
