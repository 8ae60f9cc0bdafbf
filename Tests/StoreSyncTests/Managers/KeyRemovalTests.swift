import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Signing out", .timeLimit(.minutes(60)))
struct KeyRemovalTests {
    @Test("After its keys were forgotten, a device is asked for the password again, and keeps everything else")
    func forget() async throws {
        let fixture = try Fixture()
        let password = try Password.cheap("correct horse")
        let delegate = await AppDelegate(password)
        let device = try fixture.device("device")
        let manager = device.manager(delegate)
        try device.write("one")
        let client = try await manager.document(fixture.document).upload(storeAt: device.store).value.client
        _ = try await manager.status().value
        #expect(delegate.questions.withLock { $0 } == [.newApplication])

        try await manager.forgetKeys().value
        #expect(await code { try await device.register(mayCreate: false).value } == .encryptionMismatch)
        let pin = try #require(try device.state.pin(for: manager.key))
        #expect(pin.isEncrypted)
        let epoch = try #require(pin.epoch)
        #expect(try await device.state.masterKey(for: manager.key, epoch: epoch, on: nil) == nil)

        #expect(try await manager.register().value.client == client)
        #expect(delegate.questions.withLock { $0.last } == .joiningEncrypted(passwordWasWrong: false))
        #expect(try await device.state.masterKey(for: manager.key, epoch: epoch, on: nil) != nil)
        #expect(try await manager.document(fixture.document).upload(storeAt: device.store).value.isUnchanged)
    }

    @Test(
        "A device that is still registered and has lost its keys registers again as the same client",
        arguments: [false, true]
    )
    func registersAgain(wasRemoved: Bool) async throws {
        let fixture = try Fixture(password: "correct horse")
        let (device, other) = (try fixture.device("device"), try fixture.device("other"))
        let client = try await device.register().value.client
        let delegate = await AppDelegate()
        try await device.manager(delegate).forgetKeys().value
        if wasRemoved {
            // The removal is interrupted after the note was written.
            let info = "\(fixture.hierarchy.deviceInfo(client))"
            let before = try #require(try fixture.files()[info])
            _ = try await other.register().value
            _ = try await other.remove(client).value
            try fixture.put(before, at: info)
        }
        let again = try await device.supervisor.add(device.registration(registersAgain: true)).value
        #expect((again.client == client) == !wasRemoved)
        #expect(again.warnings.contains { $0.contains("still registered") } == !wasRemoved)
        #expect(try await other.listClients().value.clients.count == (wasRemoved ? 3 : 1))
        withExtendedLifetime(delegate) {}
    }

    @Test("Forgetting keys changes nothing of an application that isn't encrypted, and nothing of other applications")
    func others() async throws {
        let (plain, sealed) = (try Fixture(), try Fixture(application: "org.example.other"))
        let state = try plain.device("device").state
        let delegates = [await AppDelegate(), await AppDelegate(try .cheap("correct horse"))]
        let managers = zip([plain, sealed], delegates).map { fixture, delegate in
            ApplicationSyncManager(
                application: fixture.application,
                clientDescription: "laptop",
                backend: fixture.remote,
                state: state,
                supervisor: OperationSupervisor(.init(temporaryDirectory: fixture.temporary)),
                delegate: delegate
            )
        }
        for manager in managers { _ = try await manager.register().value }
        try await managers[0].forgetKeys().value
        _ = try await managers[0].register().value
        _ = try await managers[1].register().value
        #expect(delegates[1].questions.withLock { $0 } == [.newApplication])
    }

    @Test("Keys aren't forgotten while a registration is in progress, and the error says what is")
    func busy() async throws {
        let fixture = try Fixture()
        let delegate = await AppDelegate()
        let device = try fixture.device("device")
        var manager = device.manager(delegate)
        manager.retry = RetryPolicy(maximumAttempts: 1)
        let lock = try device.state.lock(.application(manager.key), .exclusive, by: "Registration")
        let error = await #expect(throws: StoreSyncError.self) { try await manager.forgetKeys().value }
        #expect(error?.code == .busy)
        #expect(error?.message.contains("Registration of process \(getpid())") == true, "\(error?.message ?? "")")
        lock.release()
        try await manager.forgetKeys().value
    }
}
