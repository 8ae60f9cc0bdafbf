import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Notes on removed clients", .timeLimit(.minutes(60)))
struct ClientNoteTests {
    @Test("A name has a reading for every hyphen, and one as TICoreDataSync's")
    func names() throws {
        let (a, b) = (try RemoteIdentifier("a"), try RemoteIdentifier("b-c"))
        #expect(ClientNoteName(on: a, by: b).fileName == "a-b-c.plist")
        #expect(ClientNoteName(on: a, by: nil).fileName == "a.plist")
        let readings = ClientNoteName.readings(of: "a-b-c.plist").map { [$0.client.rawValue, $0.remover?.rawValue] }
        #expect(readings == [["a", "b-c"], ["a-b", "c"], ["a-b-c", nil]])
        #expect(ClientNoteName("a-b-c.plist", on: a) == ClientNoteName(on: a, by: b))
        for name in ["a.txt", ".plist", "a-.plist", "-a.plist", "a/b.plist", ".DS_Store"] {
            #expect(ClientNoteName(name, on: a) == nil, "\(name)")
        }
    }

    @Test("Among many names, the content of a note says which client is removed, however its name can be read")
    func manyNames() async throws {
        let backend = InMemoryBackend()
        let hierarchy = ApplicationHierarchy(try RemoteIdentifier("org.example.notes"))
        let notes = ClientNotes(
            subject: .application(hierarchy),
            seal: ApplicationSeal(application: hierarchy.application, key: nil),
            hooks: backend.applicationRegistrationHooks
        )
        let registered = try ["a", "a-b", "a-b-c", "d"].map { try RemoteIdentifier($0) }
        let removed = registered[1]
        for name in ["a-b-c-e.plist"] + (0..<100).map({ "other-\($0)-d.plist" }) {
            let info = DeviceInfo(nothingKnownOf: removed)
            try await backend.write(info.xml, to: hierarchy.deletedClients.appending(name), when: .always)
        }
        let found = try await notes.removed(among: Set(registered))
        #expect(found.clients == [removed])
        // The readings of the same name as notes on `a` and `a-b-c`.
        #expect(found.warnings.count == 2 && found.warnings.allSatisfy { $0.contains("a-b-c-e.plist") })
    }

    /// A device that has pulled what another one has pushed.
    private struct Scene {
        let fixture: Fixture
        let a: Device
        let b: Device
        let client: RemoteIdentifier
        let remover: RemoteIdentifier

        init(isSealed: Bool) async throws {
            fixture = try Fixture(password: isSealed ? "correct horse" : nil)
            (a, b) = (try fixture.device("a"), try fixture.device("b"))
            try a.write("one")
            remover = try await a.push().value.client
            client = try await b.pull().value.client
        }

        var document: DocumentHierarchy { fixture.hierarchy.document(fixture.document) }

        func names(in directory: RemotePath) throws -> Set<String> {
            Set(
                try fixture.files().keys.filter { $0.hasPrefix("\(directory)/") }.compactMap {
                    $0.split(separator: "/").last.map(String.init)
                }
            )
        }
    }

    @Test(
        "H10, H23: A note is named after the client and its remover; an unsealed one has TICoreDataSync's name too",
        arguments: [false, true]
    )
    func savedNames(isSealed: Bool) async throws {
        let scene = try await Scene(isSealed: isSealed)
        let own = "\(scene.client)-\(scene.remover).plist"
        let expected: Set<String> = isSealed ? [own] : [own, "\(scene.client).plist"]
        _ = try await scene.a.remove(scene.client, from: scene.fixture.document).value
        #expect(try scene.names(in: scene.document.deletedClients) == expected)
        // The client acts on the notes, and removes them.
        _ = try await scene.b.pull(overwrite: true).value
        #expect(try scene.names(in: scene.document.deletedClients).isEmpty)
        _ = try await scene.a.remove(scene.client).value
        #expect(try scene.names(in: scene.fixture.hierarchy.deletedClients) == expected)
        #expect(await code { try await scene.b.register().value } == .deregistered)
        // Removing it again, also by another device, keeps the notes as they are and needs no registration.
        let before = try scene.fixture.files()
        _ = try await scene.a.remove(scene.client).value
        #expect(try scene.fixture.files() == before)
        let third = try scene.fixture.device("third")
        _ = try await third.remove(scene.client).value
        #expect(try scene.fixture.files().filter { before[$0.key] != nil } == before)
        #expect(try scene.names(in: scene.fixture.hierarchy.deletedClients).count == expected.count + 1)
        #expect(try await third.listClients().value.clients.map(\.description) == ["a"])
    }

    @Test(
        "H10, H23: TICoreDataSync's notes are read too, whatever they hold where nothing is sealed",
        arguments: [false, true]
    )
    func originalNames(ofDocument: Bool) async throws {
        let scene = try await Scene(isSealed: false)
        let note =
            ofDocument
            ? scene.document.deletedClient(scene.client) : scene.fixture.hierarchy.deletedClient(scene.client)
        try scene.fixture.put(Data("anything".utf8), at: "\(note)")
        try scene.b.write("two")
        #expect(await code { try await scene.b.push().value } == (ofDocument ? .documentReplaced : .deregistered))
        #expect(try scene.fixture.files()["\(note)"] == (ofDocument ? nil : Data("anything".utf8)))
    }

