import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import SyncCryptography
import TestSupport
import Testing

@testable import StoreSync

@Suite("Passcodes of concurrent devices", .timeLimit(.minutes(60)))
struct PasscodeRaceTests {
    private static let seeds = TestDepth.seeds(quick: 2, deep: 500)
    private static let places: [PasscodePlace] = [.folder, .memoryWithoutDirectoryMoves]

    /// Starts a setup, checks that a failure has a clear reason, and returns whether it succeeded.
    private static func start(
        _ setup: PasscodeSetup,
        _ passcode: String,
        _ action: SyncStartMessage.Action,
        _ comment: String
    ) async throws -> Bool {
        do {
            try await setup.start(passcode, action)
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
        "B12: If two devices start over concurrently, one wins, and the other is told and joins by its passcode",
        arguments: places
    )
    func twoReplace(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        var wins = [0, 0, 0]
        for seed in Self.seeds {
            let won = try await Simulation.run(seed: seed) { simulation in
                let comment = "\(place), seed \(seed)"
                let backend = try await scene.restore(simulation.executor)
                let devices = try ["a", "b"].map {
                    try scene.fixture.device($0, backend: backend, simulation: simulation)
                }
                let setups = devices.map { $0.passcodeSetup() }
                for setup in setups { try await setup.begin() }
                async let first = Self.start(setups[0], "first", .new, comment)
                async let second = Self.start(setups[1], "second", .new, comment)
                let won = try await [first, second]
                #expect(won != [false, false], "\(comment)")
                try await scene.expectSound(backend, comment, in: simulation)

                // The remaining application has one passcode, by which the other device joins. That device has lost the
                // race, or has succeeded first and was replaced by the winner.
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
        print("started over concurrently, \(place): a \(wins[0]), b \(wins[1]), one after the other \(wins[2])")
    }

    @Test("B7: If two devices create data concurrently, one succeeds and the other is told", arguments: places)
    func twoMakeData(place: PasscodePlace) async throws {
        for seed in TestDepth.seeds(quick: 1, deep: 250) {
            try await Simulation.run(seed: seed) { simulation in
                let comment = "\(place), seed \(seed)"
                let fixture = try Fixture()
                let backend = place.backend(fixture, simulation.executor)
                let setups = try ["a", "b"].map {
                    try fixture.device($0, backend: backend, simulation: simulation).passcodeSetup()
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
        "F17, D1, B11: An attempt that is cancelled at any suspension point ends once, and the next one succeeds",
        arguments: places
    )
    func cancelledAnywhere(place: PasscodePlace) async throws {
        let scene = try await PasscodeScene(place)
        // Primes, so that steps that recur at regular intervals aren't all skipped.
        let stride = TestDepth.choose(quick: 53, deep: 1)
        var (step, wasReached) = (0, true)
        while wasReached {
            let point = CancellationPoint(step: step)
            try await Simulation.run(seed: 1, cancellingAt: point) { [step] simulation in
                let comment = "\(place), step \(step)"
                let backend = try await scene.restore(simulation.executor)
                let device = try scene.fixture.device("a", backend: backend, simulation: simulation)
                let setup = device.passcodeSetup()
                try await setup.begin()
                point.arm { device.supervisor.cancelAll() }
                do {
                    try await setup.start(PasscodeScene.newPasscode, .new)
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
                    try await setup.start("third", .new)
                }
                #expect(await setup.status.description == "ongoing, existing", "\(comment)")
                try await scene.expectDone(device, backend, comment)
            }
            wasReached = point.wasReached
            step += stride
        }
        // The last run came too late to cancel anything.
        #expect(step - stride > 20)
        print("cancelled while an application is created again, \(place): \(step) steps")
    }

    @Test("A device that replaces its data while another operation of it reads the files isn't deregistered")
    func replacedMeanwhile() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("a")
        try await device.setUp("first", .new)
        // Another process of the same device.
        let other = try fixture.device("a")
        let waiting = WaitingBackend(fixture.remote) {
            await #expect(throws: Never.self) { _ = try await other.setUp("second", .new) }
        }
        let former = try await device.epoch()
        #expect(try await device.changePassword(to: "third", through: waiting) == 2)
        #expect(try await device.epoch() != former)
    }
}

/// A storage that answers no read before something has happened, which the first of them begins.
private actor WaitingBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let meanwhile: @Sendable () async -> Void
    private var work: Task<Void, Never>?

    init(_ base: any RemoteBackend, meanwhile: @escaping @Sendable () async -> Void) {
        (self.base, self.meanwhile) = (base, meanwhile)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        let work = self.work ?? Task { [meanwhile] in await meanwhile() }
        self.work = work
        await work.value
        return try await base.read(path, range: range)
    }
}
