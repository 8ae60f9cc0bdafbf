import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography
import Testing

// The code between the marks is also in the documentation.

// DOC: questions
@MainActor final class SyncQuestions: ApplicationSyncDelegate {
    private let password: String

    init(password: String) { self.password = password }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        // An app shows a password field here. The operation is paused for as long as the user takes.
        switch question {
        case .newApplication, .joiningEncrypted(passwordWasWrong: false):
            return .encrypted(try Password(password))
        case .joiningEncrypted(passwordWasWrong: true):
            throw StoreSyncError(.wrongPassword, "This isn't the password of \(application). Enter it again.")
        case .joiningUnencrypted:
            throw CancellationError()
        }
    }
}
// DOC: end

// DOC: manager
@MainActor final class NotesSync {
    let store: URL
    let notes: DocumentSyncManager
    private let questions: SyncQuestions

    init(device: String, home: URL, share: URL, password: String) async throws {
        store = home.appending(path: "notes.sqlite")
        // The manager holds its delegate weakly, so this class keeps it.
        questions = SyncQuestions(password: password)
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: device,
            backend: LocalFolderBackend(root: share),
            state: try await .open(at: home.appending(path: "sync")),
            delegate: questions
        )
        notes = manager.document(try RemoteIdentifier("notes"))
    }
}
// DOC: end

// DOC: synchronize
extension NotesSync {
    /// Takes what other devices have published, or publishes what this device has edited.
    ///
    /// - Returns: The clients whose edits this device's store lacks.
    func synchronize() async throws -> [RemoteIdentifier] {
        do {
            _ = try await notes.download(WholeStoreDownloadRequest(url: store)).value
            return []
        } catch let error as StoreSyncError where error.code == .localChanges {
            return try await notes.upload(storeAt: store).value.divergedFrom
        }
    }
}
// DOC: end

// DOC: resolve
extension NotesSync {
    /// Merges the stores of other clients into this device's store, and publishes the result in place of all of them.
    func resolve(_ clients: [RemoteIdentifier], merging merge: (URL) throws -> Void) async throws {
        for client in clients {
            let copy = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).sqlite")
            defer { try? FileManager.default.removeItem(at: copy) }
            let newest = WholeStoreDownloadRequest.Upload(of: client)
            _ = try await notes.download(WholeStoreDownloadRequest(url: copy, upload: newest)).value
            try merge(copy)
        }
        _ = try await notes.upload(WholeStoreUploadRequest(url: store, resolvesDivergence: true)).value
    }
}
// DOC: end

// DOC: removal
extension NotesSync {
    /// Removes the devices that have synchronized the notes before, but not since a date.
    func removeDevices(notSeenSince date: Date) async throws {
        for client in try await notes.listClients().value.clients {
            guard let lastSync = client.lastSync, lastSync < date else { continue }
            _ = try await notes.removeClient(client.client).value
        }
    }
}
// DOC: end

@Suite("Your first sync", .timeLimit(.minutes(60)))
struct YourFirstSyncTests {
    /// Creates a device's home directory.
    private func home(_ device: String, in fixture: Fixture) throws -> URL {
        let home = fixture.folder.appending(path: device, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        return home
    }

    /// Adds the notes of a copy that a store doesn't have.
    private func merge(_ copy: URL, into store: URL) throws {
        let missing = try Store.notes(in: copy).subtracting(Store.notes(in: store))
        try Store.write(Array(missing), to: store)
    }

    /// Returns the code of the error with which a synchronization fails.
    @MainActor private func refusal(of device: NotesSync) async -> StoreSyncError.Code? {
        do {
            _ = try await device.synchronize()
            return nil
        } catch {
            return (error as? StoreSyncError)?.code
        }
    }

    @Test("Two devices exchange a store, and edits of both devices are merged after a divergence")
    @MainActor func twoDevices() async throws {
        let fixture = try Fixture()
        let (share, password) = (fixture.share, "correct horse battery staple")
        let (laptopHome, desktopHome) = (try home("laptop", in: fixture), try home("desktop", in: fixture))
        try Store.write(["one"], to: laptopHome.appending(path: "notes.sqlite"))
        // DOC: upload
        let laptop = try await NotesSync(device: "laptop", home: laptopHome, share: share, password: password)
        let upload = try await laptop.notes.upload(storeAt: laptop.store).value
        print("Generation \(upload.generation): \(upload.bytes) bytes, \(upload.storedBytes) on the share")
        // DOC: end
        #expect(upload.generation == 1)
        #expect(upload.isEncrypted)

        let tabletHome = try home("tablet", in: fixture)
        let tablet = try await NotesSync(device: "tablet", home: tabletHome, share: share, password: "wrong")
        #expect(await refusal(of: tablet) == .wrongPassword)
        #expect(!FileManager.default.fileExists(atPath: tablet.store.path))

        // DOC: download
        let desktop = try await NotesSync(device: "desktop", home: desktopHome, share: share, password: password)
        let download = try await desktop.notes.download(WholeStoreDownloadRequest(url: desktop.store)).value
        print("Generation \(download.generation) of client \(download.from)")
        // DOC: end
        #expect(download.from == upload.client)
        #expect(try Store.notes(in: desktop.store) == ["one"])

        try Store.write(["from the laptop"], to: laptop.store)
        let missingOnLaptop = try await laptop.synchronize()
        #expect(missingOnLaptop.isEmpty)
        try Store.write(["from the desktop"], to: desktop.store)
        // DOC: divergence
        let others = try await desktop.synchronize()
        // DOC: end
        #expect(others == [upload.client])
        #expect(await refusal(of: laptop) == .diverged)
        // DOC: settling
        try await desktop.resolve(others) { copy in
            try merge(copy, into: desktop.store)
        }
        // DOC: end
        #expect(await refusal(of: laptop) == nil)
        let notes: Set = ["one", "from the laptop", "from the desktop"]
        #expect(try Store.notes(in: laptop.store) == notes)
        #expect(try Store.notes(in: desktop.store) == notes)

        try await laptop.removeDevices(notSeenSince: .distantPast)
        #expect(try await laptop.notes.listClients().value.clients.count == 2)
    }
}
