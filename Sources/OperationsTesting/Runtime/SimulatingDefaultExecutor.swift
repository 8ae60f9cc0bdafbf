// When a task sleeps or yields, Swift 6.3 enqueues it on the executor it runs on, or else on the process's default executor,
// and calls no hook. The protocol is still an SPI that only Linux toolchains have; other compiler versions may name it
// differently.
#if os(Linux) && compiler(>=6.3) && compiler(<6.4)
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

/// Wraps the process's default executor, and adopts jobs that are enqueued on the thread of a simulation.
final class SimulatingDefaultExecutor: TaskExecutor, SchedulingExecutor {
    private let original: any TaskExecutor & SchedulingExecutor

    private init(_ original: any TaskExecutor & SchedulingExecutor) {
        self.original = original
    }

    /// Replaces the default executor, to which it forwards all jobs that belong to no simulation.
    ///
    /// The runtime keeps the executor in two words without a lock. With the hooks installed, a concurrent read is nearly
    /// impossible: only a task that starts to sleep outside a simulation in the same nanoseconds reads them, and this
    /// happens once per process.
    static func install() {
        guard Factory.replacement != nil else { return }
        _ = Factory.main
        _createExecutors(factory: Factory.self)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        guard let executor = SimulatedExecutor.current else { return original.enqueue(job) }
        executor.adopt(UnownedJob(job))
    }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        after delay: C.Duration,
        tolerance: C.Duration?,
        clock: C
    ) {
        guard let executor = SimulatedExecutor.current, let delay = delay as? Duration else {
            return original.enqueue(job, after: delay, tolerance: tolerance, clock: clock)
        }
        executor.adopt(UnownedJob(job), afterRealDelay: delay)
    }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        at instant: C.Instant,
        tolerance: C.Duration?,
        clock: C
    ) {
        guard let executor = SimulatedExecutor.current, let delay = clock.now.duration(to: instant) as? Duration else {
            return original.enqueue(job, at: instant, tolerance: tolerance, clock: clock)
        }
        executor.adopt(UnownedJob(job), afterRealDelay: delay)
    }

    private enum Factory: ExecutorFactory {
        static let main = MainActor.executor
        static let former = Task<Never, Never>.defaultExecutor
        static let replacement = (former as? any TaskExecutor & SchedulingExecutor).map(SimulatingDefaultExecutor.init)

        static var mainExecutor: any MainExecutor { main }
        static var defaultExecutor: any TaskExecutor { replacement ?? former }
    }
}
#else
/// Does nothing, because this runtime offers no way to simulate sleep.
enum SimulatingDefaultExecutor {
    static func install() {}
}
#endif
