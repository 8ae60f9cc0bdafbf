import Foundation
import Keychain
import Operations
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("A crash while an application is created again", .timeLimit(.minutes(60)))
struct PasscodeCrashTests {
    @Test(
        "B12, F1, D10, D13: A crash while an application is created again leaves it encrypted with one key",
        arguments: [PasscodePlace.folder, .memoryWithoutDirectoryMoves]
    )
    func everyRequest(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        let requests = try await requests(of: scene)
        #expect(requests.count > 20)
        // A crash at a request that changes nothing leaves the same state as at the previous request.
        let changes = requests.indices.filter { requests[$0].isChange }
        let all =
            (TestDepth.isDeep ? Array(requests.indices) : changes).map {
                DyingBackend.Death(request: $0, isAfter: false)
            }
            + changes.map { DyingBackend.Death(request: $0, isAfter: true) }
        let interval = TestDepth.choose(quick: 7, deep: 1)
        let deaths = stride(from: place == .folder ? 0 : 1, to: all.count, by: interval).map { all[$0] }
        print("crashes while an application is created again, \(place): \(deaths.count)")
        for (number, death) in deaths.enumerated() {
            let backend = try await scene.restore()
            try await die(death, scene, backend)
            let comment = "\(place), \(death): \(requests[death.request].name)"
            try await scene.expectSound(backend, comment)
            try await comeNext(number, scene, backend, comment)
        }
    }

    @Test(
        "B12, D1: An attempt that is cancelled when the application was created again succeeds, and keeps the new key",
        arguments: [PasscodePlace.folder, .memoryWithoutDirectoryMoves]
    )
    func cancelledAtEveryRequest(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        let count = try await requests(of: scene).count
        var successes = 0
        for number in stride(from: 0, to: count, by: TestDepth.choose(quick: 3, deep: 1)) {
            let comment = "\(place), request \(number) of \(count)"
            let backend = try await scene.restore()
            let connection = DyingBackend(backend)
            let device = try scene.fixture.device("a", backend: connection)
            let setup = device.passcodeSetup()
            try await setup.begin()
            await connection.meet(atRequest: number) { device.supervisor.cancelAll() }
            var isDone = true
            do {
                try await setup.start(PasscodeScene.newPasscode, .new)
            } catch is CancellationError {
                isDone = false
            }
            let again = try scene.fixture.device("a", backend: backend)
            let epoch = try #require(try await again.epoch(), "\(comment)")
            #expect(isDone == (epoch != scene.epoch), "\(comment)")
            #expect(await setup.setupState == (isDone ? .ongoing : .syncRequired), "\(comment)")
            #expect(try await again.state.masterKey(for: again.key, epoch: epoch, on: nil) != nil, "\(comment)")
            if isDone { successes += 1 }
            // The next setup removes what is left of the former application.
            let next = again.passcodeSetup()
            try await next.begin()
            if await next.setupState == .syncRequired {
                try await next.start(PasscodeScene.newPasscode, .existing)
            }
            try await scene.expectDone(again, backend, comment)
        }
        #expect(successes > 0)
    }

    @Test(
        "D1: A first attempt that is cancelled when the application was created succeeds, and keeps the key",
        arguments: [PasscodePlace.folder, .memoryWithoutDirectoryMoves]
    )
    func cancelledCreation(place: PasscodePlace) async throws {
        var (number, successes, wasReached) = (0, 0, true)
        while wasReached {
            let comment = "\(place), request \(number)"
            let fixture = try Fixture()
            let backend = place.backend(fixture)
            let connection = DyingBackend(backend)
            let device = try fixture.device("a", backend: connection)
            let setup = device.passcodeSetup()
            try await setup.begin()
            await connection.meet(atRequest: number) { device.supervisor.cancelAll() }
            var isDone = true
            do {
                try await setup.start(PasscodeScene.passcode, .new)
            } catch is CancellationError {
                isDone = false
            }
            wasReached = await connection.requests.count > number
            let again = try fixture.device("a", backend: backend)
            let epoch = try await again.epoch()
            #expect(isDone == (epoch != nil), "\(comment)")
            #expect(await setup.setupState == (isDone ? .ongoing : .syncRequired), "\(comment)")
            if let epoch {
                #expect(try await again.state.masterKey(for: again.key, epoch: epoch, on: nil) != nil, "\(comment)")
            }
            if isDone { successes += 1 }
            let next = again.passcodeSetup()
            try await next.begin()
            if !isDone { try await next.start(PasscodeScene.newPasscode, .new) }
            #expect(await next.status.description == "ongoing, existing", "\(comment)")
            number += TestDepth.choose(quick: 2, deep: 1)
        }
        // More than the single run that wasn't cancelled at all.
        #expect(successes > 1)
    }

    /// A device with an item in its keychain, which has signed out.
    private func signedOutDevice(_ fixture: Fixture) async throws -> Device {
        let device = try fixture.device("a")
        try await device.setUp(PasscodeScene.passcode, .new)
        let item = KeychainItem(service: "notes", account: "former", isSynchronizable: true)
        try await device.keychain().add(SecretBytes("secret"), as: item)
        try await device.manager(Asker()).forgetKeys().value
        return device
    }

