import Operations
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// One run of an operation that is checked, cancelled at one point or left alone.
struct OperationTrial<Work: Operation>: Sendable {
    /// How the run ended, if no promise was broken.
    struct Ending: Sendable {
        var state: OperationState
        var wasCancelled: Bool
        var escape: SimulationEscape?
    }

    private struct Notes {
        var handle: OperationHandle<Work.Output>?
        var fraction = 0.0
        var cancelledAt: SimulatedClock.Instant?
        var endedAt: SimulatedClock.Instant?
        var violations: [String] = []
    }

    private let seed: UInt64
    private let step: Int?
    private let patience: Duration
    private let place: URL
    private let make: @Sendable (Simulation) async throws -> Work
    private let point: CancellationPoint
    private let journal = PhaseJournal()
    private let notes = Locked(Notes())

    /// Creates a trial; `step` is the number of the job before which to cancel, `nil` to leave the operation alone.
    init(
        seed: UInt64,
        step: Int?,
        patience: Duration,
        place: URL,
        _ make: @escaping @Sendable (Simulation) async throws -> Work
    ) {
        self.seed = seed
        self.step = step
        self.patience = patience
        self.place = place
        self.make = make
        point = CancellationPoint(step: step ?? 0)
    }

    /// Runs the operation on this thread.
    ///
    /// - Parameters:
    ///   - limits: When to give up.
    ///   - undisturbed: How the operation ended without a cancellation under the same seed, once that is known.
    /// - Returns: How the operation ended.
    /// - Throws: A ``SimulationError`` if a promise was broken; the error that creating the operation threw.
    func run(_ limits: Simulation.Limits, undisturbed: OperationState?) throws -> Ending {
        let run = SimulationRun(seed: seed, limits: limits) { try await scenario($0) }
        let outcome = run.run { _ in
            point.beforeStep()
            watchProgress()
        }
        if case .failure(let error) = outcome.result {
            guard var error = error as? SimulationError, notes.withLock({ $0.handle != nil }) else { throw error }
            error.message = "\(circumstances), the operation doesn't end: \(error.message)"
            throw error
        }
        let (handle, noted) = notes.withLock { ($0.handle, $0) }
        guard let handle else { preconditionFailure("the scenario ended without an operation") }
        let violations =
            journal.violations(ended: handle.state) + noted.violations + endingViolations(handle, noted, undisturbed)
            + leftovers(outcome, run.simulation)
        guard let violation = violations.first else {
            return Ending(
                state: handle.state,
                wasCancelled: noted.cancelledAt != nil,
                escape: outcome.escapes.first
            )
        }
        var error = SimulationError(.promiseBroken, "\(circumstances), \(violation)", run.simulation)
        error.trace = outcome.trace
        throw error
    }

    private var circumstances: String {
        step.map { "cancelled before its job \($0)" } ?? "left alone"
    }

    private func scenario(_ simulation: Simulation) async throws {
        let work = try await make(simulation)
        var configuration = OperationSupervisor.Configuration(simulation: simulation, width: 1)
        configuration.temporaryDirectory = place
        let supervisor = OperationSupervisor(configuration)
        let options = OperationOptions(name: "\(Work.self)")
        let handle = supervisor.add(JournalingOperation(work, journal), options: options)
        notes.withLock { $0.handle = handle }
        if step != nil {
            point.arm {
                guard !handle.isEnded else { return }
                notes.withLock { $0.cancelledAt = simulation.clock.now }
                handle.cancel()
            }
        }
        _ = await handle.result
        point.disarm()
        notes.withLock { $0.endedAt = simulation.clock.now }
        try await supervisor.drain()
        try await supervisor.add(Nothing()).value
    }

    /// Checks the progress that the handle shows between two jobs.
    private func watchProgress() {
        notes.withLock { notes in
            guard let handle = notes.handle else { return }
            let fraction = handle.progress.fractionCompleted
            if fraction < notes.fraction {
                notes.violations.append("progress fell from \(notes.fraction) to \(fraction)")
            }
            if fraction >= 1, handle.state != .finished {
                notes.violations.append("progress was \(fraction) while the operation was \(handle.state)")
            }
            notes.fraction = fraction
        }
    }

    private func endingViolations(
        _ handle: OperationHandle<Work.Output>,
        _ noted: Notes,
        _ undisturbed: OperationState?
    ) -> [String] {
        var violations: [String] = []
        if let cancelledAt = noted.cancelledAt, let endedAt = noted.endedAt {
            let time = cancelledAt.duration(to: endedAt)
            if time > patience { violations.append("it took \(time) of simulated time to end") }
            if handle.state == .failed, undisturbed != .failed {
                violations.append(
                    """
                    it failed instead of ending as cancelled: rethrow CancellationError, and don't wrap it in another \
                    error; it threw \(handle.error.map { "\($0)" } ?? "nothing")
                    """
                )
            }
        } else if handle.state == .cancelled {
            violations.append("it ended as cancelled, but wasn't cancelled: don't throw CancellationError then")
        }
        return violations
    }

    private func leftovers(_ outcome: SimulationRun<Void>.Outcome, _ simulation: Simulation) -> [String] {
        var violations = simulation.executor.waits.faults
        if outcome.sleeperCount > 0 { violations.append("one of its tasks sleeps on after its end") }
        if outcome.leftoverSteps > 200 {
            violations.append("its tasks still run after its end: \(outcome.leftoverSteps) jobs")
        }
        let files = (try? FileManager.default.contentsOfDirectory(atPath: place.path))?.sorted() ?? []
        for file in files { try? FileManager.default.removeItem(at: place.appending(path: file)) }
        if !files.isEmpty {
            violations.append("it left \(files.joined(separator: ", ")) in the supervisor's temporary directory")
        }
        return violations
    }
}

/// The operation that the supervisor runs next, if the checked one released everything.
private actor Nothing: Operation {
    func main(_ context: OperationContext) async throws {}
}
