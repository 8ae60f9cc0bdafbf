import ContentDigests
import FileSupport
import Foundation
import GRDB

@testable import StoreSync

/// A folder with a store whose 3,000 rows all have the same value, so that a mixture of two stores is detected.
final class TestStore: Sendable {
    static let rowCount = 3000

    /// The state of a store before it is copied or replaced.
    enum State: String, CaseIterable, Sendable {
        case closedInRollbackMode, closedInWALMode
        /// Killed with commits in the log that the database file doesn't have.
        case killedInWALMode
        /// Killed in a transaction that had written to the database file already.
        case killedInTransaction

        var journalMode: String { self == .closedInWALMode || self == .killedInWALMode ? "wal" : "delete" }
    }

    let folder: URL
    let url: URL

    init(_ name: String = "store") throws {
        // Symbolic links are resolved, as in the store's own path.
        folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
            .appending(path: "store-\(UUID().uuidString)", directoryHint: .isDirectory)
        url = folder.appending(path: name)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func file(_ name: String) -> URL { folder.appending(path: name) }

    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }

    /// Creates the store, with `value` in all rows.
    func make(_ value: String, in state: State = .closedInRollbackMode) throws {
        try Self.make(url, state == .killedInWALMode ? "before" : value)
        switch state {
        case .closedInRollbackMode: break
        case .closedInWALMode: try Store.setJournalMode("wal", of: url)
        case .killedInWALMode:
            let program = try SQLProgram(opening: url, mode: "WAL")
            try program.sql("UPDATE item SET value = '\(value)'")
            program.kill()
        case .killedInTransaction:
            let program = try SQLProgram(opening: url)
            // With such a small cache, the changed pages are written to the file long before the commit.
            try program.sql("PRAGMA cache_size = 2")
            try program.sql("BEGIN")
            try program.sql("UPDATE item SET value = 'never committed'")
            program.kill()
        }
    }

    static func make(_ url: URL, _ value: String, pageSize: Int = 4096) throws {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        try queue.inDatabase { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = \(pageSize);
                    CREATE TABLE item (id INTEGER PRIMARY KEY, value TEXT NOT NULL, filler TEXT NOT NULL);
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rowCount))
                    INSERT INTO item SELECT i, '\(value)', hex(zeroblob(50)) FROM n;
                    """
            )
        }
    }

    /// Creates a downloaded store next to the store, as a snapshot of another device's store.
    func download(_ value: String = "new", pageSize: Int = 4096) throws -> URL {
        let other = try TestStore()
        try Self.make(other.url, value, pageSize: pageSize)
        let download = StoreReplacement.temporaryURL(for: try LocalStore(url))
        return try StoreSnapshot.take(of: LocalStore(other.url), at: download).url
    }

    func replace(
        expecting expectation: StoreReplacement.Expectation = .anything,
        mode: WholeStoreDownloadRequest.Replacement = .file,
        pageSize: Int = 4096,
        faultPoint: @escaping @Sendable (String) throws -> Void = { _ in }
    ) throws {
        let download = try download(pageSize: pageSize)
        defer { try? FileManager.default.removeItem(at: download) }
        try StoreReplacement.replace(
            LocalStore(url, steps: StepObserver(faultPoint)),
            with: download,
            expecting: expectation,
            mode: mode
        )
    }

    /// Returns a copy of the folder, as a crash would leave it now.
    ///
    /// Another process copies it: closing a descriptor in this process would drop the locks of its connections.
    func image() throws -> TestStore {
        let image = try TestStore(url.lastPathComponent)
        let copy = Process()
        copy.executableURL = URL(fileURLWithPath: "/bin/cp")
        copy.arguments = ["-a", folder.path + "/.", image.folder.path]
        try copy.run()
        copy.waitUntilExit()
        guard copy.terminationStatus == 0 else { throw CocoaError(.fileWriteUnknown) }
        return image
    }

    /// The store's digest, computed from a copy: opening the store itself would recover its journals.
    func root() throws -> ContentRoot {
        let image = try image()
        return try StoreSnapshot.take(of: LocalStore(image.url), at: image.file("copy")).contentRoot
    }

    func journalMode() throws -> String? {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        return try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode") }
    }

    /// The value of all rows of a store; a description of the damage if they differ.
    func content(of url: URL? = nil) throws -> String {
        let queue = try DatabaseQueue(path: (url ?? self.url).path)
        defer { try? queue.close() }
        return try queue.read { db in
            let values = try String.fetchAll(db, sql: "SELECT DISTINCT value FROM item")
            let verdict = try String.fetchOne(db, sql: "PRAGMA integrity_check") ?? ""
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM item")
            return values.count == 1 && verdict == "ok" && count == Self.rowCount
                ? values[0] : "\(count ?? 0) rows of \(values): \(verdict)"
        }
    }
}
