import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The facts that a device remembers and the storage can't change", .timeLimit(.minutes(60)))
struct PinTests {
    /// A share with a device whose store was pushed, and the paths of both.
    private struct Scene {
        let fixture: Fixture
        let device: Device
        let client: RemoteIdentifier

        init() async throws {
            fixture = try Fixture()
            device = try fixture.device("device")
            try device.write("one")
            client = try await device.push().value.client
        }

        var root: URL { fixture.share.appending(path: fixture.application.rawValue) }
        func url(_ path: String) -> URL { root.appending(path: path) }

        func register(again: Bool = false) -> OperationHandle<ApplicationRegistration> {
            device.supervisor.add(device.registration(registersAgain: again))
        }

        /// Expects that every operation that could write is refused, and writes nothing.
        func expectRefused(_ expected: StoreSyncError.Code) async throws {
            let before = try fixture.contents()
            #expect(await code { try await register().value } == expected)
            #expect(await code { try await device.push().value } == expected)
            #expect(await code { try await device.pull().value } == expected)
            #expect(try fixture.contents() == before)
            #expect(try device.notes().contains("one"))
        }
    }

    @Test("A known application whose root is missing isn't created again")
    func rootVanished() async throws {
        let scene = try await Scene()
        let aside = scene.fixture.folder.appending(path: "aside")
        try FileManager.default.moveItem(at: scene.root, to: aside)
        try await scene.expectRefused(.applicationMissing)
        #expect(try scene.fixture.contents().isEmpty)
        // The share is mounted again, and nothing has changed.
        try FileManager.default.moveItem(at: aside, to: scene.root)
        #expect(try await scene.device.push().value.isUnchanged)
    }

    @Test("A known application whose registration is missing is incomplete, not a tree of TICoreDataSync")
    func registrationDeleted() async throws {
        let scene = try await Scene()
        let registration = try Data(contentsOf: scene.url("Information/registration.plist"))
        try FileManager.default.removeItem(at: scene.url("Information/registration.plist"))
        try await scene.expectRefused(.applicationIncomplete)
        try FileManager.default.removeItem(at: scene.url("ClientDevices/\(scene.client)"))
        try await scene.expectRefused(.applicationIncomplete)
        try registration.write(to: scene.url("Information/registration.plist"))
        #expect(try await scene.register().value.client == scene.client)
    }

    @Test("A changed epoch deregisters the device, which is another client after it starts over")
    func epochChanged() async throws {
        let scene = try await Scene()
        let other = RegistrationInfo.make(of: scene.fixture.application, encrypted: false)
        try Data(other.xml).write(to: scene.url("Information/registration.plist"))
        try await scene.expectRefused(.deregistered)
        let again = try await scene.register(again: true).value
        #expect(again.client != scene.client)
        #expect(try await scene.register().value.client == again.client)
        let status = try await scene.device.status().value
        #expect(status.client == again.client.rawValue)
        #expect(Set(status.clients.map(\.client)) == [scene.client, again.client])
    }

