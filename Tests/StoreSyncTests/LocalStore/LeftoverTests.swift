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

    @Test("A push removes what an interrupted pull left, unless a pull may resume it")
    func push() async throws {
        try device.write("one")
        _ = try await device.push().value
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let published = try await PublishedStores.list(DefaultHooks(backend: device.backend), hierarchy)
        let upload = try #require(published.published.first)
        let key = DocumentKey(
            application: ApplicationKey(remote: device.backend.identity, application: device.application.rawValue),
            document: device.document.rawValue
        )
        let store = try LocalStore(device.store)
        let journal = device.state.pullJournal(of: store.path, in: key)
        let resumable = try leave(StoreReplacement.temporaryURL(for: store, of: upload, journal))
        let other = try leave(StoreReplacement.temporaryURL(for: store))
        _ = try await device.push().value
        #expect(exists(resumable) && !exists(other))
    }

    @Test("What an interrupted pull left is removed once the store is found at another path")
    func moved() async throws {
        try device.write("one")
        _ = try await device.push().value
        let leftover = try leave(StoreReplacement.temporaryURL(for: LocalStore(device.store)))
        let new = fixture.folder.appending(path: "moved.sqlite")
        for suffix in ["", "-wal", "-shm"] where exists(device.store.path + suffix) {
            try FileManager.default.moveItem(atPath: device.store.path + suffix, toPath: new.path + suffix)
        }
        #expect(try await device.push(new).value.isUnchanged)
        #expect(!exists(leftover))
    }
}
