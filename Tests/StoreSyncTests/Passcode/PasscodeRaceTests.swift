import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("Passcodes of several devices at once", .serialized, .timeLimit(.minutes(60)))
struct PasscodeRaceTests {
    /// How many orders are tried, as the environment says; then cancellations come at every step.
    private static let wanted = ProcessInfo.processInfo.environment["STORESYNC_PASSCODE_SEEDS"].flatMap(UInt64.init)
    private static let seeds = wanted ?? 6
    private static let places: [PasscodePlace] = [.folder, .memoryWithoutDirectoryMoves]

    /// Gives a passcode; what's thrown is a clear reason.
    private static func start(
        _ setup: PasscodeSetup,
        _ passcode: String,
        _ action: SyncStartMessage.Action,
        _ comment: String
    ) async throws -> Bool {
        do {
            try await setup.start(SyncStartMessage(passcode: passcode, action: action))
            #expect(await setup.status.description == "ongoing, existing", "\(comment)")
            return true
        } catch let error as StoreSyncError {
            let clear: Set<StoreSyncError.Code> = [
                .applicationChanged, .applicationMissing, .applicationIncomplete, .busy, .wrongPassword, .tampered,
                .deregistered,
            ]
            #expect(clear.contains(error.code), "\(comment): \(error)")
            #expect(await setup.setupState == .syncRequired, "\(comment)")
            return false
        }
    }

    @Test(
        "B12: two devices that begin anew at once: one wins, the other is told, and takes the winner's passcode",
        arguments: places
    )
    func twoBeginAnew(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        var wins = [0, 0, 0]
        for seed in 0..<Self.seeds {
            let won = try await Simulation.run(seed: seed) { simulation in
                let comment = "\(place), seed \(seed)"
                let backend = try await scene.restore(simulation.executor)
                let devices = try ["a", "b"].map {
                    try scene.world.device($0, backend: backend, simulation: simulation)
                }
                let setups = devices.map { $0.passcodeSetup() }
                for setup in setups { try await setup.begin() }
                async let first = Self.start(setups[0], "first", .new, comment)
                async let second = Self.start(setups[1], "second", .new, comment)
                let won = try await [first, second]
                #expect(won != [false, false], "\(comment)")
                try await scene.expectSound(backend, comment, in: simulation)

                // Whoever stands now has one passcode, and the other device gets in by it; or by another new one, where it lost
                // after the winner was through.
                let standing = try await devices[0].epoch()
                let winners = try zip(devices, setups).filter { device, _ in
                    try device.state.pin(for: device.key)?.epoch == standing
                }
                #expect(winners.count == 1, "\(comment)")
                let isFirst = winners.first?.0.name == "a"
                let loser = setups[isFirst ? 1 : 0]
                try await loser.begin()
                if try await !Self.start(loser, isFirst ? "first" : "second", .existing, comment) {
                    Issue.record("\(comment): \(await loser.status)")
                }
                try await scene.expectDone(devices[0], backend, comment)
                return won
            }
            wins[won == [true, true] ? 2 : won[0] ? 0 : 1] += 1
        }
        print("begun anew at once, \(place): a \(wins[0]), b \(wins[1]), one after the other \(wins[2])")
    }

    @Test("B7: two devices that find nothing and make data at once: one does, the other is told", arguments: places)
    func twoMakeData(place: PasscodePlace) async throws {
        for seed in 0..<Self.seeds / 2 {
            try await Simulation.run(seed: seed) { simulation in
                let comment = "\(place), seed \(seed)"
                let world = try World()
                let backend = place.backend(world, simulation.executor)
                let setups = try ["a", "b"].map {
                    try world.device($0, backend: backend, simulation: simulation).passcodeSetup()
                }
                for setup in setups { try await setup.begin() }
                async let first = Self.start(setups[0], "first", .new, comment)
                async let second = Self.start(setups[1], "second", .new, comment)
                let won = try await [first, second]
                #expect(won.filter { $0 }.count == 1, "\(comment): \(won)")
                let loser = setups[won[0] ? 1 : 0]
                try await loser.begin()
                #expect(try await Self.start(loser, won[0] ? "first" : "second", .existing, comment), "\(comment)")
            }
        }
    }

    @Test(
        "F17, D1, B11: cancelled at every suspension point, an attempt ends once, and the next one succeeds",
        arguments: places
    )
    func cancelledAnywhere(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        var (step, wasReached) = (0, true)
        while wasReached {
            let point = CancellationPoint(step: step)
            try await Simulation.run(seed: 1, cancellingAt: point) { [step] simulation in
                let comment = "\(place), step \(step)"
                let backend = try await scene.restore(simulation.executor)
                let device = try scene.world.device("a", backend: backend, simulation: simulation)
                let setup = device.passcodeSetup()
                try await setup.begin()
                point.arm { device.supervisor.cancelAll() }
                do {
                    try await setup.start(SyncStartMessage(passcode: PasscodeScene.newPasscode, action: .new))
                    #expect(await setup.status.description == "ongoing, existing", "\(comment)")
                } catch {
                    #expect(error is CancellationError, "\(comment): \(error)")
                    #expect(await setup.status.setupState == .syncRequired, "\(comment)")
                    #expect(await setup.syncError == nil, "\(comment)")
                }
                point.disarm()
                try await scene.expectSound(backend, comment, in: simulation)
                try await setup.begin()
                if await setup.setupState == .syncRequired {
                    try await setup.start(SyncStartMessage(passcode: "third", action: .new))
                }
                #expect(await setup.status.description == "ongoing, existing", "\(comment)")
                try await scene.expectDone(device, backend, comment)
            }
            wasReached = point.wasReached
            // A prime, so that repetitions in the order hide nothing.
            step += Self.wanted == nil ? 7 : 1
        }
        #expect(step > 20)
        print("cancelled while an application is made anew, \(place): \(step) steps")
    }
}
