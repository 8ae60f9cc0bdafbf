import ThreadSupport

/// Runs the jobs of tasks one at a time, in an order that a seed decides.
///
/// Tasks that prefer it, and the default actors they call, run on the thread that calls ``runStep()``; every step picks
/// one of the jobs that could run. So a test sees as many orders as it tries seeds, and any of them again.
///
/// It explores orders of jobs, not every interleaving: an actor may work off several messages in one job. What leaves for
/// an executor of its own (`Task {}`, `@MainActor`, real timers) isn't seen.
public final class SimulatedExecutor: TaskExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var generator: SplitMix64
    }

    private let state: Locked<State>

    /// Creates an executor whose choices follow from `seed`.
    public init(seed: UInt64) {
        state = Locked(State(generator: SplitMix64(seed: seed)))
    }

    /// Adds a job to those that could run.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
    }

    /// Runs one job.
    ///
    /// Returns whether there was one.
    public func runStep() -> Bool {
        let job = state.withLock { state -> UnownedJob? in
            guard !state.jobs.isEmpty else { return nil }
            let index = Int.random(in: state.jobs.indices, using: &state.generator)
            state.jobs.swapAt(index, state.jobs.count - 1)
            return state.jobs.removeLast()
        }
        guard let job else { return false }
        job.runSynchronously(on: asUnownedTaskExecutor())
        return true
    }
}
