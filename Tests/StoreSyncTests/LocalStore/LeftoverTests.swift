import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("What an interrupted pull leaves next to the store", .timeLimit(.minutes(60)))
struct LeftoverTests {
    private let fixture: Fixture
    private let device: Device

    init() throws {
        fixture = try Fixture()
        device = try fixture.device("a", backend: InMemoryBackend())
    }

    /// Creates a file, as a pull that died leaves it.
    private func leave(_ url: URL) throws -> String {
        try Data([1]).write(to: url)
        return url.path
    }

    private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

    /// The path of a download of the device's upload that a pull may resume.
    private func resumable(for store: LocalStore) async throws -> URL {
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let published = try await PublishedStores.list(DefaultHooks(backend: device.backend), hierarchy)
        let upload = try #require(published.published.first)
        let journal = device.state.pullJournal(of: store.path, in: device.documentKey)
        return StoreReplacement.temporaryURL(for: store, of: upload, journal)
    }

    private func makeFolder(_ name: String) throws -> URL {
        let folder = fixture.folder.appending(path: name, directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        return folder
    }

    /// Moves the device's store.
    private func move(to new: URL) throws {
        for suffix in ["", "-wal", "-shm"] where exists(device.store.path + suffix) {
            try FileManager.default.moveItem(atPath: device.store.path + suffix, toPath: new.path + suffix)
        }
    }

    @Test("A push removes what an interrupted pull left, unless a pull may resume it")
    func push() async throws {
        try await device.push(adding: "one")
        let store = try LocalStore(device.store)
        let resumable = try leave(await resumable(for: store))
        let other = try leave(StoreReplacement.temporaryURL(for: store))
        _ = try await device.push().value
        #expect(exists(resumable) && !exists(other))
    }

    @Test("What an interrupted pull left is removed once the store is found at another path")
    func moved() async throws {
        try await device.push(adding: "one")
        let leftover = try leave(StoreReplacement.temporaryURL(for: LocalStore(device.store)))
        let new = fixture.folder.appending(path: "moved.sqlite")
        try move(to: new)
        #expect(try await device.push(new).value.isUnchanged)
        #expect(!exists(leftover))
    }

    @Test("What an interrupted pull left is removed when a link at the store's former path leads to the store")
    func behindLink() async throws {
        try await device.push(adding: "one")
        let former = try LocalStore(device.store)
        let leftover = try leave(StoreReplacement.temporaryURL(for: former))
        let journal = device.state.pullJournal(of: former.path, in: device.documentKey).url
        let transfers = journal.deletingLastPathComponent()
        try FileManager.default.createDirectory(at: transfers, withIntermediateDirectories: true)
        _ = try leave(journal)
        let new = try makeFolder("folder").appending(path: device.store.lastPathComponent)
        try move(to: new)
        try FileManager.default.createSymbolicLink(at: device.store, withDestinationURL: new)
        #expect(try await device.push().value.isUnchanged)
        #expect(!exists(leftover) && !exists(journal.path))
    }

    @Test("What an interrupted pull left stays for the next pull when a directory's link leads to the store")
    func behindDirectoryLink() async throws {
        let (former, folder) = (try makeFolder("former"), fixture.folder.appending(path: "folder"))
        let store = former.appending(path: device.store.lastPathComponent)
        try device.write("one")
        try move(to: store)
        _ = try await device.push(store).value
        try FileManager.default.moveItem(at: former, to: folder)
        try FileManager.default.createSymbolicLink(at: former, withDestinationURL: folder)
        let resumable = try leave(await resumable(for: LocalStore(store)))
        #expect(try await device.push(store).value.isUnchanged)
        #expect(exists(resumable))
    }
}
