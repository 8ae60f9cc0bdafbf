import Dispatch
import ThreadSupport

/// Runs jobs one at a time, on one thread, in an order that a seed decides.
///
/// Every step picks one of the jobs that could run; so a test sees as many orders as it tries seeds, and any of them
/// again. Jobs come from tasks that prefer this executor and the default actors they call, from actors on a
/// ``makeSerialExecutor()``, and, where ``SimulationCapabilities`` says so, from whatever the simulated code starts:
/// `Task {}`, detached tasks, `@MainActor` code and `Task.sleep`.
///
/// It explores orders of jobs, not every interleaving: an actor may work off several messages in one job.
///
/// A ``Simulation`` drives it; by hand, ``runUntilIdle()`` does, on whatever thread calls it.
public final class SimulatedExecutor: TaskExecutor {
    private static let thread = ThreadLocal<SimulatedExecutor>()

    /// The executor whose simulation runs on this thread.
    static var current: SimulatedExecutor? { thread.current }

    private struct Candidate {
        var job: UnownedJob
        var lane: SimulationTrace.Lane
        /// The executor on which the job has to run; none for the jobs of tasks and default actors.
        var serial: SimulatedSerialExecutor?
    }

    private struct State {
        var candidates: [Candidate] = []
        /// What waits behind the first job of a serial executor.
        var backlogs: [ObjectIdentifier: [UnownedJob]] = [:]
        var generator: SplitMix64
        var trace = SimulationTrace()
        var escapes: [SimulationEscape] = []
        var isSimulating = false
    }

    /// The time by which what runs here sleeps.
    public let clock: SimulatedClock
    /// Who waits for what.
    let waits = WaitRegistry()

    private let state: Locked<State>
    private let mainExecutor = SimulatedSerialExecutor.takeMain()
    private let arrival = DispatchSemaphore(value: 0)

    /// Creates an executor.
    ///
    /// - Parameters:
    ///   - seed: Decides the order of jobs.
    ///   - clock: The time by which what runs here sleeps.
    public init(seed: UInt64, clock: SimulatedClock = SimulatedClock()) {
        RuntimeHooks.install()
        self.clock = clock
        state = Locked(State(generator: SplitMix64(seed: seed)))
        mainExecutor.attach(to: self)
    }

    deinit {
        SimulatedSerialExecutor.giveBack(mainExecutor)
    }

    /// An executor for an actor that has one of its own: its jobs run in this simulation, in the order they came.
    ///
    /// The actor keeps it alive and returns it from `unownedExecutor`.
    public func makeSerialExecutor() -> any SerialExecutor {
        let executor = SimulatedSerialExecutor(lane: .serial)
        executor.attach(to: self)
        return executor
    }

    /// What `@MainActor` code runs on in this simulation.
    var unownedMainExecutor: UnownedSerialExecutor { mainExecutor.asUnownedSerialExecutor() }

    // MARK: Adding

    /// Adds a job to those that could run.
    public func enqueue(_ job: consuming ExecutorJob) {
        add(Candidate(job: UnownedJob(job), lane: .task))
    }

    /// Adds a job that was meant for Swift's own pool.
    func adopt(_ job: UnownedJob) {
        add(Candidate(job: job, lane: .adopted))
    }

    /// Adds a job that was meant for Swift's own pool, once the simulation has come to a point in time.
    ///
    /// The delay was computed from the real clock, which has gone on since, but not for longer than the simulated one has
    /// stood still: the time that was meant lies in between, and is taken to be the roundest there.
    func adopt(_ job: UnownedJob, afterRealDelay delay: Duration) {
        let meant = Duration.roundest(from: delay, to: delay + clock.standstill)
        guard meant > .zero else { return adopt(job) }
        clock.schedule(after: meant) { [weak self] in self?.adopt(job) }
    }

    /// Adds a job of an actor with an executor of its own.
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

    /// Tells an escape that comes back from what the simulation itself enqueues.
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

    /// Runs jobs, and lets the clock jump to what is due next, until there is neither.
    ///
    /// It's what ``Simulation`` does with a limit and a verdict; here for whoever starts tasks with this executor by hand.
    public func runUntilIdle() {
        withCurrent {
            while runStep() || clock.advance() {}
        }
    }

    /// Lets the job go that waited behind the one that was chosen.
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

    /// Runs `body` as the simulation of this thread: what it enqueues is adopted.
    func withCurrent<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        try Self.thread.withValue(self) { () throws(Failure) in try waits.withCurrent(body) }
    }

    // MARK: Looking

    /// The choices that were made so far.
    public var trace: SimulationTrace { state.withLock { $0.trace } }

    /// Jobs that came back from another thread: the order after them isn't the seed's alone.
    public var escapes: [SimulationEscape] { state.withLock { $0.escapes } }

    /// From here on, what comes from another thread is an escape that comes back.
    func beginSimulating() {
        state.withLock { $0.isSimulating = true }
    }

    /// Whether a job came from another thread within `grace`, which is real time.
    func awaitForeignJob(_ grace: Duration) -> Bool {
        let (seconds, attoseconds) = grace.components
        let nanoseconds = Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
        let deadline = DispatchTime.now() + .nanoseconds(nanoseconds)
        while arrival.wait(timeout: deadline) == .success {
            // The signal may be of a job that has long run.
            if state.withLock({ !$0.candidates.isEmpty }) { return true }
        }
        return false
    }
}