    @Test("H21, H23: A client that was removed from the application is told, and may start over as another client")
    func clientDeleted() async throws {
        let scene = try await Scene()
        try Data(DeviceInfo(client: scene.client.rawValue, description: "", userInfo: [:]).xml)
            .write(to: scene.url("Information/DeletedClients/\(scene.client).plist"))
        try await scene.expectRefused(.deregistered)
        let again = try await scene.register(again: true).value
        #expect(again.client != scene.client)
        #expect(
            FileManager.default.fileExists(atPath: scene.url("Information/DeletedClients/\(scene.client).plist").path)
        )
        try scene.device.write("two")
        #expect(try await scene.device.push().value.client == again.client)
    }

    @Test("An application that turns encrypted is refused, not written to in plaintext", arguments: [true, false])
    func turnedEncrypted(keepsEpoch: Bool) async throws {
        let scene = try await Scene()
        let url = scene.url("Information/registration.plist")
        var info = try RegistrationInfo(
            Array(Data(contentsOf: url)),
            at: scene.fixture.hierarchy.registration
        )
        info.encryption = RegistrationInfo.sealed
        if !keepsEpoch { info.epoch = UUID().uuidString }
        try Data(info.xml).write(to: url)
        // No client creates an encrypted application without keys.
        try await scene.expectRefused(keepsEpoch ? .encryptionDowngraded : .deregistered)
        let before = try scene.fixture.contents()
        #expect(await code { try await scene.register(again: true).value } == .encryptionDowngraded)
        let other = try scene.fixture.device("other")
        #expect(await code { try await other.register().value } == .encryptionDowngraded)
        #expect(try scene.fixture.contents() == before)
    }

    @Test("An application that was encrypted and isn't any more is refused, even if the device starts over")
    func downgraded() async throws {
        let scene = try await Scene()
        let epoch = try scene.device.state.pin(for: scene.device.key)?.epoch
        try scene.device.state.setPin(ApplicationPin(encryption: "xchacha20", epoch: epoch), for: scene.device.key)
        try await scene.expectRefused(.encryptionDowngraded)
        #expect(await code { try await scene.register(again: true).value } == .encryptionDowngraded)
        try FileManager.default.removeItem(at: scene.url("Information/registration.plist"))
        try await scene.expectRefused(.encryptionDowngraded)
    }

    @Test("H21, H22: A document that was deleted stays deleted unless the user asks to create it again")
    func documentDeleted() async throws {
        let scene = try await Scene()
        let other = try scene.fixture.device("other")
        _ = try await other.pull().value
        let info = scene.url("Documents/notes/documentInfo.plist")
        let note = scene.url("Information/DeletedDocuments/notes.plist")
        let former = try await scene.device.registerDocument().value.integrityKey
        try FileManager.default.copyItem(at: info, to: note)
        try FileManager.default.removeItem(at: scene.url("Documents/notes"))
        let before = try scene.fixture.contents()

        #expect(await code { try await other.pull().value } == .documentDeleted)
        // The delegate doesn't agree, so the push ends as cancelled.
        await #expect(throws: CancellationError.self) { try await scene.device.push().value }
        #expect(try scene.fixture.contents() == before)

        // The device that creates the document again begins it with its store. Other devices' stores can't be pushed.
        #expect(try await !scene.device.push(recreates: true).value.isUnchanged)
        let registration = try await scene.device.registerDocument().value
        #expect(registration.integrityKey != former)
        #expect(!FileManager.default.fileExists(atPath: note.path))
        #expect(await code { try await other.push().value } == .documentReplaced)
    }

    @Test("H10, H22: If a document is created again, every other device must replace its store before it may push")
    func documentReplaced() async throws {
        let scene = try await Scene()
        let other = try scene.fixture.device("other")
        let otherClient = try await other.pull().value.client
        let note = scene.url("Information/DeletedDocuments/notes.plist")
        try FileManager.default.copyItem(at: scene.url("Documents/notes/documentInfo.plist"), to: note)
        try FileManager.default.removeItem(at: scene.url("Documents/notes"))

        let creator = try scene.fixture.device("creator")
        try creator.write("new")
        _ = try await creator.push(recreates: true).value
        #expect(!FileManager.default.fileExists(atPath: note.path))
        for client in [scene.client, otherClient] {
            let path = scene.url("Documents/notes/DeletedClients/\(client).plist").path
            #expect(FileManager.default.fileExists(atPath: path))
        }

        try other.write("edited")
        for _ in 1...2 {
            // The device is told once that it was removed, and remembers it.
            let error = await #expect(throws: StoreSyncError.self) { try await other.push().value }
            #expect(error?.code == .documentReplaced)
            for part in ["copy it to another place", "--overwrite before you push or synchronize"] {
                #expect(error?.message.contains(part) == true, "\(error as Any)")
            }
        }
        #expect(await code { try await other.synchronize().value } == .documentReplaced)
        #expect(await code { try await other.pull().value } == .localChanges)
        _ = try await other.pull(overwrite: true).value
        #expect(try other.notes() == ["new"])
        try await other.push(adding: "more")
        _ = try await creator.pull().value
        #expect(try creator.notes() == ["new", "more"])
        // The device that created the former document follows too.
        #expect(await code { try await scene.device.pull().value } == .localChanges)
        _ = try await scene.device.pull(overwrite: true).value
        #expect(try scene.device.notes() == ["new", "more"])
        #expect(try await creator.verify().value.problems.isEmpty)
    }

    @Test("A device without memory learns from other clients' manifests that a client's store was rolled back")
    func witnesses() async throws {
        let scene = try await Scene()
        let other = try scene.fixture.device("other")
        try await scene.device.push(adding: "two")
        _ = try await other.pull().value
        try await other.push(adding: "three")
        // The first client's newest manifest vanishes, and the previous one still exists.
        let stores = scene.url("Documents/notes/WholeStore/\(scene.client)")
        for name in try FileManager.default.contentsOfDirectory(atPath: stores.path) where name.hasPrefix("manifest-2")
        {
            try FileManager.default.removeItem(at: stores.appending(path: name))
        }
        let fresh = try scene.fixture.device("fresh")
        #expect(await code { try await fresh.pull(from: scene.client).value } == .rolledBack)
        #expect(!FileManager.default.fileExists(atPath: fresh.store.path))
        _ = try await fresh.pull(from: scene.client, acceptRollback: true).value
        #expect(try fresh.notes() == ["one"])
        _ = try await fresh.pull().value
        #expect(try fresh.notes() == ["one", "two", "three"])
    }
}
