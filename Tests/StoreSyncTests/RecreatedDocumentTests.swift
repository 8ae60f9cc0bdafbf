import Foundation
import Operations
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Documents that were created again, on a storage that kept the former ones", .timeLimit(.minutes(60)))
struct RecreatedDocumentTests {
    /// A document that was deleted and created again, and the files on the remote before and after.
    private struct Scene {
        let fixture: Fixture
        /// The device that pushed the former document, twice.
        let former: Device
        /// The device that created the document again.
        let creator: Device
        let before: [String: Data]
        let after: [String: Data]

        init() async throws {
            fixture = try Fixture(password: "correct horse battery staple")
            former = try fixture.device("former")
            creator = try fixture.device("creator")
            for note in ["old", "older"] {
                try await former.push(adding: note)
            }
            before = try fixture.files()
            try await fixture.deleteDocument(by: former)
            try creator.write("new")
            _ = try await creator.push(recreates: true).value
            after = try fixture.files()
        }

        /// Puts the former document's uploads back, as uploads of `client` if it's given.
        func putBackUploads(as client: RemoteIdentifier? = nil) throws -> Int {
            let uploads = before.filter { $0.key.contains("/WholeStore/") }
            for (name, bytes) in uploads {
                var parts = name.split(separator: "/").map(String.init)
                guard let place = parts.firstIndex(of: "WholeStore") else { continue }
                if let client { parts[place + 1] = client.rawValue }
                try fixture.put(bytes, at: parts.joined(separator: "/"))
            }
            return uploads.count
        }
    }

    @Test("The status of a device that knows only the former document misses none of that document's uploads")
    func statusOfSuccessor() async throws {
        let scene = try await Scene()
        #expect(try await scene.former.status().value.unreadable == [])
    }

    @Test(
        "A document's info that is read before another operation joins the successor isn't reported as put back",
        arguments: ["registration", "status", "verification"]
    )
    func joinedMeanwhile(work: String) async throws {
        let scene = try await Scene()
        let path = scene.fixture.hierarchy.document(scene.fixture.document).documentInfo
        let info = Array(try #require(scene.before["\(path)"]))
        // Another process of the same device.
        let other = try scene.fixture.device("former")
        let overtaken = OvertakenBackend(scene.fixture.remote, reading: path, as: info) {
            await #expect(throws: Never.self) { _ = try await other.registerDocument().value }
        }
        let device = scene.former.with(backend: overtaken)
        switch work {
        case "registration":
            let successor = try await scene.creator.registerDocument().value.integrityKey
            #expect(try await device.registerDocument().value.integrityKey == successor)
        case "status":
            let unreadable = try await device.status().value.unreadable
            #expect(!unreadable.contains { $0.path == "\(path)" }, "\(unreadable)")
        default:
            let problems = try await device.verify().value.problems
            #expect(!problems.contains { $0.path == "\(path)" }, "\(problems)")
        }
        #expect(try scene.former.state.integrityMemory(for: scene.former.documentKey).former.count == 1)
    }

    @Test("A device that joins a document while it's created again keeps its edits")
    func joinMeanwhile() async throws {
        var (number, count, joins) = (0, 1, 0)
        while number < count {
            let fixture = try Fixture(password: "correct horse battery staple")
            let (former, joiner) = (try fixture.device("former"), try fixture.device("joiner"))
            try await former.push(adding: "old")
            try await fixture.deleteDocument(by: former)
            _ = try await joiner.register().value
            let connection = DyingBackend(LocalFolderBackend(root: fixture.share))
            let creator = try fixture.device("creator", backend: connection)
            let hasJoined = Locked(false)
            try joiner.write("joined")
            await connection.meet(atRequest: number) {
                if (try? await joiner.push().value) != nil { hasJoined.withLock { $0 = true } }
            }
            _ = try await creator.registerDocument(recreates: true).value
            count = await connection.requests.count
            if hasJoined.withLock(\.self) {
                joins += 1
                try joiner.write("edited")
                #expect(try await joiner.push().value.generation == 2, "joined before request \(number)")
            }
            number += 1
        }
        #expect(joins > 2)
    }

    @Test("A device that joins a document keeps its edits, whenever another device finishes to create it again")
    func finishMeanwhile() async throws {
        var (number, count, joins, births) = (0, 1, 0, Int?.none)
        while number < count {
            let fixture = try Fixture(password: "correct horse battery staple")
            let connections = (1...2).map { _ in DyingBackend(LocalFolderBackend(root: fixture.share)) }
            let (former, joiner) = (try fixture.device("former"), try fixture.device("joiner", backend: connections[0]))
            try await former.push(adding: "old")
            try await fixture.deleteDocument(by: former)
            _ = try await joiner.register().value
            let creator = try fixture.device("creator", backend: connections[1])
            _ = try await creator.register().value
            // The creator dies once the document exists, which is known from its first run.
            await connections[1].die(births.map { DyingBackend.Death(request: $0, isAfter: true) })
            let created = try? await creator.registerDocument(recreates: true).value
            guard births != nil else {
                let requests = await connections[1].requests
                let birth: Int = try #require(
                    requests.firstIndex { $0.isChange && $0.name.hasSuffix("documentInfo.plist") }
                )
                births = birth
                continue
            }
            #expect(created == nil)
            let revived = try fixture.device("creator")
            let isFinished = Locked(false)
            try joiner.write("joined")
            await connections[0].meet(atRequest: number) {
                if (try? await revived.registerDocument().value) != nil { isFinished.withLock { $0 = true } }
            }
            if (try? await joiner.push().value) != nil {
                joins += 1
                try joiner.write("edited")
                #expect(try await joiner.push().value.generation == 2, "finished before request \(number)")
            }
            count = await connections[0].requests.count
            let finished = isFinished.withLock(\.self)
            #expect(finished)
            number += TestDepth.choose(quick: 7, deep: 1)
        }
        #expect(joins > 1)
    }

