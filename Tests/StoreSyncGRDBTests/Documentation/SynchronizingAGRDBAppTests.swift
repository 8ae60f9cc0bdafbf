import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import StoreSync
import StoreSyncGRDB
import Testing

// The code between the marks is also in the documentation.

@MainActor final class Questions: ApplicationSyncDelegate {
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision { .unencrypted }
}

// DOC: app
@MainActor final class NotesApp {
    let notes: DocumentSyncManager
    let database: DatabasePool
    private let questions: Questions

    init(device: String, home: URL, share: URL) async throws {
        // The manager holds its delegate weakly, so this class keeps it.
        questions = Questions()
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: device,
            backend: LocalFolderBackend(root: share),
            state: try await .open(at: home.appending(path: "sync")),
            delegate: questions
        )
        notes = manager.document(try RemoteIdentifier("notes"))
        let url = home.appending(path: "notes.sqlite")
        if !FileManager.default.fileExists(atPath: url.path) {
            do {
                _ = try await notes.synchronize(SynchronizationRequest(url: url)).value
            } catch let error as StoreSyncError where error.code == .storeNotFound {
                // This is the first device.
            }
        }
        database = try DatabasePool(path: url.path)
        try Self.migrator.migrate(database)
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("notes") { db in
            try db.create(table: "note") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("title", .text).notNull()
            }
        }
        return migrator
    }
}
// DOC: end

// DOC: observe
extension NotesApp {
    /// The titles of all notes, now and after each change.
    var titles: AsyncValueObservation<[String]> {
        ValueObservation.tracking { try String.fetchAll($0, sql: "SELECT title FROM note ORDER BY id") }
            .values(in: database)
    }

    func add(_ title: String) async throws {
        try await database.write { try $0.execute(sql: "INSERT INTO note (title) VALUES (?)", arguments: [title]) }
    }
}
// DOC: end

// DOC: synchronize
extension NotesApp {
    /// Publishes what this device has edited, and takes what other devices have edited.
    func synchronize() async throws {
        let result = try await notes.synchronize(database).value
        for (table, rows) in result.applied { print("\(table): \(rows.inserted) new, \(rows.updated) changed") }
    }
}
// DOC: end

// DOC: watch
extension NotesApp {
    /// Synchronizes at once, and then whenever this device or another one has edited something.
    func watch() async throws {
        for try await event in notes.watch(database) {
            if case .failed(let error, let delay) = event { print("\(error.message) The next attempt is in \(delay).") }
        }
    }
}
// DOC: end

// DOC: restore
extension NotesApp {
    /// Puts back everything that merging overwrote.
    func restoreConflicts() async throws {
        let log = notes.conflicts(in: database)
        for entry in try await log.entries() { try await log.restore(entry.number) }
    }
}
// DOC: end

@Suite("Synchronizing a GRDB app", .timeLimit(.minutes(60)))
struct SynchronizingAGRDBAppTests {
    @Test("Two devices with the article's app see each other's notes, and restore what merging overwrote")
    @MainActor func twoDevices() async throws {
        let fixture = try Fixture()
        let laptop = try await app("laptop", in: fixture)
        try await laptop.add("milk")
        try await laptop.synchronize()
        let phone = try await app("phone", in: fixture)
        var titles = phone.titles.makeAsyncIterator()
        #expect(try await titles.next() == ["milk"])

        try await laptop.database.write { try $0.execute(sql: "UPDATE note SET title = 'oat milk'") }
        try await laptop.add("bread")
        try await phone.database.write { try $0.execute(sql: "UPDATE note SET title = 'soy milk'") }
        try await phone.add("tea")
        try await laptop.synchronize()
        try await phone.synchronize()
        try await laptop.synchronize()
        while let seen = try await titles.next(), Set(seen) != ["soy milk", "bread", "tea"] {}

        try await phone.restoreConflicts()
        try await phone.synchronize()
        try await laptop.synchronize()
        var seen = laptop.titles.makeAsyncIterator()
        #expect(try await seen.next().map { Set($0) } == ["oat milk", "bread", "tea"])
        try await laptop.add("salt")
        try await laptop.synchronize()
        try await phone.synchronize()
        while let seen = try await titles.next(), Set(seen) != ["oat milk", "bread", "tea", "salt"] {}
    }

    @Test("The article's watch tells the app's observations what another device has edited, and ends with its task")
    @MainActor func watching() async throws {
        let fixture = try Fixture()
        let laptop = try await app("laptop", in: fixture)
        try await laptop.add("milk")
        try await laptop.synchronize()
        let phone = try await app("phone", in: fixture)
        try await laptop.add("bread")
        try await laptop.synchronize()

        let watch = Task { try await phone.watch() }
        for try await titles in phone.titles where Set(titles) == ["milk", "bread"] { break }
        watch.cancel()
        _ = await watch.result
        #expect(try await phone.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM note") } == 2)
    }

    @MainActor private func app(_ device: String, in fixture: Fixture) async throws -> NotesApp {
        let home = fixture.folder.appending(path: device)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        return try await NotesApp(device: device, home: home, share: fixture.share)
    }
}
