import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing

@testable import StoreSync

@Suite("Applications that are moved aside, and their remains", .timeLimit(.minutes(60)))
struct ReplacementTests {
    @Test("The name of an application moved aside states application and epoch, and no other name is taken for one")
    func names() throws {
        let application = try RemoteIdentifier("org.example-notes.x")
        for epoch in [UUID(), nil] {
            let name = AsideName(application: application, epoch: epoch)
            #expect(AsideName(name.name) == name)
            #expect(AsideName(name.removing.name) == name.removing && name.removing.isRemoving)
            #expect(AsideName("\(name.name) (conflict)") == nil && AsideName(name.name.lowercased()) == nil)
            for count in 0..<80 { #expect(AsideName(String(name.name.prefix(count))) == nil) }
        }
        #expect(AsideName(".registering-\(UUID().uuidString)") == nil)
        // The longest name is still one path component.
        let longest = try RemoteIdentifier(String(repeating: "a", count: 128))
        _ = try RemotePath.root.appending(AsideName(application: longest, epoch: UUID()).name)
    }

    @Test("D13: Of two applications moved aside, the one moved by mistake is restored, and the other is removed")
    func unmeant() async throws {
        let scene = try await PasscodeScene(.folder)
        let backend = try await scene.restore()
        let root = scene.fixture.share.appending(path: scene.fixture.application.rawValue)
        let copy = scene.fixture.folder.appending(path: "copy")
        try FileManager.default.copyItem(at: root, to: copy)
        let a = try scene.fixture.device("a", backend: backend)
        let setup = a.passcodeSetup()
        try await setup.begin()
        try await setup.start(PasscodeScene.newPasscode, .new)
        let epoch = try await a.epoch()
        // The name of the application that was meant to be moved sorts first.
        var (meant, unmeant) = (
            AsideName(application: scene.fixture.application, epoch: UUID(uuidString: scene.epoch)),
            AsideName(application: scene.fixture.application, epoch: UUID(uuidString: scene.epoch))
        )
        if meant.name > unmeant.name { swap(&meant, &unmeant) }
        try FileManager.default.moveItem(at: root, to: scene.fixture.share.appending(path: unmeant.name))
        try FileManager.default.moveItem(at: copy, to: scene.fixture.share.appending(path: meant.name))

        let c = try scene.fixture.device("c", backend: backend)
        #expect(await code { try await c.register().value } == .applicationIncomplete)
        let third = c.passcodeSetup()
        try await third.begin()
        #expect(await third.status.description == "syncRequired, existing")
        try await third.start(PasscodeScene.newPasscode, .existing)
        #expect(try await c.epoch() == epoch)
        try await scene.expectDone(c, backend, "two aside")
        #expect(try await a.status().value.clients.count == 2)
    }

    @Test("D13: A file that a device writes while the application is aside costs neither the file nor the application")
    func lateFiles() async throws {
        let scene = try await PasscodeScene(.folder)
        let name = "\(scene.fixture.application)/Documents/notes/WholeStore/late/file"
        var count = 1
        for dies in [false, true] {
            var (number, restored) = (0, 0)
            let interval = dies ? TestDepth.choose(quick: 5, deep: 1) : 1
            while number < count {
                let comment = "\(dies ? "dying at" : "before") request \(number)"
                let backend = try await scene.restore()
                let connection = DyingBackend(backend)
                let setup = try scene.fixture.device("a", backend: connection).passcodeSetup()
                try await setup.begin()
                if dies { await connection.die(DyingBackend.Death(request: number, isAfter: true)) }
                await connection.meet(atRequest: number) { try? scene.fixture.put(Data("late".utf8), at: name) }
                let message = try SyncStartMessage.cheap(PasscodeScene.newPasscode, action: .new)
                let isDone: Bool
                do { isDone = try await setup.start(message) == () } catch { isDone = false }
                if !dies { count = await connection.requests.count }
                // A replacement that failed leaves the former application with all its files, or puts it back.
                let c = try scene.fixture.device("c", backend: backend)
                let next = c.passcodeSetup()
                try await next.begin()
                #expect(await next.status.syncPasscodeState == .existing, "\(comment)")
                let isNew = try await c.epoch().map { $0 != scene.epoch } ?? false
                #expect(isNew || !isDone, "\(comment)")
                let passcode = isNew ? PasscodeScene.newPasscode : PasscodeScene.passcode
                try await next.start(passcode, .existing)
                if !isNew {
                    restored += 1
                    #expect(try scene.fixture.files()[name] == Data("late".utf8), "\(comment)")
                    #expect(try !scene.fixture.files().keys.contains { $0.hasPrefix(".replaced-") }, "\(comment)")
                    _ = try await c.pull().value
                    #expect(try c.notes() == ["one"], "\(comment)")
                }
                number += interval
            }
            #expect(restored > 0, "dies: \(dies)")
        }
    }

    @Test("D13: An application whose moves arrive twice, so that the storage refuses each second request, is replaced")
    func repeatedMoves() async throws {
        let scene = try await PasscodeScene(.folder)
        let backend = try await scene.restore()
        let a = try scene.fixture.device("a", backend: RepeatingBackend(backend))
        try await a.setUp(PasscodeScene.newPasscode, .new)
        #expect(try await a.epoch() != scene.epoch)
        try await scene.expectDone(a, backend, "moves that arrive twice")
        let b = try scene.fixture.device("b", backend: backend)
        try await b.setUp(PasscodeScene.newPasscode, .existing)
        #expect(try await b.status().value.clients.count == 2)
    }

    @Test("A pull doesn't replace a store of the former application until the user gives it up, and says so")
    func formerStore() async throws {
        let scene = try await PasscodeScene(.folder)
        let backend = try await scene.restore()
        let b = try scene.fixture.device("b", backend: backend)
        _ = try await b.pull().value
        try await scene.fixture.device("a", backend: backend).setUp(PasscodeScene.newPasscode, .new)
        let c = try scene.fixture.device("c", backend: backend)
        try await c.setUp(PasscodeScene.newPasscode, .existing)
        try await c.push(adding: "new")

        try await b.setUp(PasscodeScene.newPasscode, .existing)
        let error = await #expect(throws: StoreSyncError.self) { try await b.pull().value }
        #expect(error?.code == .localChanges)
        #expect(error?.message.contains("was created again") == true && error?.message.contains("--overwrite") == true)
        #expect(try b.notes() == ["one"])
        _ = try await b.pull(overwrite: true).value
        #expect(try b.notes() == ["new"])
    }

    @Test("Files of a former epoch are removed, and files of devices that work in the current epoch stay")
    func formerFiles() async throws {
        let backend = InMemoryBackend()
        let hierarchy = ApplicationHierarchy(try RemoteIdentifier("org.example.notes"))
        let (former, now) = (
            EpochKey(master: MasterKey(), epoch: UUID()), EpochKey(master: MasterKey(), epoch: UUID())
        )
        func write(_ key: EpochKey?, _ path: RemotePath) async throws {
            let bytes = Array("plain".utf8)
            let context = SealedContext(application: "org.example.notes", role: "test")
            try await backend.write(key?.seal(bytes, as: context) ?? bytes, to: path, when: .always)
        }
        let clients = try ["former", "plain", "now"].map { try RemoteIdentifier($0) }
        let keys = [former, nil, now]
        var (gone, kept): ([RemotePath], [RemotePath]) = ([], [hierarchy.registration, hierarchy.readMe])
        for (client, key) in zip(clients, keys) {
            // The documents have the same names as the clients here.
            let document = hierarchy.document(client)
            var paths = [hierarchy.deviceInfo(client), document.documentInfo, hierarchy.deletedDocument(client)]
            paths.append(document.root.appending(client).appending(client))
            paths.append(hierarchy.information.appending(client).appending(client, extension: "ticdsync"))
            for path in paths { try await write(key, path) }
            if key?.epoch == now.epoch { kept += paths } else { gone += paths }
        }
        for (key, isKept) in [(former, false), (now, true)] {
            let path = hierarchy.successor(key.epoch)
            try await write(nil, path)
            if isKept { kept.append(path) } else { gone.append(path) }
        }
        try await write(nil, hierarchy.readMe)
        // Files that haven't fully arrived, or that a newer program wrote, may be of the current epoch.
        let sealed = now.seal([1], as: SealedContext(application: "org.example.notes", role: "test"))
        var newer = sealed
        newer[16] = 2
        for (name, start) in [("empty", []), ("cut", Array(sealed.prefix(40))), ("newer", newer)] {
            let client = try RemoteIdentifier(name)
            let paths = [hierarchy.deviceInfo(client), hierarchy.document(client).documentInfo]
            for path in paths { try await backend.write(start, to: path, when: .always) }
            kept += paths
        }
        // Without an info, a document's keys tell.
        let lost = try hierarchy.document(RemoteIdentifier("lost"))
        try await write(former, lost.integrityKey("key"))
        gone.append(try lost.integrityKey("key"))
        let unnamed = try hierarchy.document(RemoteIdentifier("unnamed")).root.appending("file")
        try await write(now, unnamed)
        kept.append(unnamed)
        // The proof of the next epoch is written before its registration.
        let next = UUID()
        let proof = SuccessorProof(former: now, successor: next, registration: [])
        try await backend.write(proof.bytes, to: hierarchy.successor(next), when: .always)
        kept.append(hierarchy.successor(next))
        let joining = try hierarchy.clientDirectory(RemoteIdentifier("joining"))
        try await backend.createDirectory(at: joining)
        let files = FormerFiles(backend: backend, hierarchy: hierarchy, epoch: now.epoch)
        #expect(try await files.clients().map(\.rawValue) == ["former", "plain"])
        // If the application is created again meanwhile, files of another epoch may be of the next one, and stay.
        for epoch in [next, now.epoch] {
            let info = RegistrationInfo(epoch: epoch.uuidString, encryption: RegistrationInfo.sealed)
            try await backend.write(info.xml, to: hierarchy.registration, when: .always)
            try await files.remove()
            guard epoch == next else { continue }
            for path in gone { #expect(try await backend.status(of: path) != nil, "\(path)") }
        }
        for path in gone { #expect(try await backend.status(of: path) == nil, "\(path)") }
        for path in kept + [joining] { #expect(try await backend.status(of: path) != nil, "\(path)") }
        #expect(try await files.clients().isEmpty)
        let documents = try await backend.list(hierarchy.documents)?.map(\.name)
        #expect(documents == ["cut", "empty", "newer", "now", "unnamed"])
    }
}
