import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Dying while an application is made anew", .serialized, .timeLimit(.minutes(60)))
struct PasscodeCrashTests {
    @Test(
        "B12, F1, D10, D13: at every request: never unencrypted, never two keys, and who comes next completes or begins again",
        arguments: [PasscodePlace.folder, .memoryWithoutDirectoryMoves]
    )
    func everyRequest(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        let requests = try await requests(of: scene)
        #expect(requests.count > 20)
        // A request that changes nothing leaves what the one before it left.
        let isLong = ProcessInfo.processInfo.environment["STORESYNC_PASSCODE_SEEDS"] != nil
        let changes = requests.indices.filter { requests[$0].isChange }
        let deaths =
            (isLong ? Array(requests.indices) : changes).map { DyingBackend.Death(request: $0, isAfter: false) }
            + changes.map { DyingBackend.Death(request: $0, isAfter: true) }
        print("deaths while an application is made anew, \(place): \(deaths.count)")
        for (number, death) in deaths.enumerated() {
            let backend = try await scene.restore()
            try await die(death, scene, backend)
            let comment = "\(place), \(death): \(requests[death.request].name)"
            try await scene.expectSound(backend, comment)
            try await comeNext(number, scene, backend, comment)
        }
    }

    /// What a whole run asks of the storage.
    private func requests(of scene: PasscodeScene) async throws -> [(name: String, isChange: Bool)] {
        let dying = DyingBackend(try await scene.restore())
        let setup = try scene.world.device("a", backend: dying).passcodeSetup()
        try await setup.begin()
        await dying.die(nil)
        try await setup.start(SyncStartMessage(passcode: PasscodeScene.newPasscode, action: .new))
        return await dying.requests
    }

    private func die(_ death: DyingBackend.Death, _ scene: PasscodeScene, _ backend: any RemoteBackend) async throws {
        let dying = DyingBackend(backend)
        let setup = try scene.world.device("a", backend: dying).passcodeSetup()
        try await setup.begin()
        await dying.die(death)
        let message = try SyncStartMessage(passcode: PasscodeScene.newPasscode, action: .new)
        _ = await code { try await setup.start(message) }
        #expect(await dying.isDead)
    }

    /// The device that died, another that was set up, or one that comes for the first time; with whichever passcode opens
    /// what there is, or with one for new data.
    private func comeNext(
        _ number: Int,
        _ scene: PasscodeScene,
        _ backend: any RemoteBackend,
        _ comment: String
    ) async throws {
        let device = try scene.world.device(["a", "b", "c"][number % 3], backend: backend)
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
                        ? SyncStartMessage(passcode: "third", action: .new)
                        : SyncStartMessage(passcode: passcode, action: .existing)
                )
            } catch let error as StoreSyncError where [.tampered, .deregistered].contains(error.code) {
                // The keys were behind the registration: the way out is new data.
                try await setup.start(SyncStartMessage(passcode: "third", action: .new))
            }
        }
        #expect(await setup.status.description == "ongoing, existing", "\(comment)")
        try await scene.expectDone(device, backend, comment)
    }
}
