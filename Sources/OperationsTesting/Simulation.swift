import ThreadSupport

/// A world in which a scenario runs: one thread, an order of jobs that follows from a seed, and virtual time.
public struct Simulation: Sendable {
    /// Where tasks, and work that blocks, run.
    ///
    /// Inject it wherever an executor can be injected.
    public let executor: SimulatedExecutor
    /// Simulated time.
    public let clock: SimulatedClock
    /// The seed: the same one gives the same run.
    public let seed: UInt64

    /// Why a simulation could not come to its end.
    public struct Stuck: Error, CustomStringConvertible {
        /// The seed with which it happens again.
        public let seed: UInt64
        /// How many jobs had run.
        public let step: Int

        /// Names the seed that shows it again.
        public var description: String {
            """
            nothing could run after step \(step) with seed \(seed), and the scenario hadn't ended: a deadlock, or work \
            that left the simulation (Task {}, @MainActor, a real timer)
            """
        }
    }

    /// A simulation computes without a pause, for long: it has a thread of its own, or tests beside it would starve.
    private static let thread = BlockingExecutor(label: "swift-store-sync.simulation", isSerial: true)

    /// Runs `scenario` to its end, on a thread that simulations share and nobody else.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - beforeStep: Called before every job with its number, from 0: the place to cancel something at.
    ///   - scenario: What to run. Its task and the default actors it calls run in the simulation.
    /// - Returns: What the scenario returns.
    /// - Throws: What the scenario throws, or ``Stuck``.
    public static func run<Output: Sendable>(
        seed: UInt64,
        beforeStep: @escaping @Sendable (_ step: Int) -> Void = { _ in },
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) async throws -> Output {
        try await runBlocking(on: thread) { try runHere(seed: seed, beforeStep: beforeStep, scenario) }
    }

    private static func runHere<Output: Sendable>(
        seed: UInt64,
        beforeStep: (_ step: Int) -> Void,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) throws -> Output {
        let simulation = Simulation(executor: SimulatedExecutor(seed: seed), clock: SimulatedClock(), seed: seed)
        let result = Locked<Result<Output, any Error>?>(nil)
        // Not detached: it inherits task-local values, by which what fails in it is told to be of the running test.
        let task = Task(executorPreference: simulation.executor) {
            let outcome: Result<Output, any Error>
            do {
                outcome = .success(try await scenario(simulation))
            } catch {
                outcome = .failure(error)
            }
            result.withLock { $0 = outcome }
        }
        var step = 0
        while true {
            if let outcome = result.withLock({ $0 }) {
                // What the scenario left behind runs out, so that no task of one seed lives into the next.
                while simulation.executor.runStep() {}
                return try outcome.get()
            }
            beforeStep(step)
            if simulation.executor.runStep() {
                step += 1
            } else if !simulation.clock.advance() {
                task.cancel()
                // What waits and honours cancellation ends here, so that a stuck seed leaves nothing behind.
                while simulation.executor.runStep() {}
                throw Stuck(seed: seed, step: step)
            }
        }
    }
}
