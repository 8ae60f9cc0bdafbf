import ByteCoding
import FileSupport
import Foundation
import GRDB
import Keychain
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

typealias Operation = Operations.Operation

/// A folder for one test, with a share and devices in it.
///
/// It's removed with the last reference.
final class Fixture: Sendable {
    let folder: URL
    let application: RemoteIdentifier
    let document: RemoteIdentifier
    /// The storage that its devices share instead of the shared folder.
    private let place: InMemoryBackend?
    /// The simulation in which its devices run.
    private let simulation: Simulation?
    /// Creates the identifiers of its devices' clients, in the order in which they register.
    private let newIdentifier: @Sendable () -> UUID
    /// The right time, which the devices' clocks may miss.
    private let now: @Sendable () -> Date
    /// The password that its devices answer with, or `nil` if they want no encryption.
    let password: Password?

    /// Creates the folder.
    ///
    /// A volatile folder is in memory if the system supports that: syncing to the disk is hundreds of times faster
    /// there. If there is a seed, the identifiers of clients, which decide between edits at the same time, follow from it,
    /// and the time is the simulation's.
    init(
        application: String = "org.example.notes",
        document: String = "notes",
        password: String? = nil,
        isVolatile: Bool = true,
        place: InMemoryBackend? = nil,
        simulation: Simulation? = nil,
        seed: UInt64? = nil
    ) throws {
        (self.place, self.simulation) = (place, simulation)
        let generator = seed.map { Locked(SplitMix64(seed: $0)) }
        newIdentifier = {
            generator?.withLock { generator in
                UUID(bytes: (0..<16).map { _ in .random(in: .min ... .max, using: &generator) })
            } ?? UUID()
        }
        let clock = seed == nil ? nil : simulation?.clock
        let start = clock?.now
        now = {
            guard let clock, let start else { return .now }
            // Before the times of all files, since an edit counts as no later than its file.
            return Date(timeIntervalSince1970: 1_577_836_800 + start.duration(to: clock.now) / .seconds(1))
        }
        self.password = try password.map { try Password.cheap($0) }
        self.application = try RemoteIdentifier(application)
        self.document = try RemoteIdentifier(document)
        folder = ((isVolatile ? Self.memory : nil) ?? FileManager.default.temporaryDirectory)
            .appending(path: "storesync-test-\(UUID().uuidString)", directoryHint: .isDirectory)
        for directory in [share, temporary] {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        }
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    /// A folder in memory, if the system has one with enough space for the tests.
    private static let memory: URL? = {
        let place = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
        let free = try? FileManager.default.attributesOfFileSystem(forPath: place.path)[.systemFreeSize] as? Int64
        let isLarge = (free ?? 0) > 2 << 30
        return isLarge && FileManager.default.isWritableFile(atPath: place.path) ? place : nil
    }()

    /// The folder of the operations' temporary directories.
    var temporary: URL { folder.appending(path: "temporary", directoryHint: .isDirectory) }

    /// The shared folder.
    var share: URL { folder.appending(path: "share", directoryHint: .isDirectory) }

    /// The storage that its devices share, without hooks or faults.
    var remote: any RemoteBackend { place ?? LocalFolderBackend(root: share) }

    /// Returns the device of a name, with a state directory and a store path of its own.
    ///
    /// The same name is the same device. `hook` is called around every request to the shared folder, every change of
    /// the device's memory, and every step in which its store is replaced. `clockError` is added to the right time.
    func device(
        _ name: String,
        clockError: TimeInterval = 0,
        backend: (any RemoteBackend)? = nil,
        simulation: Simulation? = nil,
        capabilities: RemoteCapabilities? = nil,
        hook: (@Sendable (String) throws -> Void)? = nil
    ) throws -> Device {
        let simulation = simulation ?? self.simulation
        let home = folder.appending(path: name, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let folder = LocalFolderBackend(root: share, executor: simulation?.executor)
        var configuration = simulation.map { OperationSupervisor.Configuration(simulation: $0) } ?? .init()
        configuration.temporaryDirectory = temporary
        let shared: any RemoteBackend = hook.map { ObservedBackend(folder, capabilities, $0) } ?? folder
        return Device(
            name: name,
            store: home.appending(path: "store.sqlite"),
            state: try StateDirectory(
                url: home.appending(path: "state"),
                steps: hook.map(StepObserver.init) ?? .none,
                newIdentifier: newIdentifier,
                now: { [now] in now() + clockError }
            ),
            backend: backend ?? place ?? shared,
            supervisor: OperationSupervisor(configuration),
            application: application,
            document: document,
            password: password
        )
    }
}

extension Fixture {
    /// Copies all that a device has, as it is now: the device of the other name is its copy, or its backup.
    func copy(_ device: Device, to name: String) throws {
        try FileManager.default.copyItem(at: folder.appending(path: device.name), to: folder.appending(path: name))
    }
}

/// A device, and the pipelines that push and pull its store: the operations themselves, without managers.
struct Device: Sendable {
    let name: String
    let store: URL
    let state: StateDirectory
    let backend: any RemoteBackend
    let supervisor: OperationSupervisor
    let application: RemoteIdentifier
    let document: RemoteIdentifier
    var password: Password?

    /// What this device's memory calls the application, and the document.
    var key: ApplicationKey { ApplicationKey(remote: backend.identity, application: application.rawValue) }
    var documentKey: DocumentKey { DocumentKey(application: key, document: document.rawValue) }

    /// The same device with another document, storage or store.
    func with(
        document: RemoteIdentifier? = nil,
        backend: (any RemoteBackend)? = nil,
        store: URL? = nil
    ) -> Device {
        Device(
            name: name,
            store: store ?? self.store,
            state: state,
            backend: backend ?? self.backend,
            supervisor: supervisor,
            application: application,
            document: document ?? self.document,
            password: password
        )
    }

    func registration(
        mayCreate: Bool = true,
        registersAgain: Bool = false,
        answering delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) -> ApplicationRegistrationOperation {
        let request = ApplicationRegistrationRequest(
            application: application,
            clientDescription: name,
            mayCreateApplication: mayCreate,
            registersAgain: registersAgain,
            passwordParameters: .interactive
        )
        return ApplicationRegistrationOperation(request, backend: backend, state: state, delegate: delegate ?? answer)
    }

    /// Gives the password, once.
    private var answer: ApplicationRegistrationOperation.Delegate {
        { [password, application] question in
            if question == .joiningEncrypted(passwordWasWrong: true) {
                throw StoreSyncError(.wrongPassword, "The password of \(application) was wrong.")
            }
            return password.map { .encrypted($0) } ?? .unencrypted
        }
    }

    func register(mayCreate: Bool = true) -> OperationHandle<ApplicationRegistration> {
        supervisor.add(registration(mayCreate: mayCreate))
    }

    func registerDocument(mayCreate: Bool = true, recreates: Bool = false) -> OperationHandle<DocumentRegistration> {
        register(mayCreate: mayCreate).then { [self] registered in
            DocumentRegistrationOperation(
                DocumentRegistrationRequest(
                    document: document,
                    description: store.lastPathComponent,
                    mayCreateDocument: mayCreate
                ),
                application: registered,
                backend: backend,
                state: state
            ) { question in question == .createDocument || recreates }
        }
    }

    /// Registers application and document if necessary, and pushes the store.
    func push(
        _ url: URL? = nil,
        recreates: Bool = false,
        resolves: Bool = false,
        whole: Bool = false,
        compression: StoreCompression = .automatic
    ) -> OperationHandle<WholeStoreUpload> {
        let request = WholeStoreUploadRequest(
            url: url ?? store,
            resolvesDivergence: resolves,
            isWhole: whole,
            compression: compression
        )
        return registerDocument(recreates: recreates).then { [self] registered in
            WholeStoreUploadOperation(request, document: registered, backend: backend, state: state)
        }
    }

    /// Adds a note to the store, and pushes it.
    @discardableResult
    func push(adding note: String) async throws -> WholeStoreUpload {
        try write(note)
        return try await push().value
    }

    /// Pushes the store to a document that is registered already.
    func push(
        to document: DocumentRegistration,
        options: OperationOptions = OperationOptions()
    ) -> OperationHandle<WholeStoreUpload> {
        let request = WholeStoreUploadRequest(url: store)
        return supervisor.add(
            WholeStoreUploadOperation(request, document: document, backend: backend, state: state),
            options: options
        )
    }

    /// Registers application and document if necessary, and pulls into the store.
    func pull(
        _ url: URL? = nil,
        from client: RemoteIdentifier? = nil,
        generation: Int? = nil,
        overwrite: Bool = false,
        acceptRollback: Bool = false,
        replacement: WholeStoreDownloadRequest.Replacement = .file
    ) -> OperationHandle<WholeStoreDownload> {
        registerDocument(mayCreate: false).then { [self] registered in
            WholeStoreDownloadOperation(
                WholeStoreDownloadRequest(
                    url: url ?? store,
                    upload: client.map { .init(of: $0, generation: generation) },
                    overwritesLocalChanges: overwrite,
                    acceptsRollback: acceptRollback,
                    replacement: replacement
                ),
                document: registered,
                backend: backend,
                state: state
            )
        }
    }

    /// The application, for operations that don't register this device.
    var access: ApplicationAccess { ApplicationAccess(application, backend: backend, state: state, delegate: answer) }

    /// Removes the document for all devices.
    func removeDocument() -> OperationHandle<DocumentRemoval> {
        supervisor.add(DocumentRemovalOperation(of: document, access))
    }

    /// Removes all data of the application.
    func removeApplication() -> OperationHandle<ApplicationRemoval> {
        supervisor.add(ApplicationRemovalOperation(access))
    }

    func listDocuments() -> OperationHandle<DocumentList> { supervisor.add(DocumentListOperation(access)) }

    func listClients(of document: RemoteIdentifier? = nil) -> OperationHandle<ClientList> {
        supervisor.add(ClientListOperation(of: document, access))
    }

    /// Removes another client from the application, or from a document.
    func remove(
        _ client: RemoteIdentifier,
        from document: RemoteIdentifier? = nil
    ) -> OperationHandle<ClientRemoval> {
        supervisor.add(ClientRemovalOperation(of: client, from: document, access))
    }

    func verify(repairs: Bool = false) -> OperationHandle<VerificationReport> {
        supervisor.add(
            VerificationOperation(application, repairs: repairs, backend: backend, state: state, delegate: answer)
        )
    }

    func status() -> OperationHandle<ApplicationStatus> {
        supervisor.add(StatusOperation(application, backend: backend, state: state, delegate: answer))
    }

    // MARK: The keychain

    /// Registers, and synchronizes the keychain.
    func synchronizeKeychain() -> OperationHandle<KeychainSynchronization> {
        register().then { [self] registered in
            KeychainSynchronizationOperation(registered, backend: backend, state: state)
        }
    }

    /// The application's keychain, for items of the group "TEAM.shared".
    func keychain(on executor: (any TaskExecutor)? = nil) async throws -> FileKeychain {
        let group = try AccessGroupPattern("TEAM.shared")
        return try await state.keychain(
            for: key,
            entitlements: Entitlements(applicationIdentifier: group),
            on: executor
        )
    }

    /// The secrets of the synchronizable items, by account.
    func items() async throws -> [String: String] {
        do {
            let matches = try await keychain().copyMatching(KeychainQuery(synchronizable: .yes))
            return Dictionary(uniqueKeysWithValues: matches.map { ($0.item.account, $0.secret.text) })
        } catch let error as KeychainError where error.code == .itemNotFound {
            return [:]
        }
    }

    // MARK: The store

    /// Adds notes to the store, which is created if it doesn't exist.
    func write(_ notes: String...) throws {
        try Store.write(notes, to: store)
    }

    /// Returns the notes in the store, after a check that the database is intact.
    func notes() throws -> Set<String> {
        try Store.notes(in: store)
    }
}

/// A store of notes.
enum Store {
    /// Adds notes to a store.
    ///
    /// A new store uses a write-ahead log, as the stores of most apps do. A pulled store doesn't.
    static func write(_ notes: [String], to url: URL) throws {
        let isNew = !FileManager.default.fileExists(atPath: url.path)
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        if isNew { try queue.inDatabase { try $0.execute(sql: "PRAGMA journal_mode = wal") } }
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS note (text TEXT NOT NULL)")
            for note in notes { try db.execute(sql: "INSERT INTO note VALUES (?)", arguments: [note]) }
        }
    }

    static func notes(in url: URL) throws -> Set<String> {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        return try queue.read { db in
            let verdict = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            #expect(verdict == "ok")
            return try Set(String.fetchAll(db, sql: "SELECT text FROM note"))
        }
    }
}

/// Returns the code of the ``StoreSyncError`` that `body` throws, and records any other outcome as an issue.
func code(
    _ sourceLocation: SourceLocation = #_sourceLocation,
    of body: () async throws -> some Any
) async -> StoreSyncError.Code? {
    do {
        _ = try await body()
        Issue.record("nothing was thrown", sourceLocation: sourceLocation)
    } catch let error as StoreSyncError {
        return error.code
    } catch {
        Issue.record("\(error)", sourceLocation: sourceLocation)
    }
    return nil
}

extension Store {
    static func setJournalMode(_ mode: String, of url: URL) throws {
        let queue = try DatabaseQueue(path: url.path)
        defer { try? queue.close() }
        let now = try queue.inDatabase { try String.fetchOne($0, sql: "PRAGMA journal_mode = \(mode)") }
        #expect(now == mode)
    }
}

extension Password {
    /// Returns a password that is hashed at next to no cost.
    ///
    /// It opens only files that were created with such a password.
    static func cheap(_ text: String) throws -> Password {
        var password = try Password(text)
        password.cost = PasswordParameters(passes: 1, memoryKibibytes: 8)
        return password
    }
}

extension SecretBytes {
    convenience init(_ text: String) { self.init(copying: Array(text.utf8)) }

    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }
}
