import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Removing all remote data of an application", .timeLimit(.minutes(60)))
struct ApplicationRemovalTests {
    @Test("F9, H19–H23: Encryption files and registration come last, and this device forgets the application")
    func order() async throws {
        let fixture = try Fixture(password: "correct horse")
        let connection = DyingBackend(fixture.remote)
        let a = try fixture.device("a", backend: connection)
        let b = try fixture.device("b")
        try a.write("one")
        _ = try await a.push().value
        _ = try await b.pull().value
        let epoch = try #require(try await a.epoch())
        await connection.die(nil)
        let removal = try await a.removeApplication().value
        #expect(removal.application == fixture.application && removal.documents == [fixture.document])
        let changes = await connection.requests.filter(\.isChange).map(\.name)
        let hierarchy = fixture.hierarchy
        #expect(changes.first == "write of \(hierarchy.deletedDocument(fixture.document))", "\(changes)")
        #expect(changes.suffix(2) == ["removal of \(hierarchy.encryption)", "removal of \(hierarchy.root)"])
        #expect(!changes.contains("removal of \(hierarchy.registration)"))
        #expect(try fixture.files().isEmpty)

        #expect(try a.state.pin(for: a.key) == nil)
        #expect(try await a.state.masterKey(for: a.key, epoch: epoch, on: nil) == nil)
        #expect(try a.notes() == ["one"], "local stores stay")
        #expect(await code { try await b.pull().value } == .applicationMissing)
        #expect(await code { try await b.push().value } == .applicationMissing)
        // Removing it again changes nothing, and this device begins the application again with its store.
        _ = try await a.removeApplication().value
        #expect(try await a.push().value.generation == 1)
        #expect(try await a.epoch() != epoch)
        #expect(try await a.verify().value.problems.isEmpty)
        #expect(await code { try await b.pull().value } == .deregistered)
    }

    @Test("An application is removed only by a device that has its keys or gives its password")
    func password() async throws {
        let fixture = try Fixture(password: "correct horse")
        _ = try await fixture.device("a").register().value
        let before = try fixture.files()
        var stranger = try fixture.device("stranger")
        for password in ["wrong", nil] {
            stranger.password = try password.map { try Password.cheap($0) }
            let expected: StoreSyncError.Code = password == nil ? .encryptionMismatch : .wrongPassword
            #expect(await code { try await stranger.removeApplication().value } == expected)
            #expect(try fixture.files() == before)
        }
        // The registration or the keys are hidden.
        for suffix in ["registration.plist", "test.ticdsync"] {
            try fixture.restore(before.filter { !$0.key.hasSuffix(suffix) })
            for name in ["a", "stranger"] {
                let refusal = await code { try await fixture.device(name).removeApplication().value }
                #expect([.encryptionDowngraded, .applicationIncomplete].contains(refusal), "\(name), \(suffix)")
            }
            #expect(try fixture.files().count == before.count - 1)
        }
        try fixture.restore(before)
        stranger.password = fixture.password
        _ = try await stranger.removeApplication().value
        #expect(try fixture.files().isEmpty)
    }

    @Test(
        "A removed application's items leave this device's keychain, also if it has no keys of the application",
        arguments: [false, true]
    )
    func items(isEncrypted: Bool) async throws {
        let fixture = try Fixture(password: isEncrypted ? "correct horse" : nil)
        let device = try fixture.device("device")
        _ = try await device.register().value
        for isSynchronizable in [false, true] {
            let item = KeychainItem(service: "service", account: "account", isSynchronizable: isSynchronizable)
            try await device.keychain().add(SecretBytes("secret"), as: item)
        }
        try await device.manager(Asker()).forgetKeys().value
        _ = try await device.removeApplication().value
        let error = await #expect(throws: KeychainError.self) {
            try await device.keychain().copyMatching(.everything)
        }
        #expect(error?.code == .itemNotFound)
    }

    @Test("An application that isn't there, or another one of that name, isn't removed by mistake")
    func other() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        #expect(await code { try await a.removeApplication().value } == .applicationMissing)
        _ = try await a.register().value
        try FileManager.default.moveItem(at: fixture.share, to: fixture.folder.appending(path: "unmounted"))
        try FileManager.default.createDirectory(at: fixture.share, withIntermediateDirectories: false)
        #expect(await code { try await a.removeApplication().value } == .applicationMissing)
        #expect(try a.state.pin(for: a.key) != nil, "the device still knows it")
        _ = try await b.register().value
        let files = try fixture.files()
        #expect(await code { try await a.removeApplication().value } == .deregistered)
        #expect(try fixture.files() == files)
    }

    @Test("What a device wrote during an application's removal is removed by the next run")
    func leftovers() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try a.write("one")
        _ = try await a.push().value
        let client = try await b.pull().value.client
        let late = try fixture.files().filter { $0.key.contains(client.rawValue) }
        #expect(late.count > 1)
        _ = try await a.removeApplication().value
        for (name, bytes) in late { try fixture.put(bytes, at: name) }
        #expect(await code { try await b.pull().value } == .encryptionDowngraded)
        for device in [a, try fixture.device("new")] {
            let error = await #expect(throws: StoreSyncError.self) { try await device.register().value }
            #expect(error?.code == .applicationIncomplete)
            let remedy = "run storesync remove application again on the device that removed it"
            #expect(error?.message.contains(remedy) == true, "\(error as Any)")
        }
        _ = try await a.removeApplication().value
        #expect(try fixture.files().isEmpty)
        _ = try await fixture.device("new").register().value
    }

    @Test(
        "An application that was created again and is still arriving isn't removed without its keys",
        arguments: ["", "ClientDevices", "salt.ticdsync", "test.ticdsync"]
    )
    func arriving(part: String) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        _ = try await a.register().value
        _ = try await a.removeApplication().value
        try b.write("one")
        _ = try await b.push().value
        let arrived = try fixture.files().filter { name, _ in
            !name.hasSuffix("registration.plist") && (part.isEmpty || name.contains(part))
        }
        #expect(!arrived.isEmpty)
        try fixture.restore(arrived)
        #expect(await code { try await a.removeApplication().value } == .applicationIncomplete)
        #expect(try fixture.files() == arrived)
    }
}
