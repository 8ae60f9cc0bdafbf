import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A store that equals an upload is that upload, or was edited back to it", .timeLimit(.minutes(60)))
struct EqualContentTests {
    private let fixture: Fixture
    private let a: Device
    private let b: Device

    init() throws {
        fixture = try Fixture()
        let backend = InMemoryBackend()
        (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
    }

    private func set(_ content: String, in store: URL) throws { try Data(content.utf8).write(to: store) }

    private func content(of store: URL) throws -> String { try String(contentsOf: store, encoding: .utf8) }

    @Test("A pull refuses to undo an edit that returns a store to the content of an upload that it contains")
    func editedBack() async throws {
        for content in ["1", "2"] {
            try set(content, in: a.store)
            _ = try await a.push().value
        }
        try set("1", in: a.store)
        #expect(await code { try await a.pull().value } == .localChanges)
        #expect(try content(of: a.store) == "1")
        #expect(try await a.push().value.generation == 3)
        _ = try await b.pull().value
        #expect(try content(of: b.store) == "1")

        try set("9", in: b.store)
        _ = try await b.push().value
        _ = try await a.pull().value
        #expect(try content(of: a.store) == "9")
        try set("1", in: a.store)
        #expect(await code { try await a.pull().value } == .localChanges)
        #expect(try content(of: a.store) == "1")
    }

    @Test("A pull refuses to undo an edit that restores a former content, though another store has that content")
    func editedBackToAnotherStore() async throws {
        try set("1", in: a.store)
        let client = try await a.push().value.client
        let other = fixture.folder.appending(path: "other")
        _ = try await a.pull(other).value
        try set("2", in: a.store)
        _ = try await a.push().value
        try set("1", in: a.store)
        #expect(await code { try await a.pull().value } == .localChanges)
        // The other store is as it was pulled.
        #expect(try await a.pull(other).value.generation == 2)
        #expect(try await a.pull(from: client, generation: 1).value.isUnchanged)
    }

    @Test("A pull replaces a store that equals an upload, if this device doesn't know the store or that upload")
    func unknown() async throws {
        try set("1", in: a.store)
        _ = try await a.push().value
        _ = try await b.pull().value
        for content in ["2", "3"] {
            try set(content, in: b.store)
            _ = try await b.push().value
        }
        try set("2", in: a.store)
        #expect(try await a.pull().value.generation == 3)
        let c = try fixture.device("c", backend: a.backend)
        try set("2", in: c.store)
        #expect(try await c.pull().value.generation == 3)
    }

    @Test("A store over which another device's file was copied publishes nothing, and continues from that file")
    func copiedFile() async throws {
        try set("1", in: a.store)
        _ = try await a.push().value
        _ = try await b.pull().value
        try set("2", in: b.store)
        let newest = try await b.push().value
        try set("2", in: a.store)
        let copied = try await a.push().value
        #expect(copied.isUnchanged && copied.generation == newest.generation)
        try set("3", in: a.store)
        #expect(try await a.push().value.divergedFrom.isEmpty)
        _ = try await b.pull().value
        #expect(try content(of: b.store) == "3")
    }

    @Test("An upload that the copied file doesn't include stays a head")
    func copiedOverAnEdit() async throws {
        try set("1", in: a.store)
        let client = try await a.push().value.client
        _ = try await b.pull().value
        for (device, content) in [(a, "of a"), (b, "of b")] {
            try set(content, in: device.store)
            _ = try await device.push().value
        }
        try set("of b", in: a.store)
        let copied = try await a.push().value
        #expect(copied.isUnchanged && copied.divergedFrom == [client])
        try set("after", in: a.store)
        #expect(try await a.push().value.divergedFrom == [client])
        #expect(await code { try await b.pull().value } == .diverged)
    }

    @Test("A push of an old copy says which upload it undoes, and how to get that back")
    func oldCopy() async throws {
        for content in ["1", "2"] {
            try set(content, in: a.store)
            #expect(try await !a.push().value.warnings.contains { $0.contains("again") })
        }
        try set("1", in: a.store)
        let old = try await a.push().value
        let remedy = "--from \(old.client) --generation 2, and push that with --resolves"
        #expect(old.warnings.contains { $0.contains("generation 1") && $0.contains(remedy) }, "\(old.warnings)")
        _ = try await a.pull(from: old.client, generation: 2).value
        for isWhole in [false, true] {
            let upload = try await a.push(resolves: !isWhole, whole: isWhole).value
            #expect(!upload.isUnchanged && !upload.warnings.contains { $0.contains("again") })
        }
        _ = try await b.pull().value
        #expect(try content(of: b.store) == "2")
    }
}