    @Test(
        "A store of a former document or application, which may be the last copy, is replaced only if a pull is told to",
        arguments: [false, true]
    )
    func lastCopy(isApplication: Bool) async throws {
        let fixture = try Fixture()
        let (former, reader) = (try fixture.device("former"), try fixture.device("reader"))
        let creator = try fixture.device("creator")
        try await former.push(adding: "old")
        _ = try await reader.pull().value
        _ = try await creator.register().value
        try creator.write("new")
        if isApplication {
            _ = try await creator.removeApplication().value
            _ = try await creator.push().value
        } else {
            _ = try await creator.removeDocument().value
            _ = try await creator.push(recreates: true).value
        }
        for device in [former, reader] {
            if isApplication { _ = try await device.supervisor.add(device.registration(registersAgain: true)).value }
            let error = await #expect(throws: StoreSyncError.self) { try await device.pull().value }
            #expect(error?.code == .localChanges)
            for part in ["was created again", "copy it to another place", "--overwrite"] {
                #expect(error?.message.contains(part) == true, "\(error as Any)")
            }
            #expect(try device.notes() == ["old"])
            try device.write("edited")
            let changed = await #expect(throws: StoreSyncError.self) { try await device.pull().value }
            #expect(changed?.message == error?.message, "not the advice to push it, which would be refused")
            _ = try await device.pull(overwrite: true).value
            #expect(try device.notes() == ["new"])
        }
    }

    @Test("A changed store of the former document can't be pushed, nor is that advised, by the creator either")
    func otherStoreOfCreator() async throws {
        let fixture = try Fixture()
        let creator = try fixture.device("creator")
        let other = fixture.folder.appending(path: "other.sqlite")
        try await creator.push(adding: "old")
        _ = try await creator.pull(other).value
        _ = try await creator.removeDocument().value
        _ = try await creator.push(recreates: true).value
        try Store.write(["edited"], to: other)
        #expect(await code { try await creator.push(other).value } == .documentReplaced)
        let error = await #expect(throws: StoreSyncError.self) { try await creator.pull(other).value }
        #expect(error?.code == .localChanges && error?.message.contains("copy it to another place") == true)
    }

