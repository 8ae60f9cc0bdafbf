public import Operations
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Checks that your operation keeps the promises of every operation.
///
/// ```swift
/// @Test func keepsItsPromises() async throws {
///     try await OperationConformance.check { simulation in Upload(to: server(simulation)) }
/// }
/// ```
///
/// Under every seed the operation runs once without a cancellation. Then it runs repeatedly, cancelled before its first
/// job, its second, and so on until it ends before the cancellation comes. In every run:
/// - phases come in order: the start, any progress, exactly one ending; they don't overlap, and none follows the ending;
/// - the operation ends; if cancelled, it ends soon, as cancelled or, if it was done, as finished; never as failed, unless
///   it also fails when left alone;
/// - it ends as cancelled only if it was cancelled;
/// - progress never falls, stays below 1 until success, and isn't reported after `main` is over;
/// - nothing is left in its supervisor's temporary directory;
/// - no task of it sleeps on the simulation's clock or runs on for hundreds of jobs after its end;
/// - its supervisor runs the next operation.
public enum OperationConformance {
    /// The statistics of a check.
    public struct Report: Sendable, CustomStringConvertible {
        /// The number of runs without a cancellation.
        public var undisturbedRuns = 0
        /// The number of runs in which the cancellation came before the end.
        public var cancelledRuns = 0
        /// How many runs ended in each state.
        public var endings: [OperationState: Int] = [:]
        /// The seeds with runs that depended on more than the seed, with the first escape of each.
        public var escapes: [UInt64: SimulationEscape] = [:]

        /// The numbers, and the seeds whose runs can't be replayed.
        public var description: String {
            let endings = endings.map { "\($0.value) \($0.key)" }.sorted().joined(separator: ", ")
            let runs = "\(undisturbedRuns) runs, \(cancelledRuns) more cancelled, each at a different point: \(endings)"
            guard let (seed, escape) = escapes.min(by: { $0.key < $1.key }) else { return runs }
            return "\(runs)\n  runs of \(escapes.count) seeds can't be replayed: with seed \(seed), \(escape)"
        }
    }

    /// Checks an operation.
    ///
    /// - Parameters:
    ///   - seeds: The seeds, finitely many; each decides one order of jobs, in which the operation is cancelled at every point.
    ///   - patience: How long a cancelled operation may take to end, in simulated time.
    ///   - limits: When to give up a run.
    ///   - fileID: The file of the test, for the command that replays a failure.
    ///   - function: The test's function, for that command.
    ///   - make: Creates the operation and the objects it works on, for one run. Give the simulation's executor and clock to
    ///     everything that runs elsewhere or takes time.
    /// - Returns: The statistics of the check.
    /// - Throws: A ``SimulationError`` that names the broken promise and has a command to replay it; what `make` throws;
    ///   `CancellationError` between two runs if the task is cancelled; the file system's error if no directory can be created.
    @discardableResult
    public static func check<Work: Operation>(
        seeds: some Sequence<UInt64> = 0..<5 as Range<UInt64>,
        patience: Duration = .seconds(60),
        limits: Simulation.Limits = Simulation.Limits(steps: 100_000),
        fileID: String = #fileID,
        function: String = #function,
        _ make: @escaping @Sendable (Simulation) async throws -> Work
    ) async throws -> Report {
        let place = FileManager.default.temporaryDirectory
            .appending(path: "operation-conformance-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: place) }
        var report = Report()
        for seed in Simulation.replayedSeed.map({ [$0] }) ?? Array(seeds) {
            func run(
                cancelledBefore step: Int?,
                _ undisturbed: OperationState?
            ) async throws -> OperationTrial<Work>.Ending {
                try Task.checkCancellation()
                let trial = OperationTrial(seed: seed, step: step, patience: patience, place: place, make)
                do {
                    let ending = try await runBlocking(on: SimulationThread.next()) {
                        try trial.run(limits, undisturbed: undisturbed)
                    }
                    report.endings[ending.state, default: 0] += 1
                    report.escapes[seed] = report.escapes[seed] ?? ending.escape
                    return ending
                } catch var error as SimulationError {
                    error.replay = SimulationError.replayCommand(seed: seed, fileID, function)
                    throw error
                }
            }
            let undisturbed = try await run(cancelledBefore: nil, nil).state
            report.undisturbedRuns += 1
            var step = 0
            while try await run(cancelledBefore: step, undisturbed).wasCancelled {
                report.cancelledRuns += 1
                step += 1
            }
        }
        return report
    }
}
