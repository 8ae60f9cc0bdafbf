import ThreadSupport

/// What simulations on this platform adopt without changes to the simulated code.
///
/// Swift's runtime has hooks for it that differ by version and platform, so each is tried once per process. Everything that
/// follows a task's executor preference is always simulated: async functions, default actors, `async let`, task groups,
/// streams, cancellation handlers, actors on a ``SimulatedExecutor/makeSerialExecutor()``, and sleep on
/// ``Simulation/clock``.
public struct SimulationCapabilities: Sendable, Hashable {
    /// Whether `Task {}` and `Task.detached` run in the simulation that starts them.
    public var adoptsUnstructuredTasks: Bool
    /// Whether `@MainActor` code runs in the simulation that calls it, and not on the main thread.
    public var adoptsMainActor: Bool
    /// Whether `Task.sleep` and the sleep of Swift's own clocks is simulated.
    public var simulatesTaskSleep: Bool

    /// The capabilities of this process.
    public static let current = probe()

    /// What isn't simulated here, one sentence each; empty if everything is.
    public var limitations: [String] {
        var sentences: [String] = []
        if !adoptsUnstructuredTasks {
            sentences.append("Task {} and Task.detached leave the simulation here: give them executorPreference")
        }
        if !adoptsMainActor {
            sentences.append("@MainActor code runs on the main thread here, outside the simulation")
        }
        if !simulatesTaskSleep {
            sentences.append("Task.sleep takes real time here: sleep on the simulation's clock")
        }
        return sentences
    }

    private static func probe() -> Self {
        Self(
            adoptsUnstructuredTasks: staysInside { Task { await Probe().yield() } },
            adoptsMainActor: staysInside { Task { @MainActor in await Task.yield() } },
            simulatesTaskSleep: staysInside { Task { await Probe().sleep() } }
        )
    }

    /// Returns whether the task that `start` creates runs to its end within a simulation.
    private static func staysInside(_ start: @Sendable () -> Task<Void, Never>) -> Bool {
        let executor = SimulatedExecutor(seed: 0)
        let isOver = Locked(false)
        executor.withCurrent {
            executor.beginSimulating()
            let task = start()
            Task(executorPreference: executor) {
                await task.value
                isOver.withLock { $0 = true }
            }
            executor.runUntilIdle()
            // If the task left the simulation, the cancellation ends it there.
            task.cancel()
        }
        return isOver.withLock { $0 } && executor.escapes.isEmpty
    }

    private actor Probe {
        func yield() async { await Task.yield() }
        func sleep() async { try? await Task.sleep(for: .seconds(3600)) }
    }
}
