import Foundation
import GRDB
import Testing

/// A store that another process writes to all the time: in each of its states two tables have as many rows, with a sum of 0.
struct BusyStore {
    private let writer: PythonProcess

    /// Creates the store; its log is moved into its file whenever it has so many pages.
    init(at url: URL, checkpointPages: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        writer = try PythonProcess(
            """
            import os, sqlite3, sys
            parent = os.getppid()
            db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA wal_autocheckpoint = \(checkpointPages)")
            db.execute("CREATE TABLE a (x INTEGER)")
            db.execute("CREATE TABLE b (x INTEGER, pad TEXT)")
            print("ready")
            x = 0
            # The deletions keep the disk from filling up, and the writer ends when its parent process does.
            while os.getppid() == parent:
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO a VALUES (?)", (x,))
                db.execute("INSERT INTO b VALUES (?, hex(randomblob(300)))", (-x,))
                for table in "ab":
                    db.execute(f"DELETE FROM {table} WHERE rowid <= ?", (x - 5000,))
                db.execute("COMMIT")
                x += 1
            """,
            [url.path]
        )
        try #require(try await writer.line() == "ready", sourceLocation: sourceLocation)
    }

    /// Expects that each copy that `copy` returns has one state of the store, and none an older one than the copy before.
    ///
    /// `copy` returns `nil` if it has to be tried again.
    func expectConsistentCopies(
        sourceLocation: SourceLocation = #_sourceLocation,
        _ copy: () throws -> URL?
    ) async throws {
        let newest = try newestRows(of: copy, sourceLocation)
        try await writer.kill9()
        #expect(newest == newest.sorted(), sourceLocation: sourceLocation)
    }

    /// Makes at least twenty copies, until the writer has written between them, and returns the newest row of each.
    ///
    /// Without suspension: otherwise the writer would write for as long as other tests run in between.
    private func newestRows(of copy: () throws -> URL?, _ sourceLocation: SourceLocation) throws -> [Int] {
        var newest: [Int] = []
        while newest.count < 20 || newest.last == newest.first {
            guard let url = try copy() else { continue }
            let queue = try DatabaseQueue(path: url.path)
            let (verdict, sum, difference, last) = try queue.read { db in
                (
                    try String.fetchOne(db, sql: "PRAGMA integrity_check"),
                    try Int.fetchOne(db, sql: "SELECT coalesce((SELECT sum(x) FROM a) + (SELECT sum(x) FROM b), 0)"),
                    try Int.fetchOne(db, sql: "SELECT (SELECT count(*) FROM a) - (SELECT count(*) FROM b)"),
                    try Int.fetchOne(db, sql: "SELECT max(x) FROM a") ?? -1
                )
            }
            try queue.close()
            #expect(
                verdict == "ok" && sum == 0 && difference == 0,
                "copy \(newest.count), whose newest row is \(last)",
                sourceLocation: sourceLocation
            )
            newest.append(last)
        }
        return newest
    }
}
