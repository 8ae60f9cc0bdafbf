import FileSupport
import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreSync
import StoreSyncGRDB
import ThreadSupport

/// An app's connection, of either kind.
enum ConnectionKind: CaseIterable {
    case queue
    case queueWithLog
    case pool

    func open(_ url: URL, _ configuration: Configuration = Configuration()) throws -> any DatabaseWriter {
        guard self != .pool else { return try DatabasePool(path: url.path, configuration: configuration) }
        let queue = try DatabaseQueue(path: url.path, configuration: configuration)
        let mode = self == .queue ? "delete" : "wal"
        try queue.inDatabase { _ = try String.fetchOne($0, sql: "PRAGMA journal_mode = \(mode)") }
        return queue
    }
}

/// A folder for one test, with a share and devices in it.
@MainActor final class Fixture: ApplicationSyncDelegate {
    let folder = FileManager.default.temporaryDirectory.appending(path: "storesync-grdb-\(UUID().uuidString)")

    let share: URL

    init() throws {
        share = folder.appending(path: "share")
        try FileManager.default.createDirectory(at: share, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision { .unencrypted }

    /// The device of a name; `observe` is called at each step in which its files change.
    func device(_ name: String, observe: (@Sendable (String) throws -> Void)? = nil) throws -> Device {
        let home = folder.appending(path: name)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: name,
            backend: LocalFolderBackend(root: share),
            state: try StateDirectory(
                url: home.appending(path: "state"),
                steps: observe.map { StepObserver($0) } ?? .none
            ),
            delegate: self
        )
        return Device(
            store: home.appending(path: "notes.sqlite"),
            notes: manager.document(try RemoteIdentifier("notes"))
        )
    }

    /// Two devices that have synchronized a note, "milk": the laptop by path, the phone with the app's connection.
    func pair(
        _ kind: ConnectionKind,
        _ configuration: Configuration = Configuration(),
        observe: (@Sendable (String) throws -> Void)? = nil
    ) async throws -> Pair {
        let (laptop, phone) = (try device("laptop"), try device("phone", observe: observe))
        try laptop.execute(
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT);
            INSERT INTO note VALUES (1, 'milk', '');
            """
        )
        try await laptop.synchronize()
        try await phone.synchronize()
        return Pair(laptop: laptop, phone: phone, app: try kind.open(phone.store, configuration))
    }
}

/// A device with a store, and without an app that has it open.
struct Device: Sendable {
    let store: URL
    let notes: DocumentSyncManager

    @discardableResult
    func synchronize() async throws -> Synchronization {
        try await notes.synchronize(SynchronizationRequest(url: store)).value
    }

    func execute(_ sql: String) throws {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        try queue.write { try $0.execute(sql: sql) }
    }

    /// The titles and bodies of all notes.
    func rows() throws -> Set<String> {
        let queue = try DatabaseQueue(path: store.path)
        defer { try? queue.close() }
        return try queue.read { try Set(String.fetchAll($0, sql: "SELECT title || ':' || body FROM note")) }
    }
}

struct Pair: Sendable {
    let laptop: Device
    let phone: Device
    /// The connection of the phone's app.
    let app: any DatabaseWriter

    func rows() async throws -> Set<String> {
        try await app.read { try Set(String.fetchAll($0, sql: "SELECT title || ':' || body FROM note")) }
    }

    /// Both devices exchange what they have edited.
    func converge() async throws {
        for _ in 0..<2 {
            _ = try await phone.notes.synchronize(app).value
            try await laptop.synchronize()
        }
    }
}
