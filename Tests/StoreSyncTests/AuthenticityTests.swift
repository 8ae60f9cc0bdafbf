import Foundation
import Keychain
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Files that are missing, planted or put back deceive no device", .timeLimit(.minutes(60)))
struct AuthenticityTests {
    private static let password = "correct horse battery staple"

    private static func fixture(isSealed: Bool = true) throws -> Fixture {
        try Fixture(password: isSealed ? password : nil)
    }

    private static func files(_ fixture: Fixture, _ suffix: String) throws -> [String] {
        try fixture.files().keys.filter { $0.hasSuffix(suffix) }.sorted()
    }

    // MARK: The document's info

    @Test(
        "F4: A document whose info is missing isn't created again by a device that knows it",
        arguments: [false, true]
    )
    func missingInfo(isSealed: Bool) async throws {
        let fixture = try Self.fixture(isSealed: isSealed)
        let (a, fresh) = (try fixture.device("a"), try fixture.device("fresh"))
        for round in 1...5 {
            try await a.push(adding: "round \(round)")
        }
        let all = try fixture.files()
        let info = try #require(try Self.files(fixture, "documentInfo.plist").first)
        try fixture.put(nil, at: info)
        let before = try fixture.files()
        for device in [a, fresh] {
            if device.name == "fresh" { try device.write("another") } else { try device.write("more") }
            let error = await #expect(throws: StoreSyncError.self) { try await device.push().value }
            #expect(error?.code == .documentMissing && error?.message.contains("documentInfo.plist") == true)
            #expect(await code { try await device.pull(overwrite: true).value } == .documentMissing)
        }
        let after = try fixture.files().filter { !$0.key.contains("/ClientDevices/") }
        #expect(after == before.filter { !$0.key.contains("/ClientDevices/") }, "nothing was created")
        // The device has forgotten nothing either: it notices an older state that is put back with the info.
        try fixture.restore(all.filter { !$0.key.contains("/5-") && !$0.key.contains("manifest-5-") })
        #expect(await code { try await a.pull(overwrite: true).value } == .rolledBack)
        try fixture.restore(all)
        #expect(try await a.push().value.generation == 6)
    }