    @Test("R15: A device that had signed out and crashes after any request of a replacement has no former items")
    func signedOutAtEveryRequest() async throws {
        var (number, wasReached, adoptions) = (0, true, 0)
        while wasReached {
            let fixture = try Fixture()
            let former = try await signedOutDevice(fixture).epoch()
            let connection = DyingBackend(PasscodePlace.folder.backend(fixture))
            let setup = try fixture.device("a", backend: connection).passcodeSetup()
            try await setup.begin()
            await connection.die(DyingBackend.Death(request: number, isAfter: true))
            do {
                try await setup.start(PasscodeScene.newPasscode, .new)
                wasReached = false
            } catch {
                // The device died.
            }
            let again = try fixture.device("a")
            if let epoch = try await again.epoch(), epoch != former {
                adoptions += wasReached ? 1 : 0
                let next = again.passcodeSetup()
                try await next.begin()
                if await next.setupState == .syncRequired {
                    try await next.start(PasscodeScene.newPasscode, .existing)
                }
                #expect(try await again.items().isEmpty, "request \(number)")
            }
            number += 1
        }
        #expect(adoptions > 0)
    }

    @Test(
        "R15: A crash of a device that had signed out, as it remembers a new application, leaves it no former items",
        arguments: ["before replaced application", "after replaced application"],
        [false, true]
    )
    func signedOut(step: String, wasRemoved: Bool) async throws {
        let fixture = try Fixture()
        _ = try await signedOutDevice(fixture)
        if wasRemoved {
            try FileManager.default.removeItem(at: fixture.share.appending(path: fixture.application.rawValue))
        }
        let isDead = Locked(false)
        let dying = try fixture.device("a") { reached in
            if reached == step { isDead.withLock { $0 = true } }
            if isDead.withLock(\.self) { throw RemoteError(.unavailable, "The device is dead.") }
        }
        let setup = dying.passcodeSetup()
        try await setup.begin()
        let message = try SyncStartMessage.cheap(PasscodeScene.newPasscode, action: .new)
        await #expect(throws: StoreSyncError.self) { try await setup.start(message) }
        let hasDied = isDead.withLock(\.self)
        #expect(hasDied)

        let again = try fixture.device("a")
        let next = again.passcodeSetup()
        try await next.begin()
        #expect(await next.status.syncPasscodeState == .existing)
        try await next.start(PasscodeScene.newPasscode, .existing)
        #expect(try await again.items().isEmpty)
        #expect(try await !again.synchronizeKeychain().value.hasPublished)
    }

    /// Returns the requests of a complete run.
    private func requests(of scene: PasscodeScene) async throws -> [ObservedRequest] {
        let dying = DyingBackend(try await scene.restore())
        let setup = try scene.fixture.device("a", backend: dying).passcodeSetup()
        try await setup.begin()
        await dying.die(nil)
        try await setup.start(PasscodeScene.newPasscode, .new)
        return await dying.requests
    }

    private func die(_ death: DyingBackend.Death, _ scene: PasscodeScene, _ backend: any RemoteBackend) async throws {
        let dying = DyingBackend(backend)
        let setup = try scene.fixture.device("a", backend: dying).passcodeSetup()
        try await setup.begin()
        await dying.die(death)
        let message = try SyncStartMessage.cheap(PasscodeScene.newPasscode, action: .new)
        _ = await code { try await setup.start(message) }
        #expect(await dying.isDead)
    }

    /// Sets up the next device, and expects success.
    ///
    /// It's the device that died, another device that was set up, or a new device. Its passcode opens the existing
    /// data, or protects new data.
    private func comeNext(
        _ number: Int,
        _ scene: PasscodeScene,
        _ backend: any RemoteBackend,
        _ comment: String
    ) async throws {
        let device = try scene.fixture.device(["a", "b", "c"][number % 3], backend: backend)
        let setup = device.passcodeSetup()
        try await setup.begin()
        if await setup.setupState == .syncRequired {
            let status = await setup.status
            #expect(status.syncPasscodeState == .existing, "\(comment): \(status)")
            let isNew = try await device.epoch().map { $0 != scene.epoch } ?? false
            let passcode = isNew ? PasscodeScene.newPasscode : PasscodeScene.passcode
            let isHalf = await setup.syncError?.code == .applicationIncomplete || number % 2 == 0
            do {
                try await setup.start(
                    isHalf
                        ? SyncStartMessage.cheap("third", action: .new)
                        : SyncStartMessage.cheap(passcode, action: .existing)
                )
            } catch let error as StoreSyncError where [.tampered, .deregistered].contains(error.code) {
                // The keys are older than the registration, so only new data helps.
                try await setup.start("third", .new)
            }
        }
        #expect(await setup.status.description == "ongoing, existing", "\(comment)")
        try await scene.expectDone(device, backend, comment)
    }
}
