import Foundation
import GRDB
import Operations
import RemoteStorage
import ServerFixtures
import StoreSync
import SyncCryptography
import Testing
import ThreadSupport

// The code between the marks is also in the documentation.

// DOC: export
actor Export: Operation {
    private let notes: [String]
    private let file: URL

    init(_ notes: [String], to file: URL) {
        self.notes = notes
        self.file = file
    }

    func main(_ context: OperationContext) async throws -> URL {
        var text = ""
        for (index, note) in notes.enumerated() {
            try Task.checkCancellation()
            text += "\(note)\n"
            context.reportProgress(Double(index + 1) / Double(notes.count))
        }
        try await context.blocking { [text, file] in try text.write(to: file, atomically: true, encoding: .utf8) }
        return file
    }
}

actor Announcement: Operation {
    private let upload: WholeStoreUpload

    init(of upload: WholeStoreUpload) { self.upload = upload }

    func main(_ context: OperationContext) async throws -> String {
        "Generation \(upload.generation) of the diary is published."
    }
}
// DOC: end

// DOC: pipeline
struct Publication {
    let upload: OperationHandle<WholeStoreUpload>
    let announcement: OperationHandle<String>

    init(
        of notes: [String],
        in file: URL,
        password: Password,
        backend: any RemoteBackend,
        state: StateDirectory,
        on supervisor: OperationSupervisor
    ) throws {
        let diary = try RemoteIdentifier("diary")
        var options = OperationOptions(priority: .high)
        options.retry = .whileTemporary
        let registration = ApplicationRegistrationOperation(
            ApplicationRegistrationRequest(
                application: try RemoteIdentifier("org.example.diary"),
                clientDescription: "my laptop"
            ),
            backend: backend,
            state: state
        ) { question in
            guard question != .joiningEncrypted(passwordWasWrong: true) else { throw CancellationError() }
            return .encrypted(password)
        }
        let export = supervisor.add(Export(notes, to: file))
        let application = supervisor.add(registration, after: [export], options: options)
        let document = application.then(options: options) { registered in
            DocumentRegistrationOperation(
                DocumentRegistrationRequest(document: diary, description: "My diary"),
                application: registered,
                backend: backend,
                state: state
            ) { _ in true }
        }
        upload = supervisor.combine(export, document, options: options) { file, registered in
            WholeStoreUploadOperation(
                WholeStoreUploadRequest(url: file),
                document: registered,
                backend: backend,
                state: state
            )
        }
        announcement = upload.then { Announcement(of: $0) }
    }
}
// DOC: end

// DOC: open
@MainActor final class OpenNotes: ApplicationSyncDelegate {
    private(set) var database: DatabaseQueue?

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision { .unencrypted }

    func willReplaceStore(at url: URL, of document: RemoteIdentifier) async throws {
        try database?.close()
        database = nil
    }

    func didReplaceStore(at url: URL, of document: RemoteIdentifier, isReplaced: Bool) async {
        database = try? DatabaseQueue(path: url.path)
    }
}
// DOC: end

/// A storage that can't be reached by the first list request for each of two directories.
///
/// One of the requests belongs to the registration of an application, the other one to the upload.
private actor UnreachableAtFirst: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private var unreachable: Set = ["Information", "WholeStore"]

    init(_ base: any RemoteBackend) { self.base = base }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        if let name = directory.lastComponent, unreachable.remove(name) != nil {
            throw RemoteError(.unavailable, "The storage can't be reached.")
        }
        return try await base.list(directory)
    }
}

@Suite("Composing a pipeline", .timeLimit(.minutes(60)))
struct ComposingAPipelineTests {
    private let notes = ["one", "two"]

    @Test("The example of operations around a manager's upload works")
    func withManager() async throws {
        let fixture = try Fixture()
        let (diary, file) = (fixture.document, fixture.folder.appending(path: "diary.txt"))
        let delegate = UnencryptedDelegate()
        let manager = ApplicationSyncManager(
            application: fixture.application,
            clientDescription: "my laptop",
            backend: LocalFolderBackend(root: fixture.share),
            state: try StateDirectory(url: fixture.folder.appending(path: "state")),
            delegate: delegate
        )
        // DOC: short
        let export = manager.supervisor.add(Export(notes, to: file))
        let upload = manager.document(diary).upload(
            storeAt: file,
            after: [export],
            options: OperationOptions(priority: .high, deadline: .seconds(600))
        )
        let announcement = upload.then { Announcement(of: $0) }
        print(try await announcement.value)
        // DOC: end
        #expect(try await announcement.value == "Generation 1 of the diary is published.")
        withExtendedLifetime(delegate) {}
    }

