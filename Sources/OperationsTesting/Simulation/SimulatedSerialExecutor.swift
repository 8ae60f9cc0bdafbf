import ThreadSupport

/// The executor of the main actor, or of an actor with a custom executor, in a simulation.
///
/// Its jobs run in the order in which they came, as on a serial dispatch queue. The seed decides when the next one runs.
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
        // A job that comes after the simulation was released never runs: it belongs to a task that the simulation left.
        owner.withLock({ $0.executor })?.enqueue(job, on: self)
    }

    // MARK: The main actor's executors

    /// The executors that no simulation uses now.
    ///
    /// They are never released: a task that a simulation left behind on the main actor refers to its executor without
    /// retaining it.
    private static let idle = Locked<[SimulatedSerialExecutor]>([])

    static func takeMain() -> SimulatedSerialExecutor {
        idle.withLock { $0.popLast() } ?? SimulatedSerialExecutor(lane: .main)
    }

    static func giveBack(_ executor: SimulatedSerialExecutor) {
        executor.attach(to: nil)
        idle.withLock { $0.append(executor) }
    }
}
