/// A unit of work with a beginning, progress and exactly one end.
///
/// An operation is an actor, so its state needs no locks. Implement ``main(_:)`` and give the operation to an
/// ``OperationSupervisor``, or run it alone with ``run(_:configuration:)``:
///
/// ```swift
/// actor Thumbnail: Operation {
///     let photo: URL
///     init(photo: URL) { self.photo = photo }
///
///     func main(_ context: OperationContext) async throws -> Data {
///         let image = try await load(photo)
///         context.reportProgress(0.5)
///         return try await image.scaled(to: 128)
///     }
/// }
/// ```
///
/// Returning from `main` finishes the operation. Throwing ends it: as cancelled if the error is a `CancellationError`,
/// as failed otherwise. No method has to be called at the end, so it can't be forgotten or called twice.
///
/// The other requirements are the *phases* of a run. They do nothing unless you implement them, and come in this order:
/// ``operationDidStart(_:)``, then ``operationDidMakeProgress(_:)`` any number of times, then exactly one of
/// ``operationDidComplete(_:)``, ``operationDidFail(_:)`` and ``operationWasCancelled()``. Phases don't overlap, with one
/// exception: progress that the start phase reports may arrive while that phase waits. Nothing overlaps or follows the
/// ending phase. It runs once, after the last attempt of a retried operation, so what each attempt has to clean up belongs
/// in `main`. An operation that is cancelled before it starts has no run and no phases; only its handle ends.
///
/// **Cancellation.** The task that runs `main` is cancelled. `main` must check for that (`try Task.checkCancellation()`,
/// or any suspension that throws) and return or throw. The ending phases run in a task that isn't cancelled.
///
/// Work that must run on the main thread is written as `@MainActor func main…` inside the actor. Never write a phase or
/// `main` as `nonisolated … async`: such a witness of an actor protocol crashes in debug builds of Swift 6.3.
///
/// In a module that imports Foundation too, resolve the clash with its class once with
/// `typealias Operation = Operations.Operation`. Files that subclass Foundation's class can use ``OperationActor``.
public protocol Operation<Output>: Actor {
    /// The result of the work.
    associatedtype Output: Sendable

    /// Does the work.
    ///
    /// - Parameter context: What the supervisor provides for this run: progress, a temporary directory, the clock, pausing.
    /// - Returns: The operation's output; returning finishes the operation.
    /// - Throws: `CancellationError` to end as cancelled, any other error to end as failed.
    func main(_ context: OperationContext) async throws -> Output

    /// Called when the run starts, before `main`.
    func operationDidStart(_ context: OperationContext) async

    /// Called when the work has made progress.
    ///
    /// Each call has the latest value; values between two calls may be skipped. The values never fall. Don't wait here for
    /// the operation's own handle: the operation's end waits for this call.
    func operationDidMakeProgress(_ progress: OperationProgress) async

    /// Called when `main` has returned and the operation is finished.
    func operationDidComplete(_ output: Output) async

    /// Called when the work has ended with an error that isn't a cancellation.
    func operationDidFail(_ error: any Error) async

    /// Called when the work was cancelled after it started.
    func operationWasCancelled() async
}

/// The same protocol as ``Operation``, for files in which that name means Foundation's class.
public typealias OperationActor = Operation

extension Operation {
    // Synchronous and nonisolated, so that a phase that does nothing needs no hop to the actor. Each tells only `DefaultPhase`
    // of its call, which has an effect only while that inspects which phases an operation implements.

    /// Does nothing.
    public nonisolated func operationDidStart(_ context: OperationContext) {
        DefaultPhase.noteCall(by: self)
    }
    /// Does nothing.
    public nonisolated func operationDidMakeProgress(_ progress: OperationProgress) {
        DefaultPhase.noteCall(by: self)
    }
    /// Does nothing.
    public nonisolated func operationDidComplete(_ output: Output) {
        DefaultPhase.noteCall(by: self)
    }
    /// Does nothing.
    public nonisolated func operationDidFail(_ error: any Error) {
        DefaultPhase.noteCall(by: self)
    }
    /// Does nothing.
    public nonisolated func operationWasCancelled() {
        DefaultPhase.noteCall(by: self)
    }

    /// Runs the operation alone, for unit tests and scripts.
    ///
    /// Cancelling the current task cancels the operation. All phases are called as under a supervisor, and see the current
    /// task's task-local values.
    ///
    /// - Parameters:
    ///   - options: Name, user info and the other options that ``main(_:)`` finds in its context.
    ///   - configuration: The clock, logger and executors that the context provides.
    /// - Returns: What `main` returned.
    /// - Throws: What `main` threw, or `CancellationError` if the operation was cancelled before `main`; an ``OperationError``
    ///   if the operation exceeded its deadline or stalled.
    public nonisolated(nonsending) func run(
        _ options: OperationOptions = OperationOptions(),
        configuration: OperationSupervisor.Configuration = .init()
    ) async throws -> Output {
        var options = options
        options.inheritsTaskLocals = true
        let handle = OperationSupervisor(configuration).add(self, options: options)
        return try await withTaskCancellationHandler {
            // Not the handle's value: a cancelled task wouldn't wait for it.
            await handle.record.waitUntilEnded()
            return try handle.record.finalResult.get()
        } onCancel: {
            handle.cancel()
        }
    }
}
