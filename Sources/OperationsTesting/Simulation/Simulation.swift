import ThreadSupport

/// A world in which a scenario runs: one thread, an order of jobs that follows from a seed, and virtual time.
///
/// ```swift
/// try await Simulation.explore(seeds: 0..<1000) { simulation in
///     let account = Account(balance: 100)
///     async let first: Void = account.withdraw(80)
///     async let second: Void = account.withdraw(80)
///     _ = try await (first, second)
///     try #require(await account.balance >= 0)
/// }
/// ```
///
/// Everything that the scenario does with Swift concurrency belongs to the simulation; ``SimulationCapabilities`` tells
/// where a runtime doesn't allow that. What blocks a thread, or waits for another one, doesn't: inject ``executor``
/// wherever an executor can be injected, and ``clock`` for time.
public struct Simulation: Sendable {
    /// Where tasks, and work that blocks, run.
    ///
    /// Inject it wherever an executor can be injected.
    public let executor: SimulatedExecutor
    /// The seed: the same one gives the same run.
    public let seed: UInt64

    /// Simulated time.
    ///
    /// `Task.sleep` sleeps by it too. It asks the real clock when to wake up, though, which goes on: deadlines that lie
    /// closer together than half a percent of the delay may come in either order, rarely, whatever the seed. Sleep on this
    /// clock where that matters, and ask it for the time.
    public var clock: SimulatedClock { executor.clock }

    init(seed: UInt64) {
        self.seed = seed
        executor = SimulatedExecutor(seed: seed)
    }

    /// The limits of one run.
    public struct Limits: Sendable {
        /// After how many jobs a run counts as one that never ends.
        public var steps: Int
        /// How long to wait, in real time, for work that may have left the simulation before saying that nothing can run.
        public var grace: Duration

        /// Creates limits.
        public init(steps: Int = 1_000_000, grace: Duration = .seconds(1)) {
            self.steps = steps
            self.grace = grace
        }
    }

    /// Runs `scenario` to its end, on a thread that only simulations use.
    ///
    /// Cancelling the task that calls this doesn't reach into the simulation.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - limits: When to give up.
    ///   - beforeStep: Called before every job, and before every jump of the clock, with the number of jobs that ran: the
    ///     place to cancel something at.
    ///   - scenario: What to run. What it leaves running when it returns is run out, without any more sleep.
    /// - Returns: What the scenario returns.
    /// - Throws: What the scenario throws; a ``SimulationError`` if it can't come to an end.
    public static func run<Output: Sendable>(
        seed: UInt64,
        limits: Limits = Limits(),
        beforeStep: @escaping @Sendable (_ step: Int) -> Void = { _ in },
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) async throws -> Output {
        try await runBlocking(on: SimulationThread.next) {
            try SimulationRun(seed: seed, limits: limits, scenario).run(beforeStep: beforeStep).result.get()
        }
    }
}