    @Test("The example of an app closes its database while a download replaces it, and opens the new one")
    func openApp() async throws {
        let fixture = try Fixture()
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        try first.write("one")
        _ = try await first.push().value
        let app = OpenNotes()
        let notes = second.manager(app).document(fixture.document)
        _ = try await notes.download(WholeStoreDownloadRequest(url: second.store)).value
        try first.write("two")
        _ = try await first.push().value
        _ = try await notes.download(WholeStoreDownloadRequest(url: second.store)).value
        let texts = try await app.database?.read { try String.fetchAll($0, sql: "SELECT text FROM note") }
        #expect(texts == ["one", "two"])
    }

    @Test("The example of a pipeline uploads the exported file, and retries while the storage can't be reached")
    func pipeline() async throws {
        let fixture = try Fixture()
        let waits = Locked<[Duration]>([])
        let supervisor = OperationSupervisor(
            OperationSupervisor.Configuration(
                clock: RecordingClock(waits: waits),
                temporaryDirectory: fixture.temporary
            )
        )
        let backend = UnreachableAtFirst(LocalFolderBackend(root: fixture.share))
        let state = try StateDirectory(url: fixture.folder.appending(path: "state"))
        let (file, password) = (fixture.folder.appending(path: "diary.txt"), try Password.cheap("correct horse"))
        // DOC: run
        let publication = try Publication(
            of: notes,
            in: file,
            password: password,
            backend: backend,
            state: state,
            on: supervisor
        )
        print(try await publication.announcement.value)
        // DOC: end
        let upload = try await publication.upload.value
        #expect(upload.generation == 1)
        #expect(upload.isEncrypted)
        #expect(upload.bytes == Int64("one\ntwo\n".utf8.count))
        // The third wait limits how long the file is read in place.
        #expect(waits.withLock { $0.filter { $0 < .seconds(20) }.count } == 2)
    }

    @Test("The example of progress ends with the upload")
    func progress() async throws {
        let fixture = try Fixture()
        let supervisor = OperationSupervisor(
            OperationSupervisor.Configuration(temporaryDirectory: fixture.temporary)
        )
        let publication = try Publication(
            of: notes,
            in: fixture.folder.appending(path: "diary.txt"),
            password: Password.cheap("correct horse"),
            backend: LocalFolderBackend(root: fixture.share),
            state: StateDirectory(url: fixture.folder.appending(path: "state")),
            on: supervisor
        )
        // DOC: progress
        for await event in publication.upload.events {
            guard case .progress(let progress) = event else { continue }
            print(progress.phase ?? "", progress.completedUnitCount ?? 0, progress.totalUnitCount ?? 0)
            print("\(Int(100 * supervisor.progress.fractionCompleted)) % of the pipeline")
        }
        // DOC: end
        #expect(publication.upload.state == .finished)
        #expect(publication.upload.progress.fractionCompleted == 1)
        _ = try await publication.announcement.value
    }

    @Test("The example of a cancellation ends every operation, and a pipeline that hasn't started creates nothing")
    func cancellation() async throws {
        let fixture = try Fixture()
        let file = fixture.folder.appending(path: "diary.txt")
        let supervisor = OperationSupervisor(
            OperationSupervisor.Configuration(isSuspended: true, temporaryDirectory: fixture.temporary)
        )
        let publication = try Publication(
            of: notes,
            in: file,
            password: Password.cheap("correct horse"),
            backend: LocalFolderBackend(root: fixture.share),
            state: StateDirectory(url: fixture.folder.appending(path: "state")),
            on: supervisor
        )
        // DOC: cancel
        supervisor.cancelAll()
        switch await publication.upload.result {
        case .success(let upload): print("Generation \(upload.generation) was published before the cancellation.")
        case .failure(is CancellationError): print("Cancelled. If it was already published, the next push says so.")
        case .failure(let error): print(error)
        }
        // DOC: end
        _ = await publication.announcement.result
        #expect(publication.upload.isCancelled)
        #expect(publication.announcement.isCancelled)
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.share.path).isEmpty)
    }
}
