import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreChanges
import StoreSync
import StoreSyncGRDB
import SyncCryptography

/// Answers the questions of the synchronization; an app asks the user.
@MainActor final class Questions: ApplicationSyncDelegate {
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        guard question != .joiningEncrypted(passwordWasWrong: true) else {
            throw StoreSyncError(.wrongPassword, "This isn't the password of \(application). Enter it again.")
        }
        return .encrypted(try Password("correct horse battery staple"))
    }
}

/// A note of the user.
struct Note: Codable, FetchableRecord, MutablePersistableRecord {
    var id: Int64?
    var title: String

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// A notes app on one device: a database that it observes and edits, and that synchronizes.
@MainActor final class NotesApp {
    let device: String
    let database: DatabasePool
    private let notes: DocumentSyncManager
    /// The manager holds its delegate weakly, so this class keeps it.
    private let questions = Questions()

    init(on device: String, home: URL, share: URL) async throws {
        self.device = device
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: device,
            backend: LocalFolderBackend(root: share),
            state: try StateDirectory(url: home.appending(path: "sync")),
            delegate: questions
        )
        notes = manager.document(try RemoteIdentifier("notes"))
        let url = home.appending(path: "notes.sqlite")
        if !FileManager.default.fileExists(atPath: url.path) {
            do {
                // All devices begin with the first device's database.
                _ = try await notes.synchronize(SynchronizationRequest(url: url)).value
            } catch let error as StoreSyncError where error.code == .storeNotFound {
                // This is the first device. An app asks the user, since a share may not have filled yet.
            }
        }
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
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

    func add(_ title: String) async throws {
        try await database.write { db in
            var note = Note(title: title)
            try note.insert(db)
        }
    }

    /// Publishes what this device has edited, and takes what other devices have edited.
    func synchronize() async throws {
        let result = try await notes.synchronize(database).value
        let inserted = result.applied["note"]?.inserted ?? 0
        print("\(device): \(result.publishedChanges) edits published, \(inserted) notes received")
    }

    /// Waits until the app's observation has exactly these titles.
    func observe(_ expected: Set<String>) async throws {
        let observation = ValueObservation.tracking { try Note.fetchAll($0).map(\.title) }
        for try await titles in observation.values(in: database) {
            print("\(device) shows \(titles.sorted().joined(separator: ", "))")
            if Set(titles) == expected { return }
        }
    }
}
