#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The hooks by which Swift's runtime asks where to enqueue a job.
///
/// The hooks are process-wide, so they are installed once and stay. Each checks whether a simulation runs on the enqueuing
/// thread. If none does, the hook that was installed before is called, or the runtime's default. If the runtime doesn't
/// export a hook (another version, or a statically linked one), nothing is adopted through it: ``SimulationCapabilities``
/// finds that out by trying.
enum RuntimeHooks {
    // As the runtime declares them, with Swift's calling convention, which Swift calls `thin`.
    private typealias Enqueue = @convention(thin) (UnownedJob) -> Void
    private typealias EnqueueHook = @convention(thin) (UnownedJob, Enqueue) -> Void
    private typealias MainExecutor = @convention(thin) () -> UnownedSerialExecutor
    private typealias MainExecutorHook = @convention(thin) (MainExecutor) -> UnownedSerialExecutor

    // Written once, in `installation`, before the hook that reads it is installed.
    nonisolated(unsafe) private static var formerEnqueue: EnqueueHook?
    nonisolated(unsafe) private static var formerMainExecutor: MainExecutorHook?

    /// Installs the hooks, if they aren't installed yet.
    static func install() {
        _ = installation
    }

    private static let installation: Void = {
        // Jobs for Swift's own pool: `Task {}`, detached tasks, and the default actors that those call.
        if let hook = hook("swift_task_enqueueGlobal_hook", as: EnqueueHook?.self) {
            formerEnqueue = hook.pointee
            hook.pointee = { job, original in
                if let executor = SimulatedExecutor.current {
                    executor.adopt(job)
                } else if let former = formerEnqueue {
                    former(job, original)
                } else {
                    original(job)
                }
            }
        }
        // The executor of `@MainActor` code; the runtime asks on the thread that switches to it.
        if let hook = hook("swift_task_getMainExecutor_hook", as: MainExecutorHook?.self) {
            formerMainExecutor = hook.pointee
            hook.pointee = { original in
                if let executor = SimulatedExecutor.current {
                    executor.unownedMainExecutor
                } else if let former = formerMainExecutor {
                    former(original)
                } else {
                    original()
                }
            }
        }
        SimulatingDefaultExecutor.install()
    }()

    private static func hook<Hook>(_ name: String, as type: Hook.Type) -> UnsafeMutablePointer<Hook>? {
        dlsym(dlopen(nil, RTLD_NOW), name)?.assumingMemoryBound(to: type)
    }
}
