import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreSync
import Testing
import ThreadSupport

// The code between the marks is also in the documentation.

// DOC: five steps
extension NotesSync {
    /// Registers this device, takes the newest notes, tidies and checks them, publishes the result, and announces it.
    func publishTidied(announce: @escaping @Sendable (String) async throws -> Void) -> OperationHandle<Void> {
        let registered = notes.register(mayCreate: false)
        let download = notes.download(WholeStoreDownloadRequest(url: store), after: [registered])
        let tidied = download.then { [store] _, _ in
            let database = try DatabaseQueue(path: store.path)
            defer { try? database.close() }
            try await database.write { db in
                try db.execute(sql: "DELETE FROM note WHERE title = ''")
                let problem = try String.fetchOne(db, sql: "PRAGMA integrity_check")
                guard problem == "ok" else { throw StoreSyncError(.corrupt, problem ?? "") }
            }
        }
        let upload = notes.upload(storeAt: store, after: [tidied])
        return upload.then { upload, _ in try await announce("Generation \(upload.generation) is published.") }
    }
}
// DOC: end

@Suite("Five steps in thirty lines", .timeLimit(.minutes(60)))
struct FiveStepsTests {
    /// A laptop that has published two notes, one of them without a title, and a desktop.
    @MainActor private static func devices(_ fixture: Fixture) async throws -> (laptop: NotesSync, desktop: NotesSync) {
        var devices: [NotesSync] = []
        for name in ["laptop", "desktop"] {
            let home = fixture.folder.appending(path: name, directoryHint: .isDirectory)
            try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
            let device = try await NotesSync(device: name, home: home, share: fixture.share, password: "correct horse")
            devices.append(device)
        }
        let queue = try DatabaseQueue(path: devices[0].store.path)
        try await queue.write {
            try $0.execute(sql: "CREATE TABLE note (title TEXT); INSERT INTO note VALUES ('milk'), ('')")
        }
        try queue.close()
        return (devices[0], devices[1])
    }

    private static func titles(_ store: URL) throws -> [String] {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        return try queue.read { try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY title") }
    }

    @Test("The example of the article downloads, changes, uploads and announces, each after the other")
    @MainActor func order() async throws {
        let fixture = try Fixture()
        let (laptop, desktop) = try await Self.devices(fixture)
        _ = try await laptop.notes.upload(storeAt: laptop.store).value
        let announced = Locked<[String]>([])
        try await desktop.publishTidied { text in announced.withLock { $0.append(text) } }.value
        #expect(announced.withLock { $0 } == ["Generation 2 is published."])
        #expect(try Self.titles(desktop.store) == ["milk"])
        _ = try await laptop.notes.download(WholeStoreDownloadRequest(url: laptop.store)).value
        #expect(try Self.titles(laptop.store) == ["milk"])
    }

    @Test("A step that fails ends all steps after it with its error, and nothing is published")
    @MainActor func failure() async throws {
        let fixture = try Fixture()
        let (laptop, desktop) = try await Self.devices(fixture)
        let announced = Locked<[String]>([])
        let missing = await code {
            try await desktop.publishTidied { text in announced.withLock { $0.append(text) } }.value
        }
        #expect(missing == .applicationMissing)
        // An upload without the notes' table can't be tidied.
        let queue = try DatabaseQueue(path: laptop.store.path)
        try await queue.write { try $0.execute(sql: "ALTER TABLE note RENAME TO other") }
        try queue.close()
        let upload = try await laptop.notes.upload(storeAt: laptop.store).value
        await #expect(throws: DatabaseError.self) {
            try await desktop.publishTidied { text in announced.withLock { $0.append(text) } }.value
        }
        #expect(announced.withLock { $0.isEmpty })
        #expect(
            try await laptop.notes.download(WholeStoreDownloadRequest(url: laptop.store)).value.generation
                == upload.generation
        )
    }
}
