import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A rollback is noticed by every command", .timeLimit(.minutes(60)))
struct RollbackTests {
    private static let password = "correct horse battery staple"

    /// A document with five generations of one device, and the former states of its remote.
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device
        private(set) var states: [[String: Data]] = []

        init() async throws {
            fixture = try Fixture(password: password)
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            for round in 1...5 {
                try await a.push(adding: "round \(round)")
                states.append(try fixture.files())
            }
            _ = try await b.pull().value
        }

        /// Puts the remote back to its state after a generation.
        func putBack(to generation: Int) throws { try fixture.restore(states[generation - 1]) }
    }

    @Test("F4: The device that pushed the missing generations notices their rollback")
    func owner() async throws {
        let scene = try await Scene()
        try scene.putBack(to: 2)
        let report = try await scene.a.verify().value
        #expect(report.problems.map(\.code) == ["rolledBack"], "\(report)")
        let status = try await scene.a.status().value
        #expect(status.unreadable.map(\.code) == [.rolledBack])
        #expect(await code { try await scene.a.push().value } == .rolledBack)
        #expect(await code { try await scene.a.pull().value } == .rolledBack)
        let notes = try scene.a.notes()
        try scene.a.write("more")
        #expect(await code { try await scene.a.push().value } == .rolledBack)
        #expect(await code { try await scene.a.pull(overwrite: true).value } == .rolledBack)
        #expect(try scene.a.notes() == notes.union(["more"]))
        #expect(try scene.fixture.files() == scene.states[1], "nothing was published")
    }

    @Test("F4: A device that pulled a missing generation notices its rollback")
    func reader() async throws {
        let scene = try await Scene()
        try scene.putBack(to: 4)
        #expect(await code { try await scene.b.pull().value } == .rolledBack)
        #expect(await code { try await scene.b.pull(overwrite: true).value } == .rolledBack)
        #expect(try scene.b.notes() == scene.a.notes())
        #expect(await code { try await scene.b.push().value } == .rolledBack)
        #expect(try await scene.b.verify().value.problems.map(\.code) == ["rolledBack"])
        #expect(try await scene.b.status().value.unreadable.map(\.code) == [.rolledBack])
        // Everything works again once the generation is restored.
        try scene.putBack(to: 5)
        #expect(try await scene.b.pull().value.isUnchanged)
        #expect(try await scene.b.verify().value.problems.isEmpty)
    }

    @Test("A whole copy that its device pushes repairs the loss")
    func mended() async throws {
        let scene = try await Scene()
        try scene.putBack(to: 2)
        let upload = try await scene.a.push(whole: true).value
        #expect(
            upload.warnings.contains { $0.hasPrefix("Generation") && $0.contains("given it up") },
            "\(upload.warnings)"
        )
        #expect(!upload.warnings.contains { $0.contains("never pulled") }, "\(upload.warnings)")
        #expect(upload.generation == 6 && !upload.isUnchanged && upload.divergedFrom.isEmpty)
        #expect(try await scene.a.verify().value.problems.isEmpty)
        _ = try await scene.b.pull().value
        #expect(try scene.b.notes() == scene.a.notes())
    }

    @Test("A device that has seen uploads notices that all are missing, and its whole copy repairs the loss")
    func allMissing() async throws {
        let scene = try await Scene()
        let client = try await scene.a.register().value.client
        let stores = "\(scene.fixture.hierarchy.document(scene.fixture.document).wholeStores)/"
        try scene.fixture.restore(scene.fixture.files().filter { !$0.key.hasPrefix(stores) })
        for device in [scene.a, scene.b] {
            #expect(try await device.status().value.unreadable.map(\.code) == [.rolledBack])
            #expect(await code { try await device.push().value } == .rolledBack)
            #expect(await code { try await device.pull(from: client).value } == .rolledBack)
            #expect(await code { try await device.pull(acceptRollback: true).value } == .rolledBack)
            let error = await #expect(throws: StoreSyncError.self) { try await device.pull().value }
            #expect(error?.code == .rolledBack)
            #expect(error?.message.hasPrefix("Generation 5 of client \(client)") == true, "\(error as Any)")
            #expect(error?.message.contains("push with --whole") == true, "\(error as Any)")
        }
        let fresh = try scene.fixture.device("fresh")
        #expect(await code { try await fresh.pull().value } == .noUploadedStore)
        #expect(try await scene.b.push(whole: true).value.generation == 6)
        for device in [scene.a, fresh] {
            _ = try await device.pull().value
            #expect(try device.notes() == scene.b.notes())
        }
    }

    @Test("An accepted rollback is remembered, and the store that it replaces is given up")
    func accepted() async throws {
        let scene = try await Scene()
        try scene.putBack(to: 2)
        _ = try await scene.b.pull(acceptRollback: true).value
        #expect(try scene.b.notes() == ["round 1", "round 2"])
        #expect(try await scene.b.pull().value.isUnchanged)
        #expect(try await scene.b.verify().value.problems.isEmpty)
        // The device whose uploads were lost repairs them.
        _ = try await scene.a.push(whole: true).value
        _ = try await scene.b.pull().value
        #expect(try scene.b.notes() == scene.a.notes())
    }

    @Test("A store whose upload is missing isn't replaced by an upload of another device that doesn't include it")
    func onlyCopy() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.push(adding: "base")
        _ = try await b.pull().value
        let clientA = try await a.push(adding: "from a").client
        let clientB = try await b.push(adding: "from b").client
        let hierarchy = fixture.hierarchy.document(fixture.document)
        for item in try await backend.list(hierarchy.wholeStores(clientB)) ?? [] {
            try await backend.remove(hierarchy.wholeStores(clientB).appending(item.name))
        }
        #expect(await code { try await b.pull().value } == .rolledBack)
        #expect(await code { try await b.pull(from: clientA).value } == .rolledBack)
        #expect(await code { try await b.pull(from: clientA, generation: 2).value } == .localChanges)
        #expect(try b.notes() == ["base", "from b"])
        #expect(try await b.push(whole: true).value.divergedFrom == [clientA])
        #expect(try await b.pull(from: clientA, generation: 2).value.from == clientA)
    }

    @Test("A device without memory notices that a head is missing, because other devices have recorded it")
    func witness() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        try await a.push(adding: "base")
        _ = try await b.pull().value
        let clientB = try await b.push(adding: "from b").client
        try a.write("from a")
        #expect(try await a.push().value.divergedFrom == [clientB])
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let veiled = VeiledBackend(backend)
        await veiled.hide([hierarchy.wholeStores(clientB)])
        let fresh = try fixture.device("fresh", backend: veiled)
        #expect(await code { try await fresh.pull().value } == .rolledBack)
        #expect(!FileManager.default.fileExists(atPath: fresh.store.path))
        #expect(try await fresh.verify().value.problems.map(\.code) == ["rolledBack"])
        // A device whose memory doesn't name the missing head must not remove the upload that records it.
        let behind = try fixture.device("a", backend: veiled)
        try behind.write("more")
        #expect(await code { try await behind.push().value } == .rolledBack)
        // An empty file in place of its manifest isn't an upload.
        let hidden = try #require(
            try await backend.list(hierarchy.wholeStores(clientB))?.first { $0.name.hasPrefix("manifest-") }
        )
        let manifest = try hierarchy.wholeStores(clientB).appending(hidden.name)
        let content = try #require(try await backend.bytes(at: manifest))
        await veiled.showAll()
        try await backend.write([UInt8](), to: manifest, when: .always)
        #expect(await code { try await fresh.pull().value } == .rolledBack)
        #expect(await code { try await behind.push().value } == .rolledBack)
        try await backend.write(content, to: manifest, when: .always)
        #expect(await code { try await fresh.pull().value } == .diverged)
    }

    @Test(
        "F4: verify and status report a missing document, and a document whose info is missing",
        arguments: [true, false]
    )
    func lostDocument(isWhole: Bool) async throws {
        let scene = try await Scene()
        let document = scene.fixture.hierarchy.document(scene.fixture.document)
        let lost = "\(isWhole ? document.root : document.documentInfo)"
        let all = try scene.fixture.files()
        try scene.fixture.restore(all.filter { !$0.key.hasPrefix(lost) })
        if isWhole { try FileManager.default.removeItem(at: scene.fixture.share.appending(path: lost)) }
        let problems = try await scene.a.verify().value.problems
        #expect(problems.contains { $0.code == "documentMissing" && $0.path == "\(document.documentInfo)" })
        let unreadable = try await scene.a.status().value.unreadable
        #expect(unreadable.map(\.code) == [.documentMissing], "\(unreadable)")
        #expect(await code { try await scene.a.push().value } == .documentMissing)
        try scene.fixture.restore(all)
        // Only its empty directories are still missing.
        #expect(try await scene.a.verify().value.problems.allSatisfy { $0.code == "missing" })
        #expect(try await scene.a.status().value.unreadable.isEmpty)
    }
}
