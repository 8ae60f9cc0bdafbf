import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@Suite("Devices that edit at once, on storage that misbehaves", .timeLimit(.minutes(600)))
struct SynchronizationHistoryTests {
    @Test(
        "After all devices have synchronized, their stores are equal, and each edit is there, overwritten or logged",
        arguments: SimulatedServer.all
    )
    func histories(server: SimulatedServer) async throws {
        guard server.capabilities.contains(.exclusiveCreate) else { return }
        // In seed 3784 the storage loses the head of a device that is removed afterwards; in seed 7010 it hides the origin and the
        // file of a device from the device that removes it.
        for seed in TestDepth.seeds(quick: 0, deep: 10_000, besides: [3784, 7010]) {
            try await Simulation.run(seed: seed) { simulation in
                try await SynchronizationHistory(server, seed, simulation).run()
            }
        }
    }

    @Test("The same seed gives the same history, except for the names of files")
    func replay() async throws {
        func outcome(_ seed: UInt64) async throws -> (log: [String], content: [String]) {
            try await Simulation.run(seed: seed) { simulation in
                let history = try SynchronizationHistory(.eventual, seed, simulation)
                try await history.run()
                // Identifiers, and the time of a file that was kept.
                let names = /[0-9A-Fa-f-]{16,}|[0-9]{8}T[0-9]{6}Z/
                let log = history.log.map { $0.replacing(names, with: "…") }
                return (log, try history.content(history.members[0]))
            }
        }
        // In seed 38 it depends on the clients' identifiers what the devices do.
        for seed in TestDepth.seeds(quick: 0, ci: 1, deep: 100, besides: [38]) {
            let (first, second) = (try await outcome(seed), try await outcome(seed))
            #expect(first.log == second.log, "seed \(seed)")
            #expect(first.content == second.content, "seed \(seed)")
        }
    }
}
