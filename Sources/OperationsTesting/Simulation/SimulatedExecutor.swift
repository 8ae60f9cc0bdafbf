import Dispatch
import ThreadSupport

/// Runs jobs one at a time, on one thread, in an order that a seed decides.
///
/// Every step picks one of the jobs that could run, so a test explores one order for each seed and can repeat any of them.
/// Jobs come from tasks that prefer this executor and the default actors they call, and from actors on a
/// ``makeSerialExecutor()``. Where ``SimulationCapabilities`` allows it, they also come from everything that the simulated
/// code starts: `Task {}`, detached tasks, `@MainActor` code and `Task.sleep`.
///
/// It explores orders of jobs, not every interleaving: an actor may process several calls in one job.
///
/// A ``Simulation`` drives it. To drive it manually, call ``runUntilIdle()`` on any thread.
public final class SimulatedExecutor: TaskExecutor {
    private static let thread = ThreadLocal<SimulatedExecutor>()

    /// The executor whose simulation runs on this thread.
    static var current: SimulatedExecutor? { thread.current }

    private struct Candidate {
        var job: UnownedJob
        var lane: SimulationTrace.Lane
        /// The executor on which the job has to run; `nil` for the jobs of tasks and default actors.
        var serial: SimulatedSerialExecutor?
    }

    private struct State {
        var candidates: [Candidate] = []
        /// The jobs that wait behind the first job of each serial executor.
        var backlogs: [ObjectIdentifier: [UnownedJob]] = [:]
        var generator: SplitMix64
        var trace = SimulationTrace()
        var escapes: [SimulationEscape] = []
        var isSimulating = false
    }

    /// The clock on which simulated code sleeps.
    public let clock: SimulatedClock
    /// What each party of the simulation waits for.
    let waits = WaitRegistry()

    private let state: Locked<State>
    private let mainExecutor = SimulatedSerialExecutor.takeMain()
    private let arrival = DispatchSemaphore(value: 0)

    /// Creates an executor.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - clock: The clock on which simulated code sleeps.
    public init(seed: UInt64, clock: SimulatedClock = SimulatedClock()) {
        RuntimeHooks.install()
        self.clock = clock
        state = Locked(State(generator: SplitMix64(seed: seed)))
        mainExecutor.attach(to: self)
    }

    deinit {
        SimulatedSerialExecutor.giveBack(mainExecutor)
    }

    /// Creates a custom executor for an actor, whose jobs run in this simulation in the order in which they came.
    ///
    /// The actor keeps it alive and returns it from `unownedExecutor`.
    public func makeSerialExecutor() -> any SerialExecutor {
        let executor = SimulatedSerialExecutor(lane: .serial)
        executor.attach(to: self)
        return executor
    }

    /// The executor of `@MainActor` code in this simulation.
    var unownedMainExecutor: UnownedSerialExecutor { mainExecutor.asUnownedSerialExecutor() }

    // MARK: Adding

    /// Adds a job to the jobs that could run.
    public func enqueue(_ job: consuming ExecutorJob) {
        add(Candidate(job: UnownedJob(job), lane: .task))
    }

    /// Adds a job that was meant for Swift's own pool.
    func adopt(_ job: UnownedJob) {
        add(Candidate(job: job, lane: .adopted))
    }

    /// Adds a job that was meant for Swift's own pool, once the simulation has reached a point in time.
    ///
    /// The code computed the delay from the real clock, which has advanced since, by at most the time that the simulated
    /// clock has stood still. So the intended delay lies between the two, and is assumed to be the roundest number there.
    func adopt(_ job: UnownedJob, afterRealDelay delay: Duration) {
        let meant = Duration.roundest(from: delay, to: delay + clock.standstill)
        guard meant > .zero else { return adopt(job) }
        clock.schedule(after: meant) { [weak self] in self?.adopt(job) }
    }

    /// Adds a job of an actor with a custom executor.
    func enqueue(_ job: UnownedJob, on serial: SimulatedSerialExecutor) {
        let isFirst = state.withLock { state in
            let key = ObjectIdentifier(serial)
            guard state.backlogs[key] == nil else {
                state.backlogs[key]?.append(job)
                return false
            }
            state.backlogs[key] = []
            return true
        }
        isFirst ? add(Candidate(job: job, lane: serial.lane, serial: serial)) : noteArrival()
    }

    private func add(_ candidate: Candidate) {
        state.withLock { $0.candidates.append(candidate) }
        noteArrival()
    }

    /// Records a job from another thread as an escape that comes back, unless the simulation itself enqueued it.
    private func noteArrival() {
        guard Self.current !== self else { return }
        state.withLock { state in
            if state.isSimulating { state.escapes.append(SimulationEscape(step: state.trace.count)) }
        }
        arrival.signal()
    }

    // MARK: Running

    /// Runs one job.
    ///
    /// Returns whether there was one.
    public func runStep() -> Bool {
        let candidate = state.withLock { state -> Candidate? in
            guard !state.candidates.isEmpty else { return nil }
            let index = Int.random(in: state.candidates.indices, using: &state.generator)
            let candidate = state.candidates[index]
            state.trace.record(index, of: state.candidates.count, candidate.lane)
            state.candidates.swapAt(index, state.candidates.count - 1)
            state.candidates.removeLast()
            if let serial = candidate.serial { Self.release(serial, &state) }
            return candidate
        }
        guard let candidate else { return false }
        withCurrent { run(candidate) }
        return true
    }

    /// Runs all jobs and lets the clock jump to the next timer, until there are neither jobs nor timers.
    ///
    /// ``Simulation`` does the same with a limit and a result. Call this if you start tasks with this executor yourself.
    public func runUntilIdle() {
        withCurrent {
            while runStep() || clock.advance() {}
        }
    }

    /// Makes the next job of a serial executor a candidate, after its first one was chosen.
    private static func release(_ serial: SimulatedSerialExecutor, _ state: inout State) {
        let key = ObjectIdentifier(serial)
        guard let next = state.backlogs[key]?.first else {
            state.backlogs[key] = nil
            return
        }
        state.backlogs[key]?.removeFirst()
        state.candidates.append(Candidate(job: next, lane: serial.lane, serial: serial))
    }

    private func run(_ candidate: Candidate) {
        if let serial = candidate.serial {
            candidate.job.runSynchronously(on: serial.asUnownedSerialExecutor())
        } else {
            candidate.job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    /// Runs `body` with this simulation as the current thread's, which adopts all jobs that `body` enqueues.
    func withCurrent<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try Self.thread.withValue(self) { () throws(Failure) in try waits.withCurrent(body) }
    }

    // MARK: Inspecting

    /// The choices that were made so far.
    public var trace: SimulationTrace { state.withLock { $0.trace } }

    /// The jobs that came back from another thread: the order after them doesn't depend on the seed alone.
    ///
    /// They are recorded only in a ``Simulation``.
    public var escapes: [SimulationEscape] { state.withLock { $0.escapes } }

    /// Records jobs from other threads as escapes from here on.
    func beginSimulating() {
        state.withLock { $0.isSimulating = true }
    }

    /// Waits for a job from another thread, for at most `grace` in real time, and returns whether one came.
    func awaitForeignJob(_ grace: Duration) -> Bool {
        // A year at most, because the deadline of a much longer time overflows.
        let deadline = DispatchTime.now() + min(grace / .seconds(1), 365 * 86_400)
        while arrival.wait(timeout: deadline) == .success {
            // The signal may belong to a job that has already run.
            if state.withLock({ !$0.candidates.isEmpty }) { return true }
        }
        return false
    }
}
