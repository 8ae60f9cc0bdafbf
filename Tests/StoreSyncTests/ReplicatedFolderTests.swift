import Foundation
import Operations
import RemoteStorage
import StoreChanges
import Testing

@testable import StoreSync

@Suite("A folder that a service replicates file by file, without empty directories", .timeLimit(.minutes(60)))
struct ReplicatedFolderTests {
    private static func folder(isSealed: Bool) throws -> ReplicatedFolder {
        ReplicatedFolder(try Fixture(password: isSealed ? "correct horse" : nil))
    }

    private static func createNotes(_ titles: String..., on device: Device) throws {
        try device.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, bytes BLOB)")
        for title in titles { try device.insert(title) }
    }

    /// Synchronizes a device's store, or pushes it.
    private static func send(_ device: Device, _ synchronizes: Bool) async throws {
        if synchronizes { _ = try await device.synchronize().value } else { _ = try await device.push().value }
    }

    private static func titles(_ device: Device) throws -> Set<String> {
        try Set(device.query("SELECT title FROM note"))
    }

    private static func client(_ device: Device) throws -> String {
        try #require(try device.state.peekClientIdentifier(for: device.key))
    }

    // MARK: Arriving documents

    @Test(
        "A document of which any one file has arrived isn't created a second time",
        arguments: [false, true],
        [false, true]
    )
    func partlyArrived(isSealed: Bool, synchronizes: Bool) async throws {
        let folder = try Self.folder(isSealed: isSealed)
        let a = try folder.device("a")
        try Self.createNotes("one", on: a)
        try await Self.send(a, synchronizes)
        // So large that a file of its own has it.
        try a.insert("large", bytes: 100_000)
        try await Self.send(a, synchronizes)
        let note = ClientNoteName(on: try RemoteIdentifier("other"), by: try RemoteIdentifier(Self.client(a)))
        try folder.put(Data("note".utf8), at: "\(folder.document)DeletedClients/\(note.fileName)", of: "a")
        let files = try folder.files("a")
        let arriving = files.keys.filter { $0.hasPrefix(folder.document) && !$0.hasSuffix("/documentInfo.plist") }
        let kinds = ["IntegrityKey/", "DeletedClients/", "RecentSyncs/", "WholeStore/"]
        for kind in kinds + (synchronizes ? ["SyncChanges/origin", ".syncchg"] : ["manifest-"]) {
            #expect(arriving.contains { $0.contains(kind) }, "\(kind)")
        }
        for (number, path) in arriving.sorted().enumerated() {
            let name = "late \(number)"
            let late = try folder.device(name)
            try folder.carry(from: "a", to: name) { !$0.hasPrefix(folder.document) || $0 == path }
            #expect(await code { try await late.registerDocument().value } == .documentMissing, "\(path)")
            #expect(
                await code { try await late.registerDocument(mayCreate: false).value } == .documentMissing,
                "\(path)"
            )
            #expect(try folder.files(name)["\(folder.document)documentInfo.plist"] == nil, "\(path)")
            // The rest arrives.
            try folder.carry(from: "a", to: name)
            #expect(try await !late.registerDocument().value.didCreateDocument, "\(path)")
        }
    }

    @Test("Files of a sync service, of the system and of others don't keep a document from being created")
    func strangers() async throws {
        let folder = try Self.folder(isSealed: true)
        let a = try folder.device("a")
        _ = try await a.register().value
        let strangers = [
            "desktop.ini", "documentInfo (conflicted copy).plist", "IntegrityKey/desktop.ini", "RecentSyncs/.DS_Store",
            "RecentSyncs/.syncthing.laptop.recentsync.tmp", "SyncChanges/~origin.plist",
            "WholeStore/laptop/.manifest.plist.part", "TemporaryFiles/WholeStore/WholeStore.ticdsync",
        ]
        for name in strangers { try folder.put(Data("stranger".utf8), at: folder.document + name, of: "a") }
        #expect(try await a.registerDocument().value.didCreateDocument)
        let report = try await a.verify().value
        #expect(report.problems.isEmpty, "\(report)")
        #expect(report.warnings.contains { $0.contains("IntegrityKey/desktop.ini") }, "\(report)")
    }

    @Test("A document that another device creates between any two requests is joined")
    func createdMeanwhile() async throws {
        for number in 0..<24 {
            let place = InMemoryBackend()
            let fixture = try Fixture(password: "correct horse", place: place)
            let a = try fixture.device("a")
            _ = try await a.register().value
            let connection = DyingBackend(place)
            let b = try fixture.device("b", backend: connection)
            _ = try await b.register().value
            await connection.meet(atRequest: number) { _ = try? await a.registerDocument().value }
            let joined = try await b.registerDocument().value
            let other = try await a.registerDocument().value
            #expect(joined.integrityKey == other.integrityKey, "request \(number)")
        }
    }

    @Test("A sealed integrity key's file is written only by the document's creator, since it may still be arriving")
    func lateIntegrityKey() async throws {
        for isSealed in [false, true] {
            let folder = try Self.folder(isSealed: isSealed)
            let (a, b) = (try folder.device("a"), try folder.device("b"))
            let key = try await a.registerDocument().value.integrityKey
            let path = "\(folder.document)IntegrityKey/\(key)"
            let file = try #require(try folder.files("a")[path])
            try folder.carry(from: "a", to: "b") { $0 != path }
            _ = try await b.registerDocument().value
            // Where nothing is sealed, the bytes are the same.
            #expect(try folder.files("b")[path] == (isSealed ? nil : file))
            try folder.put(nil, at: path, of: "a")
            _ = try await a.registerDocument().value
            #expect(try folder.files("a")[path] != nil)
            #expect(try await a.verify().value.problems.isEmpty)
        }
    }

    // MARK: Clients

    @Test(
        "A client is listed and can be removed by any one kind of its files",
        arguments: ["RecentSyncs/CLIENT.recentsync", "RecentSyncs/CLIENT-", "WholeStore/CLIENT/"],
        [false, true]
    )
    func clientWithoutDirectory(kind: String, isSealed: Bool) async throws {
        let folder = try Self.folder(isSealed: isSealed)
        let (a, b) = (try folder.device("a"), try folder.device("b"))
        let (document, synchronizes) = (folder.fixture.document, kind.hasSuffix("-"))
        try Self.createNotes("one", on: a)
        try await Self.send(a, synchronizes)
        try folder.carry(from: "a", to: "b")
        if !synchronizes {
            _ = try await b.pull().value
            try b.insert("of b")
        }
        try await Self.send(b, synchronizes)
        let client = try RemoteIdentifier(Self.client(b))
        let wanted = folder.document + kind.replacing("CLIENT", with: client.rawValue)
        try folder.carry(from: "b", to: "a") { !$0.hasPrefix(folder.document) || $0.hasPrefix(wanted) }
        let clients = try await a.listClients(of: document).value.clients.map(\.client)
        #expect(clients.contains(client) && clients.count == 2)
        #expect(try await a.status().value.clients.first { $0.client == client }?.documents == [document])
        _ = try await a.remove(client, from: document).value
        #expect(try await a.listClients(of: document).value.clients.map(\.client) == clients.filter { $0 != client })
    }

    @Test("A client that has joined a recreated document gets no note if its empty directory wasn't carried")
    func joinedRecreatedDocument() async throws {
        let folder = try Self.folder(isSealed: true)
        let (a, b, c) = (try folder.device("a"), try folder.device("b"), try folder.device("c"))
        try await a.push(adding: "former")
        try folder.mirror(from: "a", to: "c")
        _ = try await c.register().value
        try folder.mirror(from: "c", to: "b")
        _ = try await b.pull().value
        try folder.mirror(from: "b", to: "a")
        _ = try await a.removeDocument().value
        let note = try #require(try folder.files("a").first { $0.key.contains("/DeletedDocuments/") })
        let store = folder.fixture.folder.appending(path: "second.sqlite")
        try Store.write(["second"], to: store)
        _ = try await a.push(store, recreates: true).value
        try folder.mirror(from: "a", to: "b")
        _ = try await b.pull(overwrite: true).value
        try folder.mirror(from: "b", to: "c")
        // The removal of the note on the former document is late.
        try folder.put(note.value, at: note.key, of: "c")
        _ = try await c.registerDocument().value
        let notes = try folder.files("c").keys.filter { $0.hasPrefix("\(folder.document)DeletedClients/") }
        let client = try Self.client(b)
        #expect(!notes.contains { $0.contains("/\(client)") }, "\(notes)")
    }

    // MARK: Two founders

    @Test(
        "Two devices that created a document at once: the message's remedies keep all rows",
        arguments: [false, true]
    )
    func twoDocuments(restoresCopy: Bool) async throws {
        let folder = try Self.folder(isSealed: true)
        let (a, b) = (try folder.device("a"), try folder.device("b"))
        _ = try await a.register().value
        try folder.carry(from: "a", to: "b")
        _ = try await b.register().value
        try folder.carry(from: "b", to: "a")
        for device in [a, b] {
            try Self.createNotes("of \(device.name)", on: device)
            _ = try await device.synchronize().value
            try device.insert("later of \(device.name)")
            _ = try await device.synchronize().value
        }
        let (info, origin) = ("\(folder.document)documentInfo.plist", "\(folder.document)SyncChanges/origin.plist")
        let own = try #require(try folder.files("b")[info])
        try folder.carry(from: "a", to: "b")
        try folder.carry(from: "b", to: "a")
        _ = try await a.synchronize().value
        let error = await #expect(throws: StoreSyncError.self) { try await b.synchronize().value }
        #expect(error?.code == .rolledBack)
        for part in ["two devices created it", "(conflicted copy).plist”", "--state", "--take both"] {
            #expect(error?.message.contains(part) == true, "\(part): \(String(describing: error))")
        }
        if restoresCopy {
            for name in ["a", "b"] { try folder.put(own, at: info, of: name) }
            // The origin is still the other document's.
            #expect(await code { try await b.synchronize().value } == .tampered)
            for name in ["a", "b"] { try folder.put(nil, at: origin, of: name) }
            _ = try await b.synchronize().value
            #expect(try Self.titles(b) == ["of b", "later of b"])
            #expect(await code { try await a.synchronize().value } == .rolledBack)
            return
        }
        let again = try folder.fixture.device("b again", backend: b.backend).with(store: b.store)
        #expect(await code { try await again.synchronize().value } == .unrelatedStore)
        _ = try await again.synchronize(SynchronizationRequest(url: b.store, takenSide: .both)).value
        try folder.carry(from: "b", to: "a")
        _ = try await a.synchronize().value
        for device in [a, b] {
            #expect(try Self.titles(device) == ["of a", "of b", "later of a", "later of b"], "\(device.name)")
        }
    }

    @Test("A document of another application that was created at once is moved away as a whole, as the message says")
    func twoApplications() async throws {
        let folder = try Self.folder(isSealed: true)
        let (a, c) = (try folder.device("a"), try folder.device("c"))
        try Self.createNotes("of a", on: a)
        _ = try await a.synchronize().value
        _ = try await c.register().value
        try folder.carry(from: "c", to: "a")
        try folder.carry(from: "a", to: "c")
        #expect(await code { try await a.synchronize().value } == .deregistered)
        _ = try await a.supervisor.add(a.registration(registersAgain: true)).value
        for device in [a, c] {
            let error = await #expect(throws: StoreSyncError.self) { try await device.registerDocument().value }
            #expect(error?.code == .orphan)
            let advice = "move the folder \(folder.document.dropLast()) as a whole out of the application's folder"
            #expect(error?.message.contains(advice) == true, "\(String(describing: error))")
        }
        for name in ["a", "c"] { try folder.moveDocumentAway(of: name) }
        // This device's store belongs to the document that was moved away, as the error says.
        #expect(await code { try await a.synchronize().value } == .documentReplaced)
        let copy = a.with(store: folder.fixture.folder.appending(path: "copy.sqlite"))
        try FileManager.default.copyItem(at: a.store, to: copy.store)
        _ = try await copy.synchronize().value
        #expect(try Self.titles(copy) == ["of a"])
    }

    // MARK: The origin

    @Test(
        "A device that has synchronized writes the missing origin again, with the same bytes",
        arguments: [false, true]
    )
    func missingOrigin(isSealed: Bool) async throws {
        let folder = try Self.folder(isSealed: isSealed)
        let (a, b) = (try folder.device("a"), try folder.device("b"))
        try Self.createNotes("one", on: a)
        _ = try await a.synchronize().value
        try folder.carry(from: "a", to: "b")
        _ = try await b.synchronize().value
        let path = "\(folder.document)SyncChanges/origin.plist"
        let bytes = try #require(try folder.files("a")[path])
        for device in [a, b] {
            try folder.put(nil, at: path, of: device.name)
            try device.insert("of \(device.name)")
            let result = try await device.synchronize().value
            #expect(result.publishedChanges == 1)
            #expect(result.warnings.contains { $0.contains("origin.plist was missing") }, "\(result.warnings)")
            #expect(try folder.files(device.name)[path] == bytes)
            #expect(try await device.synchronize().value.warnings.isEmpty)
        }
        // A device that has not synchronized since an update of this program doesn't remember the file.
        var memory = try #require(try a.synchronizationMemory())
        memory.originFile = nil
        try a.setSynchronizationMemory(memory)
        try folder.put(nil, at: path, of: "a")
        #expect(await code { try await a.synchronize().value } == .rolledBack)
    }

    @Test("The origin of a document that is being removed isn't written again")
    func originOfRemovedDocument() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try Self.createNotes("one", on: a)
        _ = try await a.synchronize().value
        let registration = try await a.registerDocument().value
        _ = try await b.register().value
        _ = try await b.removeDocument().value
        let late = SynchronizationOperation(
            SynchronizationRequest(url: a.store),
            document: registration,
            backend: a.backend,
            state: a.state
        )
        #expect(await code { try await a.supervisor.add(late).value } == .documentDeleted)
        #expect(try !fixture.files().keys.contains { $0.contains("/Documents/") })
    }

    @Test("If an origin can't be opened, the error says to remove it, and a device that had synchronized rewrites it")
    func unreadableOrigin() async throws {
        let folder = try Self.folder(isSealed: true)
        let (a, b) = (try folder.device("a"), try folder.device("b"))
        try Self.createNotes("one", on: a)
        _ = try await a.synchronize().value
        let path = "\(folder.document)SyncChanges/origin.plist"
        let bytes = try #require(try folder.files("a")[path])
        let other = a.with(
            document: try RemoteIdentifier("other"),
            store: folder.fixture.folder.appending(path: "o.sqlite")
        )
        try Self.createNotes("two", on: other)
        _ = try await other.synchronize().value
        let foreign = try #require(try folder.files("a")[path.replacing("/notes/", with: "/other/")])
        try folder.carry(from: "a", to: "b")
        for planted in [foreign, bytes.dropLast(), Data("cut".utf8), Data()] {
            for device in [a, b] {
                try folder.put(planted, at: path, of: device.name)
                let error = await #expect(throws: StoreSyncError.self) { try await device.synchronize().value }
                for part in [path, "remove exactly that file", "has synchronized the document before"] {
                    #expect(error?.message.contains(part) == true, "\(String(describing: error))")
                }
                let problems = try await a.verify().value.problems
                #expect(problems.contains { $0.path == path && $0.message.contains("remove exactly that file") })
            }
        }
        for name in ["a", "b"] { try folder.put(nil, at: path, of: name) }
        #expect(await code { try await b.synchronize().value } == .remoteUnavailable)
        _ = try await a.synchronize().value
        try folder.carry(from: "a", to: "b")
        _ = try await b.synchronize().value
        #expect(try Self.titles(b) == ["one"])
        #expect(try await a.verify().value.problems.isEmpty)
    }
}