    @Test("A note on a document's deletion counts only if it's authentic, and for the document that the device knows")
    func tombstones() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        let info = try #require(try Self.files(fixture, "documentInfo.plist").first)
        let sealed = try #require(try fixture.files()[info])
        let document = fixture.hierarchy.document(fixture.document)
        let note = "\(fixture.hierarchy.deletedDocument(fixture.document))"
        try fixture.put(nil, at: info)
        // The storage can copy its files, but a copy of the document's info isn't a note on its deletion.
        for planted in [sealed, Data(), Data("<plist/>".utf8)] {
            try fixture.put(planted, at: note)
            #expect(await code { try await a.push(recreates: true).value } == .documentMissing)
        }
        // An authentic note on a predecessor doesn't apply to its successor.
        let seal = try await a.register().value.seal
        let opened = try seal.open(Array(sealed), as: .documentInfo(fixture.document), at: document.documentInfo)
        var former = try DocumentInfo(opened, at: document.documentInfo)
        former.integrityKey = UUID().uuidString
        try fixture.put(Data(seal.seal(former.xml, as: .deletedDocument(fixture.document))), at: note)
        #expect(await code { try await a.push(recreates: true).value } == .documentMissing)
        // A note that isn't authentic, beside an existing document, causes a warning and has no effect.
        try fixture.put(sealed, at: info)
        try fixture.put(Data("x".utf8), at: note)
        let upload = try await a.push(adding: "two")
        #expect(upload.warnings.contains { $0.contains("isn't authentic") }, "\(upload.warnings)")
        #expect(try await b.pull().value.warnings.contains { $0.contains("isn't authentic") })
        #expect(try await a.verify().value.problems.map(\.path) == [note])
    }

    @Test("A document that was deleted and created again names its predecessors, and these are refused")
    func predecessors() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "first life")
        let first = try fixture.files()
        var lives = [first]
        for life in 2...3 {
            try await fixture.deleteDocument(by: a)
            let store = fixture.folder.appending(path: "life \(life).sqlite")
            try Store.write(["life \(life)"], to: store)
            _ = try await a.push(store, recreates: true).value
            lives.append(try fixture.files())
        }
        // This device has seen only the last document.
        _ = try await b.pull().value
        for life in lives.dropLast() {
            try fixture.restore(life.merging(lives[2].filter { $0.key.contains("/ClientDevices/") }) { $1 })
            #expect(await code { try await b.pull(overwrite: true).value } == .rolledBack)
            #expect(await code { try await b.push().value } == .rolledBack)
            #expect(await code { try await a.push().value } == .rolledBack)
            for device in [a, b] {
                #expect(try await device.verify().value.problems.contains { $0.code == "rolledBack" })
                #expect(try await device.status().value.unreadable.contains { $0.code == .rolledBack })
            }
        }
        #expect(try b.notes() == ["life 3"])
    }

    @Test(
        "A device without memory ignores an authentic note on a former document beside the keys of its successor"
    )
    func formerTombstone() async throws {
        let fixture = try Self.fixture()
        let (a, fresh) = (try fixture.device("a"), try fixture.device("fresh"))
        try await a.push(adding: "first life")
        let note = "\(fixture.hierarchy.deletedDocument(fixture.document))"
        try await fixture.deleteDocument(by: a)
        let former = try #require(try fixture.files()[note])
        let store = fixture.folder.appending(path: "second life.sqlite")
        try Store.write(["second life"], to: store)
        _ = try await a.push(store, recreates: true).value
        let info = try #require(try Self.files(fixture, "documentInfo.plist").first)
        let content = try #require(try fixture.files()[info])
        try fixture.put(nil, at: info)
        try fixture.put(former, at: note)
        try fresh.write("another")
        #expect(await code { try await fresh.push(recreates: true).value } == .documentMissing)
        try fixture.put(nil, at: note)
        try fixture.put(content, at: info)
        _ = try await fresh.pull(overwrite: true).value
        #expect(try fresh.notes() == ["second life"])
    }

    // MARK: Notes on clients

    @Test("A note on this client's removal that isn't authentic causes a warning, in the application and the document")
    func plantedRemovals() async throws {
        let fixture = try Self.fixture()
        let a = try fixture.device("a")
        let client = try await a.push(adding: "one").client
        let document = fixture.hierarchy.document(fixture.document)
        for content in [Data("planted".utf8), Data(count: 5 << 20)] {
            for note in [fixture.hierarchy.deletedClient(client), document.deletedClient(client)] {
                try fixture.put(content, at: "\(note)")
            }
            let upload = try await a.push(adding: "more")
            #expect(upload.client == client)
            #expect(upload.warnings.count(where: { $0.contains("isn't authentic") }) == 2, "\(upload.warnings)")
            #expect(try await !a.verify().value.problems.isEmpty)
        }
    }

    // MARK: Removed clients

    @Test(
        "A client that is removed is deregistered, and its uploads are deleted when another upload includes them",
        arguments: [false, true]
    )
    func removedClient(isSealed: Bool) async throws {
        let fixture = try Self.fixture(isSealed: isSealed)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        let gone = try await b.push(adding: "of b").client
        #expect(try await a.remove(gone).value.client == gone)
        #expect(try await a.status().value.clients.map(\.description) == ["a"])
        #expect(try !Self.files(fixture, "").filter { $0.contains("/WholeStore/\(gone)/") }.isEmpty)
        // Its upload is a head as long as no other upload includes it.
        _ = try await a.pull().value
        #expect(try a.notes() == ["one", "of b"])
        try await a.push(adding: "two")
        #expect(try Self.files(fixture, "").filter { $0.contains("/WholeStore/\(gone)/") }.isEmpty)
        #expect(try await a.verify().value.problems.isEmpty)
        #expect(await code { try await b.push().value } == .deregistered)
        // Removing it again changes nothing.
        _ = try await a.remove(gone).value
        #expect(await code { try await a.remove(RemoteIdentifier("stranger")).value } == .clientNotFound)
    }

    @Test("An upload that a removed client publishes while another device deletes its uploads stays, as a head")
    func removedClientPublishes() async throws {
        let place = InMemoryBackend()
        let fixture = try Fixture(place: place)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        let gone = try await b.push(adding: "of b").client
        _ = try await a.pull().value
        let registration = try await b.registerDocument().value
        _ = try await a.remove(gone).value
        // The client registered before, and its upload appears only after the other device has listed the uploads.
        try b.write("at the last moment")
        _ = try await b.push(to: registration).value
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let uploads = try await PublishedStores.list(DefaultHooks(backend: place), hierarchy).published
        let newest = try #require(uploads.max())
        #expect(newest.client == gone)
        let veiled = VeiledBackend(place)
        await veiled.hide([hierarchy.manifest(newest), hierarchy.upload(newest)])
        let blind = try fixture.device("a", backend: veiled)
        try await blind.push(adding: "two")
        let left = try await PublishedStores.list(DefaultHooks(backend: place), hierarchy).published
        #expect(left.filter { $0.client == gone } == [newest], "the included upload was deleted, and the late one kept")
        let reader = try fixture.device("reader")
        #expect(await code { try await reader.pull().value } == .diverged)
        _ = try await reader.pull(from: gone).value
        #expect(try reader.notes() == ["one", "of b", "at the last moment"])
    }

    @Test("A delta that a removed client has just published keeps the uploads that it builds on")
    func removedClientPublishesDelta() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        var generator = SplitMix64(seed: 1)
        try RowStore.insert(40, into: b.store, &generator)
        let gone = try await b.push().value.client
        _ = try await a.pull().value
        let registration = try await b.registerDocument().value
        _ = try await a.remove(gone).value
        try RowStore.update(1, in: b.store, &generator)
        let upload = try await b.push(to: registration).value
        #expect(upload.storedBytes < upload.bytes / 4, "a delta")
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let hooks = DefaultHooks(backend: fixture.remote)
        let newest = try #require(try await PublishedStores.list(hooks, hierarchy).published.max())
        // The upload appears after the other device has listed the uploads, while that device transfers its own.
        let veiled = VeiledBackend(fixture.remote)
        await veiled.hide([hierarchy.manifest(newest), hierarchy.upload(newest)])
        await veiled.showAllOnWrite()
        let blind = try fixture.device("a", backend: veiled)
        try RowStore.update(1, in: blind.store, &generator)
        _ = try await blind.push().value
        let reader = try fixture.device("reader")
        _ = try await reader.pull(from: gone).value
        #expect(try RowStore.rows(in: reader.store) == RowStore.rows(in: b.store))
    }

    @Test("A note on a removal that was acted upon and is put back has no effect")
    func formerRemoval() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let remover = try await a.push(adding: "one").client
        let client = try await b.pull().value.client
        let directory = fixture.hierarchy.document(fixture.document).deletedClients
        let note = "\(directory)/\(ClientNoteName(on: client, by: remover).fileName)"
        func remove() async throws -> Data {
            _ = try await a.remove(client, from: fixture.document).value
            return try #require(try fixture.files()[note])
        }
        let former = try await remove()
        _ = try await b.pull().value
        #expect(try fixture.files()[note] == nil)
        for _ in 1...2 {
            try fixture.put(former, at: note)
            try b.write("two")
            #expect(try await b.push().value.warnings.contains { $0.contains("put back") })
            #expect(try fixture.files()[note] == nil)
        }
        _ = try await remove()
        try b.write("three")
        #expect(await code { try await b.push().value } == .documentReplaced, "a new removal counts")
    }

    @Test("A device without memory removes no client of an application whose registration is hidden")
    func removalWithoutRegistration() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let client = try await b.pull().value.client
        let admin = try fixture.device("admin")
        let all = try fixture.files()
        let isKey = { (name: String) in name.hasSuffix("salt.ticdsync") || name.hasSuffix("test.ticdsync") }
        for keepsKeys in [true, false] {
            let shown = all.filter { !$0.key.hasSuffix("registration.plist") && (keepsKeys || !isKey($0.key)) }
            #expect(shown.count == all.count - (keepsKeys ? 1 : 3))
            try fixture.restore(shown)
            #expect(await code { try await admin.remove(client).value } == .applicationIncomplete)
            #expect(try fixture.files() == shown)
        }
    }

    @Test("A client that is removed from a document, but not from the application, has to replace its store")
    func removedFromDocument() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let client = try await b.pull().value.client
        _ = try await a.remove(client, from: fixture.document).value
        try b.write("two")
        #expect(await code { try await b.push().value } == .documentReplaced)
        _ = try await b.pull(overwrite: true).value
        try await b.push(adding: "three")
    }

    /// Registers both devices, and removes the first, which has a keychain item; returns its former client.
    private func removed(_ device: Device, by other: Device) async throws -> RemoteIdentifier {
        _ = try await other.register().value
        let client = try await device.register().value.client
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await device.keychain().add(SecretBytes("secret"), as: item)
        _ = try await other.remove(client).value
        #expect(await code { try await device.register().value } == .deregistered)
        return client
    }

    @Test("R4, R15: A removed client that registers again proves the password before its keychain items are deleted")
    func registersAgain() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await removed(b, by: a)
        var refusing = b
        refusing.password = try Password.cheap("not the password")
        let refused = refusing.registration(registersAgain: true)
        #expect(await code { try await b.supervisor.add(refused).value } == .wrongPassword)
        #expect(try await b.items().count == 1, "the password is wrong")
        let again = try await b.supervisor.add(b.registration(registersAgain: true)).value
        #expect(again.client != client)
        #expect(try await b.items().isEmpty)
    }

    @Test(
        "R15: A removed client that registers again in an unencrypted application has no keychain items any more"
    )
    func registersAgainUnencrypted() async throws {
        let fixture = try Self.fixture(isSealed: false)
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await removed(b, by: a)
        #expect(try await b.items().count == 1)
        let again = try await b.supervisor.add(b.registration(registersAgain: true)).value
        #expect(again.client != client)
        #expect(try await b.items().isEmpty)
    }

    @Test("R15: A removed client registers again, also if the secret that opened its keychains was lost")
    func registersAgainWithoutSecret() async throws {
        let fixture = try Self.fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let client = try await removed(b, by: a)
        let state = fixture.folder.appending(path: "b")
        for name in try FileManager.default.contentsOfDirectory(atPath: state.path) where name.hasPrefix("keychain") {
            if name != "keychains" { try FileManager.default.removeItem(at: state.appending(path: name)) }
        }
        let revived = try fixture.device("b")
        let again = try await revived.supervisor.add(revived.registration(registersAgain: true)).value
        #expect(again.client != client)
        #expect(try await revived.items().isEmpty)
        #expect(try await a.status().value.clients.count == 2)
    }

    @Test("The keys of an application at a long path are kept")
    func longPath() async throws {
        let fixture = try Self.fixture()
        let share = (1...6).reduce(fixture.share) { url, _ in url.appending(path: String(repeating: "я", count: 60)) }
        try FileManager.default.createDirectory(at: share, withIntermediateDirectories: true)
        let backend = LocalFolderBackend(root: share)
        let device = try fixture.device("device", backend: backend)
        let registered = try await device.register().value
        #expect(registered.didCreateApplication)
        let silent = device.registration { question in
            Issue.record("asked \(question)")
            return .unencrypted
        }
        #expect(try await device.supervisor.add(silent).value.client == registered.client)
    }

    @Test("R4: A device that is still registered isn't set up again: it keeps its keys, its items and its client")
    func registersAgainWithoutNeed() async throws {
        let fixture = try Self.fixture()
        let device = try fixture.device("device")
        let client = try await device.register().value.client
        let item = KeychainItem(service: "service", account: "account", isSynchronizable: true)
        try await device.keychain().add(SecretBytes("secret"), as: item)
        var refusing = device
        refusing.password = try Password.cheap("not the password")
        let again = try await device.supervisor.add(refusing.registration(registersAgain: true)).value
        #expect(again.client == client)
        #expect(again.warnings.contains { $0.contains("still registered") })
        #expect(try await device.items().count == 1)
        let silent = device.registration { question in
            Issue.record("asked \(question)")
            throw CancellationError()
        }
        #expect(try await device.supervisor.add(silent).value.client == client)
    }
}
