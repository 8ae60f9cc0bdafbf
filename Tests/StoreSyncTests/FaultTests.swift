import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@testable import StoreSync

/// Every kind of storage with its faults, and devices that die during an operation.
///
/// A seed determines what happens, and a failure names its seed.
@Suite("Storage that misbehaves", .timeLimit(.minutes(60)))
struct FaultTests {
    private static let seeds = TestDepth.seeds(quick: 1, deep: 400)

    /// The scenarios that don't choose capabilities themselves, because the storage has its own here.
    static let scenarios = CrashTests.scenarios.filter { $0.capabilities == nil }

    private static let sealing: [SimulatedServer] = [.apache, .rclone, .eventual]

    /// Whether a storage lacks the capability that publishing safely requires.
    private static func refuses(_ server: SimulatedServer) -> Bool {
        !server.capabilities.contains(.exclusiveCreate)
    }

    @Test(
        "F2 F10 F20 D10 D13: After faults and a crash the former or the new state exists, and the next run completes",
        arguments: SimulatedServer.all,
        scenarios
    )
    func dying(server: SimulatedServer, scenario: CrashTests.Scenario) async throws {
        for seed in Self.seeds {
            // Deriving keys takes far longer than all the rest, so sealed scenarios run with few seeds, on few servers.
            guard !scenario.isSealed || seed % 16 == 0 && (TestDepth.isDeep || Self.sealing.contains(server)) else {
                continue
            }
            try await Simulation.run(seed: seed) { simulation in
                let run = try FaultRun(server, scenario, seed, simulation)
                if Self.refuses(server) { try await run.isRefused() } else { try await run.dieAndRunAgain() }
            }
        }
    }

    @Test(
        "D16 D17: No order of pushes and pulls under faults loses a note that was pushed",
        arguments: SimulatedServer.all
    )
    func histories(server: SimulatedServer) async throws {
        guard !Self.refuses(server) else { return }
        for seed in TestDepth.seeds(quick: 1, deep: 1_200) {
            try await Simulation.run(seed: seed) { simulation in
                try await FaultHistory(server, seed, simulation).run()
            }
        }
    }

    @Test("D16: A device that knows a remote never takes it for an empty one when it has vanished")
    func vanishing() async throws {
        for how in [SimulatedBackend.Disappearance.empty, .unreachable] {
            let place = InMemoryBackend()
            let fixture = try Fixture(place: place)
            let backend = SimulatedBackend(.aws, storage: place)
            let device = try fixture.device("a", backend: backend)
            try await device.push(adding: "one")
            try device.write("two")
            await backend.vanish(how)
            let expected: StoreSyncError.Code = how == .empty ? .applicationMissing : .remoteUnavailable
            #expect(await code { try await device.push().value } == expected)
            #expect(await code { try await device.pull(overwrite: true).value } == expected)
            #expect(try device.notes() == ["one", "two"])
            await backend.reappear()
            #expect(try await device.push().value.generation == 2)
        }
    }
}

/// One scenario on one kind of storage, with one seed.
private struct FaultRun {
    let fixture: Fixture
    let scenario: CrashTests.Scenario
    let backend: SimulatedBackend
    let faults: FaultModel
    let comment: String
    private var generator: SplitMix64

    init(
        _ server: SimulatedServer,
        _ scenario: CrashTests.Scenario,
        _ seed: UInt64,
        _ simulation: Simulation
    ) throws {
        let place = InMemoryBackend(identity: "simulated:", capabilities: server.capabilities)
        fixture = try Fixture(
            password: scenario.isSealed ? "correct horse" : nil,
            place: place,
            simulation: simulation
        )
        self.scenario = scenario
        backend = SimulatedBackend(server, seed: seed, storage: place, clock: simulation.clock)
        var faults = server.faults([0.02, 0, 0.05, 0.01][Int(seed % 4)])
        faults.clockSkew = seed % 2 == 0 ? .seconds(366 * 86_400) : .zero
        self.faults = faults
        generator = SplitMix64(seed: seed &* 31 &+ UInt64(scenario.leastPoints))
        comment = "\(server), \(scenario.testDescription), seed \(seed)"
    }