    @Test("H10, H23: A sealed note counts only for the client and the remover in its name")
    func movedNotes() async throws {
        let scene = try await Scene(isSealed: true)
        let third = try await scene.fixture.device("third").register().value.client
        _ = try await scene.a.remove(third).value
        let directory = scene.fixture.hierarchy.deletedClients
        let note = try #require(try scene.fixture.files()["\(directory)/\(third)-\(scene.remover).plist"])
        for name in [
            "\(scene.client)-\(scene.remover).plist", "\(scene.client).plist", "\(scene.client)-\(third).plist",
        ] {
            try scene.fixture.put(note, at: "\(directory)/\(name)")
            let registration = try await scene.b.register().value
            #expect(registration.warnings.count == 1 && registration.warnings[0].contains("isn't authentic"))
            #expect(try await scene.a.verify().value.problems.map(\.path) == ["\(directory)/\(name)"])
            try scene.fixture.put(nil, at: "\(directory)/\(name)")
        }
        // A planted note makes no client known.
        let stranger = try RemoteIdentifier("stranger")
        try scene.fixture.put(note, at: "\(directory)/\(stranger).plist")
        #expect(await code { try await scene.a.remove(stranger).value } == .clientNotFound)
    }

    @Test(
        "H11: A removed client's times are removed; its uploads and keychain file once another client's include them"
    )
    func files() async throws {
        let scene = try await Scene(isSealed: true)
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await scene.b.keychain().add(SecretBytes("secret"), as: item)
        #expect(try await scene.b.synchronizeKeychain().value.hasPublished)
        try await scene.b.push(adding: "two")
        func files() throws -> [String] {
            try scene.fixture.files().keys.filter {
                $0.contains(scene.client.rawValue) && !$0.contains("/DeletedClients/")
            }
        }
        #expect(try files().contains { $0.contains("/Keychain/") } && files().contains { $0.contains("/RecentSyncs/") })
        _ = try await scene.a.remove(scene.client).value
        #expect(try Set(files().map { $0.contains("/WholeStore/") || $0.contains("/Keychain/") }) == [true])
        // No other device had read the item: its only copy is in the removed client's file.
        #expect(try files().contains { $0.contains("/Keychain/") })
        #expect(try await scene.a.items().isEmpty)
        #expect(try await scene.a.synchronizeKeychain().value.warnings.isEmpty)
        #expect(try await scene.a.items() == ["account": "secret"])
        #expect(try files().allSatisfy { $0.contains("/WholeStore/") } && !files().isEmpty)
        let third = try scene.fixture.device("third")
        _ = try await third.synchronizeKeychain().value
        #expect(try await third.items() == ["account": "secret"])
        _ = try await scene.a.pull().value
        try await scene.a.push(adding: "three")
        #expect(try files().isEmpty)
        let report = try await scene.a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(report)")
    }

    @Test("A client that isn't registered with a document isn't removed from it")
    func unknown() async throws {
        let scene = try await Scene(isSealed: false)
        let idle = try await scene.fixture.device("idle").register().value.client
        let document = scene.fixture.document
        #expect(await code { try await scene.a.remove(idle, from: document).value } == .clientNotFound)
        #expect(
            await code { try await scene.a.remove(scene.client, from: RemoteIdentifier("other")).value }
                == .documentNotFound
        )
        #expect(await code { try await scene.a.remove(scene.remover, from: document).value } == .invalidIdentifier)
        // A client that was removed and left sets of changes isn't listed.
        let changes = scene.document.syncChanges(scene.client)
        try scene.fixture.put(Data([1]), at: "\(changes)/1-\(UUID().uuidString).syncchg")
        _ = try await scene.a.remove(scene.client, from: document).value
        #expect(try await scene.a.listClients(of: document).value.clients.map(\.client) == [scene.remover])
    }

    @Test("A removed client isn't listed, although its directories stay in the documents", arguments: [false, true])
    func listed(fromDocument: Bool) async throws {
        let scene = try await Scene(isSealed: true)
        let document = scene.fixture.document
        let before = try await scene.a.listDocuments().value.documents.map { Set($0.clients) }
        #expect(before == [[scene.client, scene.remover]])
        _ = try await scene.a.remove(scene.client, from: fromDocument ? document : nil).value
        let directories = try await scene.fixture.remote.list(scene.document.syncChanges) ?? []
        #expect(directories.map(\.name).contains(scene.client.rawValue))
        #expect(try await scene.a.listDocuments().value.documents.map(\.clients) == [[scene.remover]])
        #expect(try await scene.a.listClients(of: document).value.clients.map(\.client) == [scene.remover])
        let clients = try await scene.a.listClients().value.clients
        #expect(Set(clients.map(\.client)) == (fromDocument ? [scene.client, scene.remover] : [scene.remover]))
        #expect(clients.allSatisfy { $0.client != scene.client || $0.documents.isEmpty })
        // It can be removed once more: the first removal may have been interrupted.
        _ = try await scene.a.remove(scene.client, from: fromDocument ? document : nil).value
    }

    @Test("A client removed from the application removes nothing and changes no password until it registers again")
    func removedClient() async throws {
        let scene = try await Scene(isSealed: true)
        let b = scene.b
        _ = try await scene.a.remove(scene.client).value
        let before = try scene.fixture.files()
        let change = PasswordChangeOperation(
            to: try Password.cheap("another one"),
            of: scene.fixture.application,
            parameters: .interactive,
            backend: b.backend,
            state: b.state
        )
        #expect(await code { try await b.supervisor.add(change).value } == .deregistered)
        #expect(await code { try await b.remove(scene.remover).value } == .deregistered)
        #expect(await code { try await b.remove(scene.remover, from: b.document).value } == .deregistered)
        #expect(await code { try await b.removeDocument().value } == .deregistered)
        #expect(await code { try await b.removeApplication().value } == .deregistered)
        #expect(try scene.fixture.files() == before)
        _ = try await b.supervisor.add(b.registration(registersAgain: true)).value
        _ = try await b.remove(scene.remover, from: b.document).value
    }
}
