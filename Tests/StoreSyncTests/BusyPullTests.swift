import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A pull into a store that a program is using", .timeLimit(.minutes(60)))
struct BusyPullTests {
    /// Gives a store's notes content of some megabytes.
    private func fill(_ store: URL) throws {
        let queue = try DatabaseQueue(path: store.path)
        try queue.write { db in
            try db.execute(sql: "DELETE FROM note")
            for _ in 0..<40 { try db.execute(sql: "INSERT INTO note VALUES (hex(randomblob(100000)))") }
        }
        try queue.close()
    }

    @Test(
        "A pull into a busy store is refused and keeps its download, which the next pull completes",
        arguments: [nil, "correct horse"]
    )
    func keepsDownload(password: String?) async throws {
        let fixture = try Fixture(password: password)
        let line = CuttingBackend(LocalFolderBackend(root: fixture.share))
        let (a, b) = (try fixture.device("a"), try fixture.device("b", backend: line))
        try a.write("one")
        try fill(a.store)
        _ = try await a.push().value
        _ = try await b.pull().value
        try fill(a.store)
        _ = try await a.push().value
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let app = try DatabaseQueue(path: b.store.path, configuration: configuration)
        try app.inDatabase { db in
            try db.beginTransaction(.deferred)
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM note")
        }
        await line.cut(after: nil)
        #expect(await code { try await b.pull().value } == .busy)
        let downloaded = await line.passedBytes
        #expect(downloaded > 2 << 20)
        try app.inDatabase { try $0.rollback() }
        try app.close()
        await line.cut(after: nil)
        _ = try await b.pull().value
        let downloadedAgain = await line.passedBytes
        #expect(downloadedAgain < downloaded / 2, "\(downloadedAgain) of \(downloaded)")
        #expect(try b.notes() == a.notes())
        let directory = b.store.deletingLastPathComponent().path
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["state", "store.sqlite"])
    }
}
