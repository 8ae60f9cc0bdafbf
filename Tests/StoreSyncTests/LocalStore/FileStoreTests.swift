import Foundation
import GRDB
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("A store that is copied as a file", .timeLimit(.minutes(30)))
struct FileStoreTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
    }

    private func take(whileCopying: () throws -> Void = {}) throws -> StoreSnapshot {
        try StoreSnapshot.take(of: LocalStore(store.url), at: store.file("copy"), whileCopying: whileCopying)
    }

    private func changedWhileCopied(_ change: () throws -> Void) -> StoreSyncError.Code? {
        #expect(throws: StoreSyncError.self) { _ = try take(whileCopying: change) }?.code
    }

    @Test("is copied byte by byte, for this user alone", arguments: [0, 1, 100, 3_000_000])
    func copies(byteCount: Int) throws {
        let content = Data((0..<byteCount).map { UInt8(truncatingIfNeeded: $0 * 7) })
        try content.write(to: store.url)
        let snapshot = try take()
        #expect(snapshot.byteCount == Int64(byteCount))
        #expect(try Data(contentsOf: snapshot.url) == content)
        #expect(try snapshot.contentRoot == ContentRoot.ofFile(at: store.url).root)
        let attributes = try FileManager.default.attributesOfItem(atPath: snapshot.url.path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let error = #expect(throws: StoreSyncError.self) { _ = try take() }
        #expect(error?.code == .cannotWrite, "a file that is there already isn't overwritten")
    }

    @Test("is refused where it is written to meanwhile", arguments: ["longer content", "CONTENT"])
    func changed(newContent: String) throws {
        try Data("content".utf8).write(to: store.url)
        let times = try FileManager.default.attributesOfItem(atPath: store.url.path)
        let code = changedWhileCopied {
            let file = try FileHandle(forWritingTo: store.url)
            try file.write(contentsOf: Data(newContent.utf8))
            try file.close()
            guard let modified = times[.modificationDate] else { return }
            try FileManager.default.setAttributes([.modificationDate: modified], ofItemAtPath: store.url.path)
        }
        #expect(code == .storeChanged)
        #expect(try store.names() == ["store"])
    }

    @Test("is refused where it is written to and its times don't show it")
    func changedUnderTheSameTimes() throws {
        try Data("content".utf8).write(to: store.url)
        // The second write to a page in memory leaves the times alone, as one within a tick of the clock does.
        let descriptor = open(store.url.path, O_RDWR)
        defer { close(descriptor) }
        let page = try #require(mmap(nil, 7, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
        try #require(page != MAP_FAILED)
        defer { munmap(page, 7) }
        page.storeBytes(of: UInt8(ascii: "C"), as: UInt8.self)
        let code = changedWhileCopied { page.storeBytes(of: UInt8(ascii: "K"), as: UInt8.self) }
        #expect(code == .storeChanged)
        #expect(try store.names() == ["store"])
        let fingerprint = try #require(try LocalStore(store.url).fingerprint)
        #expect(!fingerprint.isSettled)
    }

    @Test("is refused where a log appears beside it meanwhile")
    func logAppears() throws {
        try Data("content".utf8).write(to: store.url)
        #expect(changedWhileCopied { try Data().write(to: store.file("store-wal")) } == .unsupportedFormat)
    }

    @Test("takes the place of an SQLite store, and the other way round")
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

    @Test("leaves the locks of this process's connections alone, where it's SQLite's")
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
