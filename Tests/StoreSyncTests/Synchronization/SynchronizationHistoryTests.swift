import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import TestSupport
import Testing

@Suite("Devices that edit at once, on storage that misbehaves", .timeLimit(.minutes(600)))
struct SynchronizationHistoryTests {
    @Test(
        "After all devices have synchronized, their stores are equal, and every edit is there, overwritten or in a conflict log",
        arguments: SimulatedServer.all
    )
    func histories(server: SimulatedServer) async throws {
        guard server.capabilities.contains(.exclusiveCreate) else { return }
        for seed in TestDepth.seeds(quick: 1, ci: 2, deep: 10_000) {
            try await Simulation.run(seed: seed) { simulation in
                try await SynchronizationHistory(server, seed, simulation).run()
            }
        }
    }
}
