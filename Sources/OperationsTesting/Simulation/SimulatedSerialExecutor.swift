import ThreadSupport

/// The executor of an actor that has one of its own, or of the main actor, within a simulation.
///
/// Its jobs run in the order they came, as on the main queue or a dispatch queue; when the first of them runs is chosen.
final class SimulatedSerialExecutor: SerialExecutor {
    private struct Owner {
        weak var executor: SimulatedExecutor?
    }

    let lane: SimulationTrace.Lane
    private let owner = Locked(Owner())

    init(lane: SimulationTrace.Lane) {
        self.lane = lane
    }

    func attach(to executor: SimulatedExecutor?) {
        owner.withLock { $0.executor = executor }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // A job that comes when the simulation is gone never runs: it belongs to what the simulation left behind.
        owner.withLock({ $0.executor })?.enqueue(job, on: self)
    }

    // MARK: The main actor's

    /// Those that no simulation uses now.
    ///
    /// They live as long as the process: a task that a simulation left behind on the main actor refers to its executor
    /// without holding it.
    private static let idle = Locked<[SimulatedSerialExecutor]>([])

    static func takeMain() -> SimulatedSerialExecutor {
        idle.withLock { $0.popLast() } ?? SimulatedSerialExecutor(lane: .main)
    }

    static func giveBack(_ executor: SimulatedSerialExecutor) {
        executor.attach(to: nil)
        idle.withLock { $0.append(executor) }
    }
}
