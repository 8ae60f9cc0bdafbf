import ContentDigests
import Foundation
import GRDB
import Testing

@testable import StoreSync

@Suite("A store whose schema this device's SQLite can't parse", .timeLimit(.minutes(60)))
struct UnknownSchemaTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try Self.make(store.url, "old")
    }

    /// Creates a store with a trigger and a table in a syntax that no SQLite has yet.
    private static func make(_ url: URL, _ value: String) throws {
        try TestStore.make(url, value)
        let program = try SQLProgram(opening: url)
        try program.sql("CREATE TABLE other (value TEXT)")
        try program.sql("INSERT INTO other VALUES ('a')")
        try program.sql("CREATE TRIGGER guard BEFORE INSERT ON item BEGIN SELECT 1; END")
        try program.sql("PRAGMA writable_schema = ON")
        try program.sql(
            "UPDATE sqlite_schema SET sql = replace(sql, 'SELECT 1', 'SELECT 1 OF LATER') WHERE type = 'trigger'"
        )
        try program.sql("UPDATE sqlite_schema SET sql = replace(sql, 'TEXT', 'TEXT => LATER') WHERE name = 'other'")
    }

    /// Opens a store as the app does, which has a newer SQLite.
    private func app(_ mode: String = "DELETE") throws -> SQLProgram {
        let app = try SQLProgram(opening: store.url)
        try app.sql("PRAGMA writable_schema = ON")
        try app.sql("PRAGMA journal_mode = \(mode)")
        return app
    }

    private func values() throws -> [String] {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA writable_schema = ON") }
        let queue = try DatabaseQueue(path: store.url.path, configuration: configuration)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: "SELECT DISTINCT value FROM item") }
    }

    private func download() throws -> URL {
        let other = try TestStore()
        try Self.make(other.url, "new")
        let download = StoreReplacement.temporaryURL(for: try LocalStore(store.url))
        return try StoreSnapshot.take(of: LocalStore(other.url), at: download).url
    }

    @Test(
        "A store with a newer SQLite's schema is copied and read in place as any other",
        arguments: ["DELETE", "WAL"]
    )
    func copies(mode: String) throws {
        let app = try app(mode)
        let local = try LocalStore(store.url)
        try StoreSnapshot.checkSource(local)
        let snapshot = try StoreSnapshot.take(of: local, at: store.file("snapshot"))
        let held = HeldDatabase(local, copyingTo: store.file("other copy"))
        #expect((held != nil) == (mode == "WAL"))
        if let held {
            #expect(held.byteCount == snapshot.byteCount)
            #expect(try held.read(at: 0, upTo: 100_000) == snapshot.read(at: 0, upTo: 100_000))
            held.release()
        }
        try app.run("store.close()")
        #expect(try store.root() == snapshot.contentRoot)
    }

    @Test(
        "A store with a newer SQLite's schema is replaced, by another such store too",
        arguments: ["DELETE", "WAL"],
        [WholeStoreDownloadRequest.Replacement.file, .transaction]
    )
    func replaced(journalMode: String, mode: WholeStoreDownloadRequest.Replacement) throws {
        try app(journalMode).run("store.close()")
        let local = try LocalStore(store.url)
        let root = try store.root()
        try StoreReplacement.replace(local, with: download(), expecting: .unchanged(acceptable: [root]), mode: mode)
        #expect(try values() == ["new"])
        let error = #expect(throws: StoreSyncError.self) {
            try store.replace(expecting: .unchanged(acceptable: [root]), mode: mode)
        }
        #expect(error?.code == .localChanges)
        try store.replace(mode: mode)
        #expect(try store.content() == "new")
        #expect(try store.journalMode() == journalMode.lowercased())
    }

    @Test(
        "A store with a newer SQLite's schema is busy while the app writes to it, and keeps the commits",
        arguments: ["DELETE", "WAL"],
        [WholeStoreDownloadRequest.Replacement.file, .transaction]
    )
    func busy(journalMode: String, mode: WholeStoreDownloadRequest.Replacement) throws {
        let app = try app(journalMode)
        try app.sql("BEGIN IMMEDIATE")
        try app.sql("UPDATE item SET value = 'mine'")
        let error = #expect(throws: StoreSyncError.self) { try store.replace(mode: mode) }
        #expect(error?.code == .busy)
        try app.sql("COMMIT")
        try app.sql("UPDATE item SET value = 'mine too'")
        try app.run("store.close()")
        #expect(try values() == ["mine too"])
    }

    @Test("A download with a newer SQLite's schema is whole, or damaged if it's cut off or a page is damaged")
    func checkedDownload() throws {
        let download = try download()
        let root = try StoreSnapshot.check(download: download, copyingTo: store.file("copy"))
        #expect(try root == StoreSnapshot(at: download, .plain).contentRoot)
        try FileManager.default.removeItem(at: store.file("copy"))
        let content = try Data(contentsOf: download)
        var damaged = content
        // The root of the items' tree: no page is of kind 7.
        damaged.replaceSubrange(4096..<8192, with: Data(repeating: 7, count: 4096))
        for content in [damaged, content.prefix(content.count / 2)] {
            try content.write(to: download)
            let error = #expect(throws: StoreSyncError.self) {
                try StoreSnapshot.check(download: download, copyingTo: store.file("copy"))
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test("A store with a newer SQLite's schema isn't merged, and the error says that a newer SQLite is needed")
    func records() throws {
        let error = #expect(throws: StoreSyncError.self) { try StoreSnapshot.checkDatabase(LocalStore(store.url)) }
        #expect(error?.code == .unsupportedFormat)
        #expect(error?.message.contains("newer SQLite") == true && error?.message.contains("syntax error") == true)
    }
}
