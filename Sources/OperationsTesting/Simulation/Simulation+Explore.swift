import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The statistics of an exploration.
public struct Exploration: Sendable, CustomStringConvertible {
    /// How many runs there were.
    public var runs = 0
    /// How many different orders of jobs were among them.
    public var distinctOrders = 0
    /// How many jobs ran in total.
    public var steps = 0
    /// The traces of all runs in one number, the same in every process.
    public var fingerprint: UInt64 = 0
    /// The seeds whose runs depended on more than the seed, with the first escape of each.
    public var escapes: [UInt64: SimulationEscape] = [:]

    /// The numbers, and what couldn't be simulated.
    public var description: String {
        var lines = ["\(runs) runs, \(distinctOrders) different orders, \(steps) steps"]
        if let (seed, escape) = escapes.min(by: { $0.key < $1.key }) {
            lines.append("  \(escapes.count) of them can't be replayed: with seed \(seed), \(escape)")
        }
        lines += SimulationCapabilities.current.limitations.map { "  \($0)" }
        return lines.joined(separator: "\n")
    }
}

extension Simulation {
    /// The environment variable that limits explorations to one seed, to replay a failure.
    public static let seedVariable = "SIMULATION_SEED"

    /// The seed that ``seedVariable`` names.
    static var replayedSeed: UInt64? {
        ProcessInfo.processInfo.environment[seedVariable].map { value in
            guard let seed = UInt64(value) else {
                fatalError(
                    "\(seedVariable) is \"\(value)\", which isn't a seed. Set it to a number from 0 on, or unset it."
                )
            }
            return seed
        }
    }

    /// Runs `scenario` under many seeds and throws the first failure, with the command that replays it.
    ///
    /// A run fails if the scenario throws: use `try #require` for what must hold. (A failed `#expect` is recorded as an
    /// issue of the test, but doesn't stop the exploration and names no seed.) A run also fails if it can't end.
    ///
    /// It explores orders of jobs, not every interleaving: an actor may process several calls in one job. It can't explore
    /// orders that depend on code that isn't simulated.
    ///
    /// A scenario should end the tasks it starts: a task that never ends costs 10,000 jobs and its memory with every seed.
    ///
    /// - Parameters:
    ///   - seeds: The seeds, finitely many; each decides one order. The environment variable ``seedVariable`` overrides
    ///     them, and must be a number.
    ///   - limits: When to give up a run.
    ///   - fileID: The file of the test, for the command.
    ///   - function: The test's function, for the command.
    ///   - scenario: What to run for each seed.
    /// - Returns: The statistics of all runs.
    /// - Throws: The ``SimulationError`` of the first seed that fails; `CancellationError` between two seeds if the task
    ///   is cancelled.
    @discardableResult
    public static func explore(
        seeds: some Sequence<UInt64>,
        limits: Limits = Limits(),
        fileID: String = #fileID,
        function: String = #function,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws -> Exploration {
        var remaining = (replayedSeed.map { [$0] } ?? Array(seeds))[...]
        var exploration = Exploration()
        var fingerprints: Set<UInt64> = []
        while !remaining.isEmpty {
            try Task.checkCancellation()
            // Simulations share their threads: a long exploration yields to others regularly.
            let batch = try await runBlocking(on: SimulationThread.next()) { [remaining] in
                let end = ContinuousClock.now + .milliseconds(20)
                var batch: [SimulationRun<Void>.Outcome] = []
                for seed in remaining {
                    let run = SimulationRun(seed: seed, limits: limits, scenario)
                    let outcome = run.run()
                    if case .failure(let error) = outcome.result {
                        throw SimulationError(error, run.simulation, outcome.trace, fileID, function)
                    }
                    batch.append(outcome)
                    if ContinuousClock.now >= end { break }
                }
                return batch
            }
            for (seed, outcome) in zip(remaining, batch) {
                exploration.runs += 1
                exploration.steps += outcome.trace.count
                exploration.fingerprint.mix(outcome.trace.fingerprint)
                exploration.escapes[seed] = outcome.escapes.first
                fingerprints.insert(outcome.trace.fingerprint)
            }
            remaining = remaining.dropFirst(batch.count)
        }
        exploration.distinctOrders = fingerprints.count
        return exploration
    }
}

extension SimulationError {
    /// The error of a run, with the command that replays it.
    fileprivate init(
        _ error: any Error,
        _ simulation: Simulation,
        _ trace: SimulationTrace,
        _ fileID: String,
        _ function: String
    ) {
        self = error as? SimulationError ?? Self(.scenarioFailed, error.summary, simulation, cause: error)
        self.trace = trace
        replay = Self.replayCommand(seed: simulation.seed, fileID, function)
    }
}

extension Error {
    /// The error in one line.
    fileprivate var summary: String {
        // Swift Testing, on which this module doesn't depend, has already recorded which requirement failed, and where.
        guard String(describing: type(of: self)) != "ExpectationFailedError" else {
            return "a requirement isn't met: see the recorded issue"
        }
        return String("\(self)".prefix(500))
    }
}
