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
/// Returning from `main` finishes the operation, throwing ends it: as cancelled if the error is a `CancellationError`,
/// as failed otherwise. There is no method to call at the end, so it can't be forgotten and can't be called twice.
///
/// The other requirements are the *phases* of a run. They do nothing unless you implement them, and come in this order:
/// ``operationDidStart(_:)``, then ``operationDidMakeProgress(_:)`` any number of times, then exactly one of
/// ``operationDidComplete(_:)``, ``operationDidFail(_:)`` and ``operationWasCancelled()``, which nothing overlaps and
/// nothing follows. An operation that is cancelled before it started has no run and so no phases; its handle ends.
///
/// **Cancellation.** The task that runs `main` is cancelled; `main` must notice (`try Task.checkCancellation()`, or any
/// suspension that throws) and return or throw. The ending phases run in a task that isn't cancelled.
///
/// Work that belongs on the main thread is written as `@MainActor func main…` inside the actor. Never write a phase or
/// `main` as `nonisolated … async`: such a witness of an actor protocol crashes in debug builds of Swift 6.3.
///
/// In a file that imports Foundation too, settle the clash with its class once per module with
/// `typealias Operation = Operations.Operation`; files that subclass Foundation's can say ``OperationActor``.
public protocol Operation<Output>: Actor {
    /// What the work results in.
    associatedtype Output: Sendable

    /// Does the work.
    ///
    /// - Parameter context: What the supervisor lends to this run: progress, a temporary directory, the clock, pausing.
    /// - Returns: The operation's output, which finishes it.
    /// - Throws: `CancellationError` to end as cancelled, any other error to end as failed.
    func main(_ context: OperationContext) async throws -> Output

    /// The run begins; `main` comes next.
    func operationDidStart(_ context: OperationContext) async

    /// The work has come further.
    ///
    /// Values between two calls may be passed over: each call has the latest. They never fall. Don't wait here for the
    /// operation's own handle: the end waits for this call.
    func operationDidMakeProgress(_ progress: OperationProgress) async

    /// The work is done: the operation is finished.
    func operationDidComplete(_ output: Output) async

    /// The work ended with an error that isn't a cancellation.
    func operationDidFail(_ error: any Error) async

    /// The work was cancelled after it began.
    func operationWasCancelled() async
}

/// The same protocol as ``Operation``, for files in which that name means Foundation's class.
public typealias OperationActor = Operation

extension Operation {
    // Synchronous and not isolated, so that nothing is done without a hop to the actor.

    /// Does nothing.
    public nonisolated func operationDidStart(_ context: OperationContext) {
        PhaseInspection.noteDefault(.start)
    }
    /// Does nothing.
    public nonisolated func operationDidMakeProgress(_ progress: OperationProgress) {
        PhaseInspection.noteDefault(.progress)
    }
    /// Does nothing.
    public nonisolated func operationDidComplete(_ output: Output) {
        PhaseInspection.noteDefault(.completion)
    }
    /// Does nothing.
    public nonisolated func operationDidFail(_ error: any Error) {
        PhaseInspection.noteDefault(.failure)
    }
    /// Does nothing.
    public nonisolated func operationWasCancelled() {
        PhaseInspection.noteDefault(.cancellation)
    }

    /// Runs the operation alone, without a supervisor: for unit tests and scripts.
    ///
    /// Cancelling the current task cancels the operation. All phases are called as under a supervisor, and see the current
    /// task's task-local values.
    ///
    /// - Parameters:
    ///   - options: Name, user info and what else ``main(_:)`` finds in its context.
    ///   - configuration: The clock, logger and executors that the context hands out.
    /// - Returns: What `main` returned.
    /// - Throws: What `main` threw.
    public nonisolated(nonsending) func run(
        _ options: OperationOptions = OperationOptions(),
        configuration: OperationSupervisor.Configuration = .init()
    ) async throws -> Output {
        var options = options
        options.inheritsTaskLocals = true
        let handle = OperationSupervisor(configuration).add(self, options: options)
        return try await withTaskCancellationHandler {
            // Not for the handle's value, which a cancelled task doesn't wait for.
            await handle.record.waitForEnd()
            return try handle.record.finalResult.get()
        } onCancel: {
            handle.cancel()
        }
    }
}
