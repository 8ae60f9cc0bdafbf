// A task that sleeps or yields is handed, by Swift 6.3, to the executor it runs on, and last of all to the process's
// default executor; no hook is called. The protocol is still an SPI, which only Linux toolchains carry; another compiler
// may call it otherwise.
#if os(Linux) && compiler(>=6.3) && compiler(<6.4)
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

/// The process's default executor as it was, but for what is enqueued on the thread of a simulation: that is adopted.
final class SimulatingDefaultExecutor: TaskExecutor, SchedulingExecutor {
    private let original: any TaskExecutor & SchedulingExecutor

    private init(_ original: any TaskExecutor & SchedulingExecutor) {
        self.original = original
    }

    /// Puts itself in the default executor's place, to which it hands on what isn't a simulation's.
    ///
    /// The runtime keeps the executor in two words without a lock. The hooks see to it that hardly anybody reads them by
    /// now: only a task that begins to sleep outside a simulation in these very nanoseconds, once in a process.
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
/// Nothing, where the runtime can't be asked to simulate sleep.
enum SimulatingDefaultExecutor {
    static func install() {}
}
#endif
