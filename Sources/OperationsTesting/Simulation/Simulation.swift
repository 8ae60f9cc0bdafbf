import ThreadSupport

/// The environment in which a scenario runs: one thread, an order of jobs that a seed decides, and virtual time.
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
/// where the runtime doesn't allow that. Code that blocks a thread, or waits for another thread, doesn't belong to it:
/// inject ``executor`` wherever an executor can be injected, and ``clock`` for time.
public struct Simulation: Sendable {
    /// The executor of tasks and of blocking work.
    ///
    /// Inject it wherever an executor can be injected.
    public let executor: SimulatedExecutor
    /// The seed: the same seed gives the same run.
    ///
    /// In another process it does so only if the environment variable `SWIFT_DETERMINISTIC_HASHING` is set to 1 in both:
    /// otherwise the order of a `Set` or a `Dictionary` differs.
    public let seed: UInt64

    /// The simulated clock.
    ///
    /// `Task.sleep` uses it too, but computes its deadline from the real clock, which keeps running. Deadlines that differ by
    /// less than half a percent of the delay may rarely fire in either order, whatever the seed. On a busy machine a
    /// `Task.sleep` may also be taken for a shorter one. Where that matters, sleep on this clock and read the time from it.
    public var clock: SimulatedClock { executor.clock }

    /// Returns a number from 0 up to 1; all supervisors of the simulation share the sequence, so that they retry at different times.
    let randomFraction: @Sendable () -> Double

    init(seed: UInt64) {
        self.seed = seed
        let generator = Locked(SplitMix64(seed: seed))
        randomFraction = { generator.withLock { .random(in: 0..<1, using: &$0) } }
        executor = SimulatedExecutor(seed: seed)
    }

    /// The limits of one run.
    public struct Limits: Sendable {
        /// The maximum number of jobs; a run with more jobs counts as never ending.
        public var steps: Int
        /// How long to wait, in real time, for work that may have left the simulation, before nothing counts as runnable.
        ///
        /// It takes this time to report a deadlock.
        public var grace: Duration

        /// Creates limits.
        public init(steps: Int = 1_000_000, grace: Duration = .seconds(10)) {
            self.steps = steps
            self.grace = grace
        }
    }

    /// Runs `scenario` to its end, on a thread that only simulations use.
    ///
    /// Cancelling the calling task doesn't cancel anything in the simulation.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - limits: When to give up.
    ///   - beforeStep: Called before every job, and before every jump of the clock, with the number of jobs that ran. It can
    ///     cancel something at a given step.
    ///   - scenario: What to run. Tasks that it leaves behind run to their end, without sleeping any more.
    /// - Returns: What the scenario returns.
    /// - Throws: What the scenario throws; a ``SimulationError`` if it can't end.
    public static func run<Output: Sendable>(
        seed: UInt64,
        limits: Limits = Limits(),
        beforeStep: @escaping @Sendable (_ step: Int) -> Void = { _ in },
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) async throws -> Output {
        try await runBlocking(on: SimulationThread.next()) {
            try SimulationRun(seed: seed, limits: limits, scenario).run(beforeStep: beforeStep).result.get()
        }
    }
}
