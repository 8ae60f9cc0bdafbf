import Synchronization
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The threads of simulations: one for each core.
///
/// A simulation computes for long without a pause. On Swift's own pool, other tests would starve.
enum SimulationThread {
    private static let executors = (0..<ProcessInfo.processInfo.activeProcessorCount).map {
        BlockingExecutor(label: "swift-store-sync.simulation-\($0)", maximumThreads: 1)
    }
    private static let uses = Atomic(0)

    /// Returns the thread for the next simulation: they take turns.
    static func next() -> BlockingExecutor {
        executors[uses.wrappingAdd(1, ordering: .relaxed).oldValue % executors.count]
    }
}

/// One run of a scenario: its loop and its cleanup.
struct SimulationRun<Output: Sendable> {
    let simulation: Simulation
    private let limits: Simulation.Limits
    private let scenario: @Sendable (Simulation) async throws -> Output
    private let result = Locked<Result<Output, any Error>?>(nil)

    init(
        seed: UInt64,
        limits: Simulation.Limits,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) {
        simulation = Simulation(seed: seed)
        self.limits = limits
        self.scenario = scenario
    }

    /// How a run ended.
    struct Outcome: Sendable {
        /// What the scenario returned or threw, or a ``SimulationError`` if it couldn't end.
        var result: Result<Output, any Error>
        /// The choices until the end.
        var trace: SimulationTrace
        /// When work came back that had left the simulation.
        var escapes: [SimulationEscape]
        /// How many tasks still slept.
        var sleeperCount: Int
        /// How many jobs ran after the end.
        var leftoverSteps: Int
    }

    /// Runs the scenario on this thread.
    func run(beforeStep: (_ step: Int) -> Void = { _ in }) -> Outcome {
        simulation.executor.withCurrent {
            simulation.executor.beginSimulating()
            let task = start()
            let result = loop(beforeStep)
            var outcome = Outcome(
                result: result,
                trace: simulation.executor.trace,
                escapes: simulation.executor.escapes,
                sleeperCount: simulation.clock.sleeperCount,
                leftoverSteps: 0
            )
            task.cancel()
            outcome.leftoverSteps = runOut()
            return outcome
        }
    }

    private func start() -> Task<Void, Never> {
        // Not detached: the task inherits task-local values, which attribute failures in it to the running test.
        Task(executorPreference: simulation.executor) { [simulation, scenario, result] in
            let outcome: Result<Output, any Error>
            do {
                outcome = .success(try await scenario(simulation))
            } catch {
                outcome = .failure(error)
            }
            result.withLock { $0 = outcome }
        }
    }

    private func loop(_ beforeStep: (_ step: Int) -> Void) -> Result<Output, any Error> {
        var step = 0
        while step < limits.steps {
            if let outcome = result.withLock({ $0 }) { return outcome }
            beforeStep(step)
            if simulation.executor.runStep() {
                step += 1
            } else if !simulation.clock.advance(), !simulation.executor.awaitForeignJob(limits.grace) {
                return .failure(SimulationError.stuck(simulation))
            }
        }
        return result.withLock { $0 } ?? .failure(SimulationError.tooManySteps(simulation))
    }

    /// Runs the tasks that the scenario left behind to their end, so that no task of one seed continues under the next.
    ///
    /// Tasks that don't end although they can't sleep are left. Returns how many jobs ran.
    private func runOut() -> Int {
        var steps = 0
        while steps < 10_000 {
            if simulation.executor.runStep() {
                steps += 1
            } else if simulation.clock.hasTimers {
                simulation.clock.finish()
            } else if !simulation.executor.waits.cancelAll() {
                break
            }
        }
        return steps
    }
}