    /// Checks that nothing is published where publishing isn't safe.
    func isRefused() async throws {
        let codes = await outcome(of: scenario.prepare)
        let code = if let codes { codes } else { await outcome { _ in try await scenario.act(device()) } }
        #expect(code == nil || code == .unsupportedStorage, "\(comment)")
        #expect(code != nil || scenario.pulledAtEnd == nil, "\(comment)")
    }

    func dieAndRunAgain() async throws {
        var generator = generator
        try await scenario.prepare(fixture)
        await backend.set(faults)
        await backend.die(afterRequests: Int.random(in: 0..<scenario.leastPoints, using: &generator))
        _ = await outcome { _ in try await scenario.act(device()) }
        try await CrashTests().inspect(fixture, scenario, comment)
        await backend.set(.none)
        await backend.revive()
        do {
            try await scenario.act(device())
        } catch {
            Issue.record("\(comment): the second run failed: \(error)\n\(await backend.log.joined(separator: "\n"))")
            return
        }
        try await checkEnd()
    }

    private func device() throws -> Device { try fixture.device("a", backend: backend) }

    /// Returns the code of the ``StoreSyncError`` that `body` throws, and records any other error as an issue.
    private func outcome(of body: (Fixture) async throws -> Void) async -> StoreSyncError.Code? {
        do {
            try await body(fixture)
            return nil
        } catch let error as StoreSyncError {
            return error.code
        } catch {
            Issue.record("\(comment): \(error)")
            return nil
        }
    }

    private func checkEnd() async throws {
        let a = try device()
        _ = try await a.verify(repairs: true).value
        let report = try await a.verify().value
        #expect(report.problems.isEmpty, "\(comment): \(report)")
        if let expected = scenario.inStoreAtEnd { #expect(try a.notes() == expected, "\(comment)") }
        guard let expected = scenario.pulledAtEnd else { return }
        let latecomer = try fixture.device("latecomer")
        _ = try await latecomer.pull().value
        #expect(try latecomer.notes() == expected, "\(comment)")
    }
}

/// Two devices that push and pull in a random order, each over a connection with faults of its own.
private struct FaultHistory {
    let fixture: Fixture
    let comment: String
    private let connections: [SimulatedBackend]
    private let server: SimulatedServer
    private let seed: UInt64

    init(_ server: SimulatedServer, _ seed: UInt64, _ simulation: Simulation) throws {
        let place = InMemoryBackend(identity: "simulated:", capabilities: server.capabilities)
        fixture = try Fixture(place: place, simulation: simulation)
        connections = (0..<2).map {
            SimulatedBackend(server, seed: seed &* 2 &+ $0, storage: place, clock: simulation.clock)
        }
        (self.server, self.seed) = (server, seed)
        comment = "\(server), seed \(seed)"
    }

    func run() async throws {
        var generator = SplitMix64(seed: seed)
        let devices = try zip(["a", "b"], connections).map { try fixture.device($0, backend: $1) }
        for connection in connections { await connection.set(server.faults(0.03)) }
        /// The notes that each device has, and the notes that others may find: its last push, or a failed push since.
        var local: [Set<String>] = [[], []]
        var published: [[Set<String>]] = [[], []]
        var clients: [RemoteIdentifier?] = [nil, nil]
        for step in 0..<8 {
            let number = Int.random(in: 0...1, using: &generator)
            let device = devices[number]
            if Bool.random(using: &generator) || local[number].isEmpty {
                try device.write("note \(step)")
                local[number].insert("note \(step)")
                do {
                    clients[number] = try await device.push().value.client
                    published[number] = [local[number]]
                } catch is StoreSyncError {
                    published[number].append(local[number])
                }
            } else {
                let before = try device.notes()
                do {
                    _ = try await device.pull().value
                    #expect(try device.notes().isSuperset(of: before), "\(comment): a pull lost a note")
                } catch is StoreSyncError {
                    #expect(try device.notes() == before, "\(comment): a pull that failed changed the store")
                }
                local[number] = try device.notes()
            }
        }
        for connection in connections { await connection.set(.none) }
        for (client, published) in zip(clients, published) {
            guard let client else { continue }
            let reader = try fixture.device("reader of \(client)")
            _ = try await reader.pull(from: client).value
            let notes = try reader.notes()
            #expect(published.contains(notes), "\(comment): \(notes), none of \(published)")
        }
    }
}
