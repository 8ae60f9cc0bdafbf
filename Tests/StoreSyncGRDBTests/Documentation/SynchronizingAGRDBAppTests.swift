import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import StoreSync
import StoreSyncGRDB
import SyncCryptography
import Testing

// The code between the marks is also in the documentation.

// DOC: questions
/// What only the user can decide: an app shows a password field and a question, and waits for the answers.
@MainActor final class Questions: ApplicationSyncDelegate {
    private let password: String
    private let othersHaveNotes: Bool

    init(password: String, othersHaveNotes: Bool) {
        self.password = password
        self.othersHaveNotes = othersHaveNotes
    }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        switch question {
        case .newApplication, .joiningEncrypted(passwordWasWrong: false):
            return .encrypted(try Password(password))
        case .joiningEncrypted(passwordWasWrong: true):
            throw StoreSyncError(.wrongPassword, "This isn't the password of \(application). Enter it again.")
        case .joiningUnencrypted:
            throw CancellationError()
        }
    }

    /// Whether another device of the user has notes already.
    func doesAnotherDeviceHaveNotes() async throws -> Bool { othersHaveNotes }
}
// DOC: end

// DOC: app
@MainActor final class NotesApp {
    let notes: DocumentSyncManager
    let database: DatabasePool
    private let questions: Questions

    init(device: String, home: URL, share: URL, questions: Questions) async throws {
        // The manager holds its delegate weakly, so this class keeps it.
        self.questions = questions
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: device,
            backend: LocalFolderBackend(root: share),
            state: try await .open(at: home.appending(path: "sync"), root: home),
            delegate: questions
        )
        notes = manager.document(try RemoteIdentifier("notes"))
        let url = home.appending(path: "notes.sqlite")
        if !FileManager.default.fileExists(atPath: url.path) {
            do {
                _ = try await notes.synchronize(SynchronizationRequest(url: url)).value
            } catch let error as StoreSyncError where error.code == .storeNotFound {
                // There is nothing to download, or it hasn't arrived yet.
                guard try await !questions.doesAnotherDeviceHaveNotes() else { throw error }
            }
        }
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.observesSuspensionNotifications = true
        database = try DatabasePool(path: url.path, configuration: configuration)
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
    /// What merging overwrote, and the user can put back.
    func conflicts() async throws -> [ConflictLog.Entry] {
        try await notes.conflicts(in: database).entries().filter(\.canBeRestored)
    }

    /// Puts back what the user has chosen.
    func restore(_ entry: ConflictLog.Entry) async throws {
        try await notes.conflicts(in: database).restore(entry.number)
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
        let phone = try await app("phone", in: fixture, othersHaveNotes: true)
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

        let conflicts = try await phone.conflicts()
        #expect(conflicts.map(\.conflict.lost) == [["title": .value(.text("oat milk"))]])
        for entry in conflicts { try await phone.restore(entry) }
        #expect(try await phone.conflicts().isEmpty)
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

    @Test("The article's connection waits for the connections that read its database")
    @MainActor func busyMode() async throws {
        let fixture = try Fixture()
        let laptop = try await app("laptop", in: fixture)
        guard case .timeout = laptop.database.configuration.busyMode else {
            Issue.record("A write during a first synchronization may fail.")
            return
        }
    }

    @Test("A device that finds nothing creates nothing if its user says that another device has notes")
    @MainActor func nothingArrivedYet() async throws {
        let fixture = try Fixture()
        let error = await #expect(throws: StoreSyncError.self) {
            _ = try await app("phone", in: fixture, othersHaveNotes: true)
        }
        #expect(error?.code == .storeNotFound)
        let store = fixture.folder.appending(path: "phone/notes.sqlite")
        #expect(!FileManager.default.fileExists(atPath: store.path))
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.share.path).isEmpty)
    }

    @MainActor private func app(
        _ device: String,
        in fixture: Fixture,
        othersHaveNotes: Bool = false
    ) async throws -> NotesApp {
        let home = fixture.folder.appending(path: device)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let questions = Questions(password: "correct horse battery staple", othersHaveNotes: othersHaveNotes)
        return try await NotesApp(device: device, home: home, share: fixture.share, questions: questions)
    }
}
