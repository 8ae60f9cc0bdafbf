import Foundation
import GRDB
import Testing

@testable import StoreSync

@Suite("Writing into a store that programs keep open", .timeLimit(.minutes(60)))
struct OpenStoreTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try store.make("old")
    }

    private func write(
        _ expectation: StoreReplacement.Expectation = .anything,
        pageSize: Int = 4096,
        faultPoint: @escaping @Sendable (String) throws -> Void = { _ in }
    ) throws {
        try store.replace(
            expecting: expectation,
            mode: .transaction,
            pageSize: pageSize,
            faultPoint: faultPoint
        )
    }

    private func code(_ body: () throws -> Void) -> StoreSyncError.Code? {
        #expect(throws: StoreSyncError.self) { try body() }?.code
    }

    @Test(
        "Writing into an open store shows every connection the new rows, and keeps the journal mode",
        arguments: ["DELETE", "WAL"]
    )
    func openConnection(mode: String) throws {
        let root = try store.root()
        let program = try SQLProgram(opening: store.url, mode: mode)
        try program.sql("SELECT * FROM item")
        try write(.unchanged(acceptable: [root]))
        try program.run("assert set(store.execute('SELECT value FROM item')) == {('new',)}")
        try program.sql("UPDATE item SET value = 'newer'")
        try program.run("store.close()")
        #expect(try store.names() == ["store"])
        #expect(try store.journalMode() == mode.lowercased())
        #expect(try store.content() == "newer")
    }

    @Test("Writing into an open store gives it the digest of the written content", arguments: ["DELETE", "WAL"])
    func root(mode: String) throws {
        let other = try TestStore()
        try other.make("new")
        let program = try SQLProgram(opening: store.url, mode: mode)
        try program.sql("SELECT * FROM item")
        try write()
        #expect(try store.root() == other.root())
    }

    @Test(
        "Writing into an open store is refused as busy while a program writes, or reads with a rollback journal",
        arguments: ["DELETE", "WAL"]
    )
    func busy(mode: String) throws {
        let program = try SQLProgram(opening: store.url, mode: mode)
        try program.sql("BEGIN IMMEDIATE")
        try program.sql("UPDATE item SET value = 'mine'")
        #expect(code { try write() } == .busy)
        try program.sql("COMMIT")
        guard mode == "DELETE" else { return }
        try program.run("rows = store.execute('SELECT * FROM item'); rows.fetchone()")
        #expect(code { try write() } == .busy)
        try program.run("rows.fetchall()")
        #expect(try store.content() == "mine")
    }

    @Test(
        "Writing into an open store never overwrites a commit between the comparison and the writing",
        arguments: ["DELETE", "WAL"]
    )
    func changedInBetween(mode: String) throws {
        let root = try store.root()
        let program = try SQLProgram(opening: store.url, mode: mode)
        try program.sql("SELECT * FROM item")
        let result = Result {
            try write(.unchanged(acceptable: [root])) { point in
                guard point == "before the transaction" else { return }
                try? program.sql("UPDATE item SET value = 'mine'")
            }
        }
        // With a rollback journal, the lock keeps the program out. With a log, the program's commit is detected.
        if mode == "WAL" {
            #expect(code { try result.get() } == .localChanges)
            #expect(try store.content() == "mine")
        } else {
            try result.get()
            #expect(try store.content() == "new")
        }
    }

    @Test(
        "A cancellation that ends the wait for a program is a cancellation, not the error busy",
        arguments: ["copy", "write"]
    )
    func cancelledWait(what: String) async throws {
        let program = try SQLProgram(opening: store.url)
        try program.sql("BEGIN EXCLUSIVE")
        let store = store
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            let (store, copy) = (try LocalStore(store.url), store.file("copy"))
            if what == "copy" {
                _ = try StoreSnapshot.take(of: store, at: copy)
            } else {
                try StoreReplacement.replace(store, with: copy, expecting: .anything)
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        try program.sql("COMMIT")
        #expect(try store.content() == "old")
    }

    @Test("Writing into an open store waits for a program until the timeout, or until the task is cancelled")
    func busyMode() async throws {
        let database = try #require(try LocalStore(store.url).openDatabase(timeout: 10))
        guard case .callback(let waits) = database.configuration.busyMode else {
            Issue.record("SQLite's own wait doesn't notice a cancellation")
            return
        }
        #expect(waits(0))
        #expect(!waits(500), "500 waits of 20 milliseconds each")
        let cancelled = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return waits(0)
        }
        #expect(await !cancelled.value)
    }

    @Test("Writing into an open store needs equal page sizes in WAL mode only")
    func pageSizes() throws {
        try write(pageSize: 1024)
        #expect(try store.content() == "new")
        try Store.setJournalMode("wal", of: store.url)
        let error = #expect(throws: StoreSyncError.self) { try write(pageSize: 8192) }
        #expect(error?.code == .unsupportedFormat, "a retry would fail in the same way")
        #expect(error?.message.contains("pull it as a file") == true)
        #expect(try store.content() == "new")
    }

    @Test("Writing into an open store is for SQLite stores only, and creates a missing store like a rename")
    func otherKinds() throws {
        try FileManager.default.removeItem(at: store.url)
        try write(.absent)
        #expect(try store.content() == "new")
        let download = StoreReplacement.temporaryURL(for: try LocalStore(store.url))
        try Data("text".utf8).write(to: download)
        let mode = WholeStoreDownloadRequest.Replacement.transaction
        #expect(
            code {
                try StoreReplacement.replace(LocalStore(store.url), with: download, expecting: .anything, mode: mode)
            } == .unsupportedFormat
        )
        try Data("text".utf8).write(to: store.url)
        #expect(code { try write() } == .unsupportedFormat)
        #expect(try Data(contentsOf: store.url) == Data("text".utf8))
    }
}
