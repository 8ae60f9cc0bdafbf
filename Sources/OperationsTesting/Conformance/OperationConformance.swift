public import Operations
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Checks of what every operation promises, for yours.
///
/// ```swift
/// @Test func keepsItsPromises() async throws {
///     try await OperationConformance.check { simulation in Upload(to: server(simulation)) }
/// }
/// ```
///
/// Under every seed the operation runs once undisturbed, and then again and again, cancelled before its first job, its
/// second, and so on until it ends before the cancellation comes. In every run:
/// - phases come in order: the start, any progress, exactly one ending, of which nothing overlaps or follows another;
/// - it ends; cancelled it ends as cancelled or, if it was done, as finished, never as failed, and soon;
/// - it doesn't end as cancelled unless it was;
/// - progress never falls, stays below 1 until success, and isn't reported after `main` is over;
/// - nothing is left in its supervisor's place for temporary directories;
/// - nothing of it goes on after its end, and its supervisor runs the next operation.
public enum OperationConformance {
    /// What was tried.
    public struct Report: Sendable, CustomStringConvertible {
        /// Runs that were left alone.
        public var undisturbedRuns = 0
        /// Runs in which the cancellation came before the end.
        public var cancelledRuns = 0
        /// How the runs ended.
        public var endings: [OperationState: Int] = [:]

        /// The figures.
        public var description: String {
            let endings = endings.map { "\($0.value) \($0.key)" }.sorted().joined(separator: ", ")
            return "\(undisturbedRuns) runs, \(cancelledRuns) more cancelled, each at another point: \(endings)"
        }
    }

    /// Checks an operation.
    ///
    /// - Parameters:
    ///   - seeds: The seeds, each of which decides one order of jobs to cancel at every point of.
    ///   - patience: How long a cancelled operation may take to end, in simulated time.
    ///   - limits: When to give up a run.
    ///   - fileID: The file of the test, for the command that replays a failure.
    ///   - function: The test's function, for that command.
    ///   - make: Makes the operation, and whatever it works on, for one run. Everything that runs elsewhere or takes time
    ///     is to be given the simulation's executor and clock.
    /// - Returns: What was tried.
    /// - Throws: A ``SimulationError`` that names the promise that was broken and replays it; what `make` throws.
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
            var undisturbed: OperationState?
            var step: Int?
            var isOver = false
            while !isOver {
                try Task.checkCancellation()
                let trial = OperationTrial(seed: seed, step: step, patience: patience, place: place, make)
                let ending: OperationTrial<Work>.Ending
                do {
                    ending = try await runBlocking(on: SimulationThread.next) { [undisturbed] in
                        try trial.run(limits, undisturbed: undisturbed)
                    }
                } catch var error as SimulationError {
                    error.replay = SimulationError.replayCommand(seed: seed, fileID, function)
                    throw error
                }
                report.endings[ending.state, default: 0] += 1
                if let cancelled = step {
                    report.cancelledRuns += ending.wasCancelled ? 1 : 0
                    isOver = !ending.wasCancelled
                    step = cancelled + 1
                } else {
                    undisturbed = ending.state
                    report.undisturbedRuns += 1
                    step = 0
                }
            }
        }
        return report
    }
}
