import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Removing a document", .timeLimit(.minutes(60)))
struct DocumentRemovalTests {
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device

        init(isSealed: Bool = true) async throws {
            fixture = try Fixture(password: isSealed ? "correct horse" : nil)
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            try await a.push(adding: "one")
            _ = try await b.pull().value
        }

        var document: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }
        var note: String { "\(fixture.hierarchy.deletedDocument(fixture.document))" }

        func left() throws -> [String] { try fixture.files().keys.filter { $0.hasPrefix("\(document.root)/") } }
    }

    @Test("A document is moved back to where its clients have written meanwhile, and that can be repeated")
    func movedBack() async throws {
        let scene = try await Scene()
        let hooks = scene.a.backend.documentRemovalHooks
        let aside = scene.fixture.hierarchy.documentAside(scene.fixture.document, UUID())
        var expected = try scene.fixture.files()
        try await hooks.moveDocumentAside(scene.document, to: aside)
        #expect(try scene.left().isEmpty)
        // A device that is pushing doesn't notice the move.
        let client = try await scene.b.register().value.client
        let late = "\(scene.document.wholeStores(client))/late"
        expected[late] = Data([7])
        try scene.fixture.put(Data([7]), at: late)
        for _ in 0..<2 {
            try await hooks.moveDocumentBack(aside, to: scene.document)
            #expect(try scene.fixture.files() == expected)
            #expect(try await scene.a.backend.status(of: aside.root) == nil)
        }
    }

    @Test(
        "H21, H22: The note of the deletion comes first and the info last; a device that knew the document is told",
        arguments: [false, true]
    )
    func order(isSealed: Bool) async throws {
        let scene = try await Scene(isSealed: isSealed)
        let connection = DyingBackend(scene.a.backend)
        await connection.die(nil)
        let device = try scene.fixture.device("a", backend: connection)
        #expect(try await device.removeDocument().value.warnings.isEmpty)
        let changes = await connection.requests.filter(\.isChange).map(\.name)
        #expect(changes.first == "write of \(scene.note)")
        let aside = try #require(changes.last?.split(separator: " ").last)
        #expect(aside.hasPrefix("\(scene.fixture.hierarchy.deletedDocuments)/\(scene.fixture.document)."), "\(changes)")
        #expect(changes.suffix(2) == ["move to \(aside)", "removal of \(aside)"])
        let content = changes.dropFirst().dropLast(2)
        #expect(content.allSatisfy { $0.hasPrefix("removal of \(scene.document.root)/") }, "\(changes)")
        #expect(!content.contains("removal of \(scene.document.documentInfo)"), "\(changes)")
        let manifest = try #require(content.firstIndex { $0.contains("/manifest-") })
        let folder = try #require(content.firstIndex { $0.contains("/WholeStore/") && $0.contains("/1-") })
        #expect(manifest < folder, "no reader sees a manifest without its files")
        #expect(try scene.left().isEmpty)
        let note = try #require(try scene.fixture.files()[scene.note])
        let isPlain = (try? DocumentInfo(Array(note), at: .root)) != nil
        #expect(isPlain != isSealed)

        #expect(await code { try await scene.b.pull().value } == .documentDeleted)
        await #expect(throws: CancellationError.self) { try await scene.b.push().value }
        #expect(try scene.b.notes() == ["one"], "local stores stay")
        #expect(try await scene.b.status().value.unreadable.isEmpty)
        let report = try await scene.b.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
        // Removing it again changes nothing.
        let before = try scene.fixture.files()
        _ = try await scene.b.removeDocument().value
        #expect(try scene.fixture.files() == before)
    }

    @Test("H22: A document that is being removed counts as deleted, and isn't created again before that is complete")
    func interrupted() async throws {
        let scene = try await Scene()
        let dying = DyingBackend(scene.a.backend)
        // Dies after the note was written.
        let counting = try scene.fixture.device("a", backend: dying)
        await dying.die(nil)
        let files = try scene.fixture.files()
        _ = try await counting.removeDocument().value
        let note = try #require(await dying.requests.firstIndex { $0.isChange })
        try scene.fixture.restore(files)
        for path in scene.document.directories { try await scene.fixture.remote.createDirectory(at: path) }
        await dying.die(DyingBackend.Death(request: note, isAfter: true))
        #expect(await code { try await counting.removeDocument().value } == .remoteUnavailable)

        let before = try scene.fixture.files()
        for recreates in [false, true] {
            #expect(await code { try await scene.b.push(recreates: recreates).value } == .documentDeleted)
        }
        #expect(await code { try await scene.b.pull().value } == .documentDeleted)
        #expect(try scene.fixture.files() == before)
        let list = try await scene.b.listDocuments().value
        #expect(list.documents.isEmpty && list.unreadable.map(\.code) == [.documentDeleted], "\(list)")
        #expect(list.unreadable.allSatisfy { $0.message.contains("remove document notes") })
        #expect(try await scene.b.status().value.unreadable.map(\.code) == [.documentDeleted])
        #expect(await code { try await scene.b.listClients(of: scene.fixture.document).value } == .documentDeleted)
        // Any device completes it.
        _ = try await scene.b.removeDocument().value
        #expect(try scene.left().isEmpty)
        #expect(try await scene.b.push(recreates: true).value.generation > 0)
        _ = try await scene.a.pull(overwrite: true).value
    }

    @Test("What a device pushed during a document's removal is removed by the next run, and in no successor")
    func leftovers() async throws {
        let scene = try await Scene()
        let files = try scene.fixture.files()
        _ = try await scene.a.removeDocument().value
        let late = files.filter { $0.key.contains("/WholeStore/") || $0.key.contains("/RecentSyncs/") }
        for (name, bytes) in late { try scene.fixture.put(bytes, at: name) }
        // Before the question whether to create it again, and in place of the advice to do so.
        for recreates in [false, true] {
            let push = scene.a.push(recreates: recreates)
            let error = await #expect(throws: StoreSyncError.self) { try await push.value }
            #expect(error?.code == .documentDeleted && error?.message.contains("remove document notes") == true)
        }
        let pull = await #expect(throws: StoreSyncError.self) { try await scene.a.pull().value }
        #expect(pull?.message.contains("remove document notes") == true)
        #expect(try await scene.a.status().value.unreadable.map(\.code) == [.documentDeleted])
        _ = try await scene.b.removeDocument().value
        #expect(try scene.left().isEmpty)
        _ = try await scene.a.push(recreates: true).value
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test("H22: A planted note removes nothing, and hides no document")
    func planted() async throws {
        let scene = try await Scene()
        let info = try #require(try scene.fixture.files()["\(scene.document.documentInfo)"])
        for planted in [info, Data(), Data("<plist/>".utf8)] {
            try scene.fixture.put(planted, at: scene.note)
            #expect(try await scene.b.listDocuments().value.documents.map(\.document) == [scene.fixture.document])
            _ = try await scene.b.pull().value
        }
        // A note on a former document of the name says nothing of its successor.
        try scene.fixture.put(nil, at: scene.note)
        _ = try await scene.a.removeDocument().value
        let note = try #require(try scene.fixture.files()[scene.note])
        _ = try await scene.a.push(recreates: true).value
        try scene.fixture.put(note, at: scene.note)
        #expect(try await scene.b.listDocuments().value.documents.map(\.document) == [scene.fixture.document])
        _ = try await scene.b.pull(overwrite: true).value
        // Removing the successor replaces the note.
        _ = try await scene.b.removeDocument().value
        #expect(try scene.left().isEmpty && scene.fixture.files()[scene.note] != note)
        #expect(await code { try await scene.a.pull().value } == .documentDeleted)
    }

    @Test("A document that doesn't exist, that is damaged, or that was put back isn't removed")
    func refused() async throws {
        let scene = try await Scene()
        let other = try RemoteIdentifier("other")
        let missing = DocumentRemovalOperation(of: other, scene.a.access)
        #expect(await code { try await scene.a.supervisor.add(missing).value } == .documentNotFound)
        let all = try scene.fixture.files()
        let info = "\(scene.document.documentInfo)"
        try scene.fixture.put(Data("planted".utf8), at: info)
        let before = try scene.fixture.files()
        #expect(await code { try await scene.a.removeDocument().value } == .tampered)
        #expect(try scene.fixture.files() == before)
        try scene.fixture.restore(all)
        // A former document is put back.
        _ = try await scene.a.removeDocument().value
        _ = try await scene.a.push(recreates: true).value
        try scene.fixture.restore(all)
        #expect(await code { try await scene.a.removeDocument().value } == .rolledBack)
        #expect(try scene.fixture.files() == all)
    }

    @Test(
        "H22: A document whose info is lost is removed by a device that knows it, also if nothing else is left",
        arguments: [false, true]
    )
    func lost(isSealed: Bool) async throws {
        for isWhole in [true, false] {
            let scene = try await Scene(isSealed: isSealed)
            if isWhole {
                try scene.fixture.put(nil, at: "\(scene.document.documentInfo)")
            } else {
                try await scene.fixture.remote.remove(scene.document.root)
            }
            let error = await #expect(throws: StoreSyncError.self) { try await scene.a.pull().value }
            #expect(error?.code == .documentMissing)
            #expect(error?.message.contains("storesync remove document notes") == true, "\(error as Any)")
            _ = try await scene.a.removeDocument().value
            #expect(try scene.left().isEmpty)
            #expect(await code { try await scene.b.pull().value } == .documentDeleted)
            _ = try await scene.a.push(recreates: true).value
            _ = try await scene.b.pull(overwrite: true).value
        }
    }

    @Test("H22: A new document that was moved away by a removal whose device died is moved back by the next removal")
    func movedAway() async throws {
        let scene = try await Scene()
        _ = try await scene.a.removeDocument().value
        let c = try scene.fixture.device("c")
        try c.write("new")
        _ = try await c.push(recreates: true).value
        let files = try scene.fixture.files()
        let aside = scene.fixture.hierarchy.documentAside(scene.fixture.document, UUID())
        try await scene.fixture.remote.move(scene.document.root, to: aside.root)
        #expect(try await !scene.b.removeDocument().value.warnings.isEmpty)
        #expect(try scene.fixture.files().filter { $0.key != scene.note } == files)
        try await c.push(adding: "newer")
        _ = try await scene.b.pull(overwrite: true).value
        #expect(try scene.b.notes() == ["new", "newer"])
        // A document that was deleted isn't.
        try await scene.fixture.remote.move(scene.document.root, to: aside.root)
        _ = try await c.removeDocument().value
        #expect(try scene.fixture.files().keys.filter { $0.contains("/DeletedDocuments/") } == [scene.note])
    }

    @Test("H22: A document whose move arrives twice, so that the storage refuses the second request, is removed")
    func repeatedMove() async throws {
        let scene = try await Scene()
        let device = try scene.fixture.device("a", backend: RepeatingBackend(scene.a.backend))
        #expect(try await device.removeDocument().value.warnings.isEmpty)
        #expect(try scene.left().isEmpty)
        #expect(try scene.fixture.files().keys.filter { $0.contains("/DeletedDocuments/") } == [scene.note])
        #expect(await code { try await scene.b.pull().value } == .documentDeleted)
    }

    @Test("H8, H22: A document of TICoreDataSync is removed too")
    func original() async throws {
        let scene = try await Scene(isSealed: false)
        let path = scene.document.documentInfo
        var info = try DocumentInfo(Array(try #require(try scene.fixture.files()["\(path)"])), at: path)
        info.integrityKey = nil
        try scene.fixture.put(Data(info.xml), at: "\(path)")
        let old = try scene.fixture.device("old")
        #expect(try await old.listDocuments().value.documents.map(\.originalDeviceDescription) == ["a"])
        _ = try await old.removeDocument().value
        #expect(try scene.left().isEmpty)
        #expect(await code { try await scene.b.pull().value } == .documentDeleted)
    }
}
