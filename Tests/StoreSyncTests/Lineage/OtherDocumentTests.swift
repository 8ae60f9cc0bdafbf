import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A store that a pull of another document replaced", .timeLimit(.minutes(60)))
struct OtherDocumentTests {
    private let fixture: Fixture
    private let backend = InMemoryBackend()
    /// A device with a store of the document.
    private let a: Device
    /// The same device with another document, of which it has no store.
    private let other: Device

    init() async throws {
        fixture = try Fixture()
        a = try fixture.device("a", backend: backend)
        other = a.with(document: try RemoteIdentifier("other"))
        try await a.push(adding: "one")
        let b = try fixture.device("b", backend: backend).with(document: other.document)
        try await b.push(adding: "of the other document")
    }

    /// The device, which fails at a moment of a change of its memory or its store.
    private func failing(at moment: String) throws -> Device {
        try fixture.device("a", backend: backend) { step in
            if step == moment { throw RemoteError(.unavailable, "The device is dead.") }
        }
    }

    private func expectUnrelated(_ sourceLocation: SourceLocation = #_sourceLocation) async throws {
        #expect(try a.notes() == ["of the other document"], sourceLocation: sourceLocation)
        #expect(await code { try await a.push().value } == .unrelatedStore, sourceLocation: sourceLocation)
        let reader = try fixture.device("reader", backend: backend)
        _ = try await reader.pull().value
        #expect(try reader.notes().contains("one"), sourceLocation: sourceLocation)
    }

    @Test("A store replaced by another document's pull is unrelated to the uploads of its former document")
    func replaced() async throws {
        #expect(await code { try await other.pull().value } == .localChanges)
        _ = try await other.pull(overwrite: true).value
        try await expectUnrelated()
        #expect(try await a.push(resolves: true).value.divergedFrom.isEmpty)

        let moved = fixture.folder.appending(path: "moved.sqlite")
        try FileManager.default.moveItem(at: a.store, to: moved)
        let third = a.with(document: try RemoteIdentifier("third"))
        _ = try await third.push(moved).value
        _ = try await third.pull().value
        try a.write("edit")
        #expect(await code { try await a.push().value } == .unrelatedStore)
    }

    @Test("A store replaced by another document's pull is unrelated even if the device died before it recorded that")
    func died() async throws {
        let dying = try failing(at: "before pull").with(document: other.document)
        #expect(await code { try await dying.pull(overwrite: true).value } == .remoteUnavailable)
        #expect(try await other.pull().value.isUnchanged)
        try await expectUnrelated()
    }

    @Test("A store replaced by another document's pull is unrelated also to an upload that wasn't recorded")
    func publishedNotRecorded() async throws {
        try a.write("two")
        let dying = try failing(at: "before push")
        #expect(await code { try await dying.push().value } == .remoteUnavailable)
        _ = try await other.pull(overwrite: true).value
        try await expectUnrelated()
    }

    @Test("A store keeps its document if another document's pull fails before it replaces the store")
    func failed() async throws {
        let device = try failing(at: "before the rename").with(document: other.document)
        #expect(await code { try await device.pull(overwrite: true).value } == .remoteUnavailable)
        let upload = try await a.push(adding: "two")
        #expect(upload.generation == 2 && upload.divergedFrom.isEmpty)
    }

    @Test("A store keeps its document if it was an upload of the other document, as if mirrored on two remotes")
    func mirrored() async throws {
        let c = try fixture.device("c", backend: backend)
        _ = try await c.pull().value
        let mirror = InMemoryBackend(identity: "memory:mirror")
        _ = try await c.with(backend: mirror).push().value
        try c.write("two")
        _ = try await c.with(backend: mirror).push().value
        _ = try await a.with(backend: mirror).pull().value
        #expect(try a.notes() == ["one", "two"])
        let upload = try await a.push().value
        #expect(upload.generation == 2 && upload.divergedFrom.isEmpty)
    }
}
