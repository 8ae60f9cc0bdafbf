import OperationsTesting
import RemoteStorage

extension World {
    /// How many requests waited for each other while `body` ran on a device, at a backend at which each takes a second.
    func depth(
        of name: String,
        at backend: @escaping @Sendable (SimulatedClock) throws -> any RemoteBackend,
        _ body: @escaping @Sendable (Device) async throws -> Void
    ) async throws -> Int64 {
        try await Simulation.run(seed: 1) { simulation in
            let device = try self.device(name, backend: backend(simulation.clock), simulation: simulation)
            let start = simulation.clock.now
            try await body(device)
            return start.duration(to: simulation.clock.now).components.seconds
        }
    }
}
