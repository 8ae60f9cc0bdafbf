import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Removing an application whose directory isn't there", .timeLimit(.minutes(60)))
struct AbsentApplicationTests {
    private struct Death: Error {}

    private let fixture: Fixture

    init() throws {
        fixture = try Fixture(password: "correct horse")
    }

    private var unmounted: URL { fixture.folder.appending(path: "unmounted", directoryHint: .isDirectory) }

    private func unmount() throws {
        try FileManager.default.moveItem(at: fixture.share, to: unmounted)
        try FileManager.default.createDirectory(at: fixture.share, withIntermediateDirectories: false)
    }

    private func mount() throws {
        try FileManager.default.removeItem(at: fixture.share)
        try FileManager.default.moveItem(at: unmounted, to: fixture.share)
    }

    /// Starts the removal by a device that dies at a step, and returns the device after its restart.
    private func removeApplication(by name: String, dyingAt step: String) async throws -> Device {
        let dying = try fixture.device(name) { if $0 == step { throw Death() } }
        await #expect(throws: (any Error).self) { try await dying.removeApplication().value }
        return try fixture.device(name)
    }

    @Test(
        "An application's interrupted removal isn't completed while the share isn't mounted",
        arguments: [false, true]
    )
    func interrupted(hasBegunRemoving: Bool) async throws {
        _ = try await fixture.device("a").register().value
        let step = hasBegunRemoving ? "before removal of \(fixture.hierarchy.encryption)" : "after removal"
        let a = try await removeApplication(by: "a", dyingAt: step)
        let (epoch, files) = (try #require(try await a.epoch()), try fixture.files())
        #expect(!files.isEmpty)
        try unmount()
        #expect(await code { try await a.removeApplication().value } == .applicationMissing)
        #expect(try a.state.pin(for: a.key) != nil)
        #expect(try await a.state.masterKey(for: a.key, epoch: epoch, on: nil) != nil)
        try mount()
        #expect(try fixture.files() == files)
        _ = try await a.removeApplication().value
        #expect(try fixture.files().isEmpty)
        #expect(try a.state.pin(for: a.key) == nil)
    }

    @Test("A removal that was interrupted after the directory was removed is completed")
    func lastStep() async throws {
        _ = try await fixture.device("a").register().value
        let a = try await removeApplication(by: "a", dyingAt: "after removal of \(fixture.hierarchy.root)")
        #expect(try fixture.files().isEmpty && a.state.pin(for: a.key) != nil)
        _ = try await a.removeApplication().value
        #expect(try a.state.pin(for: a.key) == nil)
    }

    @Test("A removed application that was restored and registered with again isn't taken for removed")
    func restored() async throws {
        let a = try fixture.device("a")
        _ = try await a.register().value
        let backup = fixture.folder.appending(path: "backup", directoryHint: .isDirectory)
        try FileManager.default.copyItem(at: fixture.share, to: backup)
        _ = try await a.removeApplication().value
        try FileManager.default.removeItem(at: fixture.share)
        try FileManager.default.moveItem(at: backup, to: fixture.share)
        _ = try await a.register().value
        try unmount()
        #expect(await code { try await a.removeApplication().value } == .applicationMissing)
        #expect(try a.state.pin(for: a.key) != nil)
    }

    @Test("An application of another epoch that is being replaced isn't removed without its keys")
    func asides() async throws {
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        _ = try await a.register().value
        let epoch = try #require(try await a.epoch())
        let backup = fixture.folder.appending(path: "backup", directoryHint: .isDirectory)
        try FileManager.default.copyItem(at: fixture.url(fixture.hierarchy.root), to: backup)
        _ = try await a.removeApplication().value
        _ = try await b.register().value
        let other = try #require(try await b.epoch())
        // The name says which application the device meant to move. It may have moved another one.
        let (meant, unmeant, removed) = (try aside(of: other), try aside(of: epoch), try aside(of: epoch))
        try FileManager.default.copyItem(at: fixture.url(fixture.hierarchy.root), to: unmeant)
        try FileManager.default.moveItem(at: fixture.url(fixture.hierarchy.root), to: meant)
        let files = try fixture.files()
        try FileManager.default.moveItem(at: backup, to: removed)
        _ = try await a.removeApplication().value
        #expect(try fixture.files() == files)
        #expect(!FileManager.default.fileExists(atPath: removed.path))
    }

    @Test("A removal removes former applications that were moved aside while it has the keys")
    func formerAsides() async throws {
        _ = try await fixture.device("a").register().value
        let former = try aside(of: UUID().uuidString)
        try FileManager.default.copyItem(at: fixture.url(fixture.hierarchy.root), to: former)
        let a = try await removeApplication(by: "a", dyingAt: "before removal of \(fixture.hierarchy.root)")
        #expect(!FileManager.default.fileExists(atPath: former.path))
        _ = try await a.removeApplication().value
        #expect(try fixture.files().isEmpty)
    }

    /// The path to which a device moves an application of an epoch to replace it.
    private func aside(of epoch: String) throws -> URL {
        let name = AsideName(application: fixture.application, epoch: UUID(uuidString: epoch)).name
        return fixture.url(try fixture.hierarchy.staged(as: name).root)
    }
}
