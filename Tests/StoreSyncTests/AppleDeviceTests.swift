import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("What apps on Apple devices meet", .timeLimit(.minutes(60)))
struct AppleDeviceTests {
    @Test("A state directory with a root recognizes stores when the root has another path, and continues with them")
    func movedRoot() async throws {
        let fixture = try Fixture(isVolatile: false)
        let backend = InMemoryBackend()
        let (former, later) = (
            fixture.folder.appending(path: "container-1"), fixture.folder.appending(path: "container-2")
        )
        try FileManager.default.createDirectory(at: former, withIntermediateDirectories: true)
        let state = fixture.folder.appending(path: "state")
        let one = try StateDirectory(url: state, root: former)
        let document = DocumentKey(
            application: ApplicationKey(remote: backend.identity, application: "notes"),
            document: "d"
        )
        let client = try one.clientIdentifier(for: document.application)
        let path = try LocalStore(former.appending(path: "notes.sqlite")).path
        var record = StoreRecord(path: path, document: document, integrityKey: "key")
        record.contentRoot = "00"
        try one.commitPull(record)
        let outside = StoreRecord(path: "/elsewhere/notes.sqlite", document: document, integrityKey: "key")
        try one.commitPull(outside)
        for (generation, record) in [(1, record), (2, outside)] {
            let upload = UUID().uuidString
            let name = try UploadName(client: RemoteIdentifier(client), generation: generation, upload: upload)
            try one.recordUpload(UploadRecord(document: document, name: name, store: record))
        }
        let applied = fixture.folder.appending(path: "applied")
        try Data([7]).write(to: applied)
        try one.appliedSets(for: path, in: document).stage(.appliedSyncChangeSets, from: applied)
        try one.appliedSets(for: path, in: document).commit()
        var memory = SynchronizationMemory(origin: UUID(), client: try RemoteIdentifier(client))
        memory.lastStore = SynchronizationMemory.LastStore(path: path, stateDirectory: Self.state(beside: path))
        try one.setSynchronization(memory, of: document, "key")
        // The store may be outside, in a container of an app group for instance.
        memory.lastStore?.path = outside.path
        try one.setSynchronization(memory, of: document, "other key")

        try FileManager.default.moveItem(at: former, to: later)
        let two = try StateDirectory(url: state, root: later)
        let moved = try LocalStore(later.appending(path: "notes.sqlite")).path
        #expect(try two.clientIdentifier(for: document.application) == client)
        #expect(try two.store(at: moved, document: document)?.contentRoot == "00")
        #expect(try Set(two.stores(of: document).map(\.path)) == [moved, outside.path])
        let uploads = try two.uploads(for: document, .unpublished)
        #expect(uploads.map(\.store?.path) == [moved, outside.path], "a push that died counts for the moved store")
        let store = SynchronizationMemory.LastStore(path: moved, stateDirectory: Self.state(beside: moved))
        #expect(try two.synchronization(of: document, "key")?.lastStore == store)
        let outsideStore = SynchronizationMemory.LastStore(
            path: outside.path,
            stateDirectory: Self.state(beside: moved)
        )
        #expect(try two.synchronization(of: document, "other key")?.lastStore == outsideStore)
        try two.appliedSets(for: moved, in: document).copy(
            .appliedSyncChangeSets,
            to: fixture.folder.appending(path: "copy")
        )
        #expect(try Data(contentsOf: fixture.folder.appending(path: "copy")) == Data([7]))
        // Again, without a move: nothing changes.
        let three = try StateDirectory(url: state, root: later)
        #expect(try three.stores(of: document) == two.stores(of: document))
        // Another root, while this one is where it was: it's another user's home, and nothing changes.
        let four = try StateDirectory(url: state, root: fixture.folder)
        #expect(try four.stores(of: document) == two.stores(of: document))
    }

    private static func state(beside store: LocalPath) -> LocalPath { LocalPath("\(store).state") }

    @Test("A store that is only a placeholder of iCloud is refused with words, and nothing is put at its path")
    func placeholder() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let name = ".\(b.store.lastPathComponent).icloud"
        try Data().write(to: b.store.deletingLastPathComponent().appending(path: name))
        let error = await #expect(throws: StoreSyncError.self) { _ = try await b.pull().value }
        #expect(error?.code == .storeNotFound)
        #expect(error?.message.contains("is in iCloud") == true)
        #expect(!FileManager.default.fileExists(atPath: b.store.path))
    }

    @Test("A number with a fraction of zero is no integer in a property list")
    func numbers() throws {
        let xml = """
            <?xml version="1.0" encoding="UTF-8"?>
            <plist version="1.0"><array><real>1.0</real><integer>1</integer><true/><real>0.5</real></array></plist>
            """
        let value = try PropertyListValue(xml: Array(xml.utf8))
        #expect(value == .array([.real(1), .integer(1), .boolean(true), .real(0.5)]))
        #expect(try PropertyListValue(xml: value.xml) == value)
    }

    @Test("A push of an app that is being suspended ends with words, and succeeds when the app resumes")
    func suspension() async {
        // In a separate process, because the notifications reach every database of the process.
        await #expect(processExitsWith: .success) {
            let fixture = try Fixture()
            let device = try fixture.device("a")
            try await device.push(adding: "one")
            try device.write("two")
            NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
            do {
                _ = try await device.push().value
                throw StoreSyncError(.busy, "The push took locks of a suspended app.")
            } catch let error as StoreSyncError {
                try #require(error.code == .busy && error.message.contains("being suspended"), "\(error)")
            }
            NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
            try #require(try await device.push().value.isUnchanged == false)
        }
    }

    @Test("Databases synchronize with the medium itself, and observe that the app is being suspended")
    func configuration() throws {
        let fixture = try Fixture(isVolatile: false)
        let state = try StateDirectory(url: fixture.folder.appending(path: "state"))
        #expect(try state.read { try Int.fetchOne($0, sql: "PRAGMA fullfsync") } == 1)
        #expect(try state.read { try Int.fetchOne($0, sql: "PRAGMA checkpoint_fullfsync") } == 1)
        #expect(try state.read { $0.configuration.observesSuspensionNotifications })
    }
}
