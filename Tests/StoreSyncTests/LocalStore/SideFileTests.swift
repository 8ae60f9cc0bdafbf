import Foundation
import Testing

@testable import StoreSync

/// How the files begin that SQLite keeps next to a database.
enum SQLiteStart {
    static let journal = Data([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7])
    static let log = Data([0x37, 0x7F, 0x06, 0x82, 0x00, 0x2D, 0xE2, 0x18])
}

@Suite("A file next to a store that has the name of one of SQLite's", .timeLimit(.minutes(60)))
struct SideFileTests {
    private let store: TestStore
    private let diary = Data("my own diary".utf8)

    init() throws {
        store = try TestStore()
    }

    private func take() throws { _ = try StoreSnapshot.take(of: LocalStore(store.url), at: store.file("copy")) }

    /// Replaces the store with a file, or with an SQLite database if `content` is `nil`, whatever it is.
    private func replace(with content: String? = nil) throws {
        guard let content else { return try store.replace() }
        let download = StoreReplacement.temporaryURL(for: try LocalStore(store.url))
        defer { try? FileManager.default.removeItem(at: download) }
        try Data(content.utf8).write(to: download)
        try StoreReplacement.replace(LocalStore(store.url), with: download, expecting: .anything)
    }

    private func refusal(_ file: String, _ body: () throws -> Void) throws {
        let error = #expect(throws: StoreSyncError.self) { try body() }
        #expect(error?.code == .unsupportedFormat)
        #expect(error?.message.contains(store.file(file).path) == true)
        #expect(error?.message.localizedCaseInsensitiveContains("move") == true, "it says what helps: \(error as Any)")
    }

    @Test(
        "A file with a log's name that isn't SQLite's stays when a file is copied and replaced by a file",
        arguments: LocalStore.sideSuffixes
    )
    func unrelated(suffix: String) throws {
        let file = store.file("store" + suffix)
        try diary.write(to: file)
        try replace(with: "one")
        try take()
        let held = try #require(HeldFile(LocalStore(store.url), copyingTo: store.file("other copy")))
        held.release()
        try replace(with: "two")
        #expect(try Data(contentsOf: store.url) == Data("two".utf8))
        #expect(try Data(contentsOf: file) == diary)
    }

    @Test(
        "A database isn't opened beside a file with a log's name that SQLite would remove",
        arguments: ["-journal", "-wal"]
    )
    func besideDatabase(suffix: String) throws {
        try store.make("old")
        let before = try Data(contentsOf: store.url)
        let name = "store" + suffix
        try diary.write(to: store.file(name))
        try refusal(name) { try take() }
        try refusal(name) { try replace() }
        try refusal(name) { try replace(with: "text") }
        #expect(HeldDatabase(try LocalStore(store.url), copyingTo: store.file("copy")) == nil)
        #expect(try Data(contentsOf: store.url) == before)
        #expect(try Data(contentsOf: store.file(name)) == diary)
        #expect(try store.names() == ["store", name])
    }

    @Test(
        "A database isn't put beside a file with a log's name that isn't SQLite's",
        arguments: LocalStore.sideSuffixes,
        [nil, "a file"]
    )
    func besideDownload(suffix: String, former: String?) throws {
        let name = "store" + suffix
        if let former { try Data(former.utf8).write(to: store.url) }
        try diary.write(to: store.file(name))
        let before = try store.names()
        try refusal(name) { try replace() }
        #expect(try store.names() == before)
        #expect(try Data(contentsOf: store.file(name)) == diary)
    }

    @Test("A database isn't opened beside a directory with a log's name")
    func directory() throws {
        try store.make("old")
        try FileManager.default.createDirectory(at: store.file("store-wal"), withIntermediateDirectories: false)
        try refusal("store-wal") { try take() }
    }

    /// The files that SQLite may leave next to a database.
    private static let starts = [
        ("-journal", Data()), ("-journal", Data(count: 512)), ("-journal", SQLiteStart.journal), ("-wal", Data()),
        ("-wal", SQLiteStart.log),
    ]

    @Test(
        "A log that is empty, or begins as SQLite's do, may hold a part of a store that SQLite can't read",
        arguments: starts
    )
    func counts(suffix: String, start: Data) throws {
        let name = "store" + suffix
        try Data("an encrypted database".utf8).write(to: store.url)
        try start.write(to: store.file(name))
        try refusal(name) { try take() }
        try refusal(name) { try replace(with: "another encrypted database") }
        #expect(try store.names() == ["store", name], "nothing is removed if neither is SQLite's")
        #expect(try Data(contentsOf: store.url) == Data("an encrypted database".utf8))
        try replace()
        #expect(try store.content() == "new")
        #expect(try store.names() == ["store"])
    }

    @Test("An index counts next to a log only")
    func index() throws {
        try Data("an encrypted database".utf8).write(to: store.url)
        try Data(count: 32_768).write(to: store.file("store-shm"))
        try take()
        try SQLiteStart.log.write(to: store.file("store-wal"))
        #expect(try LocalStore(store.url).sideFiles == [store.file("store-wal"), store.file("store-shm")].map(\.path))
    }
}
