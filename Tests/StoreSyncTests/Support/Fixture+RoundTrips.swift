import OperationsTesting
import RemoteStorage

extension Fixture {
    /// Returns the length of the longest chain of requests that waited for each other while `body` ran on a device.
    ///
    /// Every request at `backend` takes a second of simulated time.
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
