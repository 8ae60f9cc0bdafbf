import ThreadSupport

/// A point of a run at which something is cancelled: before the step with a given number, counted from ``arm(_:)``.
///
/// A step is a job or a jump of the clock.
///
/// Try one number after the other until the run ends before the point is reached. The scenario has then been cancelled at
/// every suspension point that it has in this order:
///
/// ```swift
/// for step in 0... {
///     let point = CancellationPoint(step: step)
///     try await Simulation.run(seed: 7, cancellingAt: point) { simulation in
///         let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation: simulation))
///         let handle = supervisor.add(Upload())
///         point.arm { handle.cancel() }
///         _ = await handle.result
///     }
///     guard point.wasReached else { break }
/// }
/// ```
public final class CancellationPoint: Sendable {
    private struct State {
        var remaining: Int
        var cancel: (@Sendable () -> Void)?
        var wasReached = false
    }

    private let state: Locked<State>

    /// Creates a point before the step of number `step`, which is 0 for the first one after ``arm(_:)``.
    ///
    /// A step is a job or a jump of the clock.
    public init(step: Int) {
        state = Locked(State(remaining: step))
    }

    /// Starts to count steps.
    ///
    /// - Parameter cancel: Called when the point is reached, between two steps.
    public func arm(_ cancel: @escaping @Sendable () -> Void) {
        state.withLock { $0.cancel = cancel }
    }

    /// Stops counting, because what was to be cancelled has ended.
    public func disarm() {
        state.withLock { $0.cancel = nil }
    }

    /// Whether the point was reached.
    public var wasReached: Bool { state.withLock { $0.wasReached } }

    /// Counts a step that is about to be taken, and cancels if the point is reached.
    func beforeStep() {
        let cancel = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.cancel != nil else { return nil }
            guard state.remaining == 0 else {
                state.remaining -= 1
                return nil
            }
            state.wasReached = true
            return state.cancel.take()
        }
        cancel?()
    }
}

extension Simulation {
    /// Runs `scenario` to its end and cancels something at a point of it.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - limits: When to give up.
    ///   - point: When to cancel; the scenario arms it.
    ///   - scenario: What to run.
    /// - Returns: What the scenario returns.
    /// - Throws: What the scenario throws; a ``SimulationError`` if it can't end.
    public static func run<Output: Sendable>(
        seed: UInt64,
        limits: Limits = Limits(),
        cancellingAt point: CancellationPoint,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Output
    ) async throws -> Output {
        try await run(seed: seed, limits: limits, beforeStep: { _ in point.beforeStep() }, scenario)
    }
}
