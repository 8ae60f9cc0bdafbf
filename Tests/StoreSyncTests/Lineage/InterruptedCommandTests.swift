import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A command that dies before it records what it did", .timeLimit(.minutes(60)))
struct InterruptedCommandTests {
    @Test("D16: After an interrupted pull of another head and an edit, an upload includes only what the store holds")
    func pull() async throws {
        let scene = try await TwoHeads()
        try await scene.a.push(adding: "from a")
        let dying = try scene.dying(before: "pull")
        #expect(await code { try await dying.pull(from: scene.clientB).value } == .remoteUnavailable)
        #expect(try scene.a.notes() == ["base", "from b"], "the device died after the store was replaced")
        try scene.a.write("after")
        #expect(try await !scene.a.push().value.divergedFrom.isEmpty)
        #expect(try await scene.inHeads() == ["base", "from a", "from b", "after"])
    }

    @Test("D16: After an interrupted pull of an older generation and an edit, the newer generation stays a head")
    func olderGeneration() async throws {
        let scene = try await TwoHeads()
        _ = try await scene.a.pull().value
        let client = try await scene.a.push(adding: "newest").client
        let dying = try scene.dying(before: "pull")
        #expect(await code { try await dying.pull(from: client, generation: 1).value } == .remoteUnavailable)
        #expect(try scene.a.notes() == ["base"])
        try await scene.a.push(adding: "after")
        #expect(try await scene.inHeads() == ["base", "from b", "newest", "after"])
    }

    @Test(
        "D16: An upload that was published but not recorded isn't part of a store that was replaced since",
        arguments: ["edited", "unchanged"]
    )
    func pushAndPull(then: String) async throws {
        let scene = try await TwoHeads()
        try scene.a.write("from a")
        // The upload is published, and not recorded.
        let pushing = try scene.dying(before: "push")
        #expect(await code { try await pushing.push().value } == .remoteUnavailable)
        let pulling = try scene.dying(before: "pull")
        _ = await code { try await pulling.pull(from: scene.clientB).value }
        #expect(try scene.a.notes() == ["base", "from b"])
        if then == "edited" { try scene.a.write("after") }
        _ = try await scene.a.push().value
        #expect(try await scene.inHeads().isSuperset(of: ["base", "from a", "from b"]))
    }

    @Test("D16: An upload under this device's name with the content of a copy of the device belongs to the copy")
    func copyOfThisDevice() async throws {
        let scene = try await TwoHeads()
        _ = try await scene.a.pull().value
        try scene.a.write("of the device")
        // All files are uploaded, but the manifest isn't. The copy of this device continues under the same upload name.
        let dying = try scene.fixture.device("a", backend: scene.backend) { moment in
            guard moment == "after upload" else { return }
            throw RemoteError(.unavailable, "The device is dead.")
        }
        #expect(await code { try await dying.push().value } == .remoteUnavailable)
        let begun = try #require(try scene.a.state.uploads(for: scene.a.documentKey).last { !$0.isPublished })
        let hierarchy = scene.fixture.hierarchy.document(scene.fixture.document)
        let copy = try scene.fixture.device("copy", backend: scene.backend)
        _ = try await copy.pull(from: scene.clientB).value
        try await copy.push(adding: "of the copy")
        let published = try await PublishedStores.list(DefaultHooks(backend: scene.backend), hierarchy)
        let newest = try #require(published.published.max())
        let bytes = try #require(try await scene.backend.bytes(at: hierarchy.manifest(newest)))
        let manifest = try StoreManifest(bytes, named: newest, at: hierarchy.manifest(newest))
        var renamed = StoreManifest(
            name: begun.name,
            created: manifest.created,
            files: manifest.files,
            includes: manifest.includes.filter { $0 < begun.name }
        )
        renamed.otherHeads = []
        try await scene.backend.remove(hierarchy.upload(begun.name))
        for file in WholeStoreFile.allCases {
            let content = try #require(try await scene.backend.bytes(at: file.path(in: hierarchy.upload(newest))))
            try await scene.backend.write(content, to: file.path(in: hierarchy.upload(begun.name)), when: .always)
        }
        try await scene.backend.remove(hierarchy.manifest(newest))
        try await scene.backend.write(renamed.xml, to: hierarchy.manifest(begun.name), when: .ifAbsent)

        let upload = try await scene.a.push().value
        #expect(upload.client != begun.name.client, "it continues as another client")
        #expect(upload.divergedFrom == [begun.name.client])
        #expect(try await scene.inHeads() == ["base", "from b", "of the device", "of the copy"])
    }
}

extension TwoHeads {
    /// Returns the notes that a new device finds in all heads.
    fileprivate func inHeads() async throws -> Set<String> {
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let published = try await PublishedStores.list(DefaultHooks(backend: backend), hierarchy)
        var manifests: [StoreManifest] = []
        for name in published.published {
            let bytes = try #require(try await backend.bytes(at: hierarchy.manifest(name)))
            manifests.append(try StoreManifest(bytes, named: name, at: hierarchy.manifest(name)))
        }
        var notes: Set<String> = []
        for head in Lineage.heads(of: manifests) {
            let reader = try fixture.device("reader of \(head.name)", backend: backend)
            _ = try await reader.pull(from: head.name.client, generation: head.name.generation).value
            notes.formUnion(try reader.notes())
        }
        return notes
    }
}