    @Test("A pull replaces a store of the former document that equals an upload of the present one")
    func equalUpload() async throws {
        let fixture = try Fixture(password: "correct horse battery staple")
        let (former, creator) = (try fixture.device("former"), try fixture.device("creator"))
        try await former.push(adding: "old")
        _ = try await creator.pull().value
        _ = try await creator.removeDocument().value
        _ = try await creator.push(recreates: true).value
        try await creator.push(adding: "new")
        _ = try await former.pull().value
        #expect(try former.notes() == ["old", "new"])
    }

    @Test("F4: The former document's manifests and folders don't open in the new one", arguments: [false, true])
    func uploadsPutBack(asCreators: Bool) async throws {
        let scene = try await Scene()
        let client = try await scene.creator.register().value.client
        // Two uploads of three files and a manifest.
        #expect(try scene.putBackUploads(as: asCreators ? client : nil) == 8)
        let fresh = try scene.fixture.device("fresh")
        let pulled = try await fresh.pull().value
        #expect(pulled.from == client && pulled.generation == 1)
        #expect(pulled.warnings.count == 2)
        #expect(try fresh.notes() == ["new"])
        let report = try await fresh.verify().value
        #expect(report.problems.count == 2 && report.problems.allSatisfy { $0.code == "tampered" }, "\(report)")
        // The device that had the former document pulls the new one, and continues with it.
        _ = try await scene.former.pull(overwrite: true).value
        #expect(try scene.former.notes() == ["new"])
        try scene.former.write("more")
        #expect(try await scene.former.push().value.divergedFrom.isEmpty)
        _ = try await fresh.pull().value
        #expect(try fresh.notes() == ["new", "more"])
    }

    @Test("A former document's file in the place of its successor's file doesn't open")
    func storePutBack() async throws {
        let scene = try await Scene()
        func uploads(_ files: [String: Data]) -> [String] {
            files.keys.filter { $0.hasSuffix("/WholeStore.ticdsync") }.sorted()
        }
        let old = try #require(uploads(scene.before).first)
        let new = try #require(uploads(scene.after).first)
        try scene.fixture.put(scene.before[old], at: new)
        let fresh = try scene.fixture.device("fresh")
        _ = await code { try await fresh.pull().value }
        #expect(!FileManager.default.fileExists(atPath: fresh.store.path))
    }

    @Test("The former document put back as a whole is refused by a device that has seen its successor")
    func documentPutBack() async throws {
        let scene = try await Scene()
        _ = try await scene.former.pull(overwrite: true).value
        let after = try scene.fixture.files()
        try scene.fixture.restore(scene.before)
        try scene.former.write("mine")
        for _ in 1...2 {
            #expect(await code { try await scene.former.pull().value } == .rolledBack)
            #expect(
                await code { try await scene.former.pull(overwrite: true, acceptRollback: true).value } == .rolledBack
            )
            #expect(await code { try await scene.former.push().value } == .rolledBack)
        }
        #expect(try scene.fixture.files() == scene.before)
        #expect(try scene.former.notes() == ["new", "mine"])
        // The devices have forgotten nothing: once the new document is restored, everything works again.
        try scene.fixture.restore(after)
        _ = try await scene.former.push().value
        _ = try await scene.creator.pull().value
        #expect(try scene.creator.notes() == ["new", "mine"])
    }

    @Test("If only the former document's info is put back, its successor's files don't open, and nothing is lost")
    func infoPutBack() async throws {
        let scene = try await Scene()
        let info = "\(scene.fixture.hierarchy.document(scene.fixture.document).documentInfo)"
        try scene.fixture.put(scene.before[info], at: info)
        // This device knows only the former document, so the document is the same to it, but none of its files open.
        #expect(await code { try await scene.former.pull(overwrite: true).value } == .tampered)
        #expect(try scene.former.notes() == ["old", "older"])
        #expect(await code { try await scene.creator.push().value } != nil)
        #expect(try scene.creator.notes() == ["new"])
        let status = try await scene.former.status().value
        #expect(status.documents.map(\.stores.count) == [0])
        try scene.fixture.put(scene.after[info], at: info)
        _ = try await scene.former.pull(overwrite: true).value
        #expect(try scene.former.notes() == ["new"])
        _ = try await scene.creator.pull(overwrite: true).value
        #expect(try scene.creator.notes() == ["new"])
    }
}
