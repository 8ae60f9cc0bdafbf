public import Logging
import ThreadSupport

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// What a supervisor provides for one run of an operation.
///
/// It is valid until the operation has ended. If a task that outlives `main` uses it later, that has no effect.
public struct OperationContext: Sendable {
    let record: OperationRecord
    /// The number of this call of ``Operation/main(_:)``: 1 for the first one, more for retries.
    public let attempt: Int

    private var options: OperationOptions { record.core.withBoard { _ in record.options } }

    /// The operation's identifier in this process.
    public var id: OperationID { record.id }
    /// The operation's name: the name in its options, or its type's name.
    public var name: String { record.core.withBoard { _ in record.name } }
    /// The operation itself, as others refer to it: for dependencies on it, its state and its priority.
    ///
    /// Don't await its end in the operation itself.
    public var operation: any OperationReference { OperationDependency(record: record) }
    /// The supervisor that runs the operation, for example to add operations that aren't children.
    ///
    /// `nil` if the supervisor was released, or the operation runs alone, with ``Operation/run(_:configuration:)``.
    public var supervisor: OperationSupervisor? { record.core.supervisor }
    /// The user info in the operation's options.
    public var userInfo: [String: any Sendable] { options.userInfo }
    /// The client on whose behalf the operation works, for logs and explanations, if its options name one.
    public var clientIdentifier: String? { options.clientIdentifier }
    /// Whether the operation may start while the app is in the background.
    public var mayContinueInBackground: Bool { options.mayContinueInBackground }
    /// The supervisor's clock.
    ///
    /// Sleep on it, never on the real clock, so that a simulation can replay the operation.
    public var clock: any Clock<Duration> { record.core.environment.configuration.clock }
    /// A file manager for the operation's use.
    public var fileManager: FileManager { .default }
    /// Whether the operation's cancellation was requested.
    public var isCancellationRequested: Bool { record.isCancellationRequested }
    /// The executor on which the operation may block.
    package var blockingExecutor: (any TaskExecutor)? { record.core.environment.configuration.blockingExecutor }

    /// A logger that carries the operation's identifier as `operation.id`, that of its client as `operation.client`, and
    /// the supervisor's name as `supervisor.name`.
    ///
    /// Each access creates a logger: keep it in a constant.
    public var logger: Logger {
        var logger = record.core.environment.configuration.logger
        logger[metadataKey: "operation.id"] = "\(record.id)"
        logger[metadataKey: "supervisor.name"] = "\(record.core.environment.configuration.name)"
        if let clientIdentifier { logger[metadataKey: "operation.client"] = "\(clientIdentifier)" }
        return logger
    }

    /// Reports the operation's progress.
    ///
    /// Returns at once. Values that come faster than the progress phase handles them are skipped.
    ///
    /// A fraction that is lower than a previous one, or not a number, is replaced by the previous one; phase and unit counts
    /// are taken as reported. Only finishing reaches 1.
    ///
    /// - Parameter progress: The progress of the whole operation.
    public func reportProgress(_ progress: OperationProgress) {
        record.report(progress)
    }

    /// Reports the operation's progress as a fraction from 0 to 1.
    public func reportProgress(_ fractionCompleted: Double) {
        record.report(OperationProgress(fractionCompleted: fractionCompleted))
    }

    /// Returns a directory for this attempt alone, with mode 0700, created on first use.
    ///
    /// It is removed with all its content before the next attempt, or after the ending phase, however the operation ends.
    /// If the process dies first, the next operation of any process that asks for a directory in the same location
    /// removes it.
    ///
    /// - Returns: The directory's location, in the supervisor's temporary directory, or else in the system's.
    /// - Throws: An ``OperationError`` of the code `temporaryDirectoryUnavailable` if it can't be created;
    ///   `CancellationError` if the operation has ended.
    public func temporaryDirectory() async throws -> URL {
        try await record.temporaryDirectory()
    }

    /// Waits for an answer from outside, for example from the user, without holding up other operations.
    ///
    /// While `answer` runs, the operation is `paused` and releases its slot. It resumes when a slot is free, before
    /// operations that haven't started. Cancelling the operation cancels the task that runs `answer`, which should throw
    /// then.
    ///
    /// - Parameters:
    ///   - reason: What the operation waits for, as ``OperationEvent/paused(_:)`` shows it.
    ///   - answer: Asks, and waits for the answer.
    /// - Returns: The answer.
    /// - Throws: What `answer` throws.
    public nonisolated(nonsending) func pause<Answer>(
        awaiting reason: String,
        _ answer: nonisolated(nonsending) () async throws -> Answer
    ) async throws -> Answer {
        try await record.core.pause(record, awaiting: reason, answer)
    }

    /// Runs work that blocks its thread, on a thread for such work.
    ///
    /// Use it for calls that wait for a disk, a server or a lock, and for long computations. Swift runs all tasks of the
    /// process on as many threads as there are cores, so such work in `main` itself would hold up other tasks.
    ///
    /// `body` runs on ``OperationSupervisor/Configuration/blockingExecutor``. The operation keeps its slot meanwhile.
    /// Cancelling the operation doesn't interrupt `body`, and doesn't keep it from starting: long work should call
    /// `Task.checkCancellation()`, which throws then.
    ///
    /// - Parameter body: The work.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public func blocking<Value: Sendable>(_ body: @Sendable () throws -> Value) async throws -> Value {
        try await runBlocking(on: blockingExecutor, body)
    }

    /// Runs `body` in a task that isn't cancelled with the operation.
    ///
    /// Use it for the few steps between an action that can't be undone and recording that it was done, and for what an
    /// attempt must clean up. It returns when `body` does, even if the operation is cancelled meanwhile.
    ///
    /// - Parameter body: The steps, which should be short: the operation can't end before them.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    public func shielded<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
        try await record.shielded(body)
    }

    /// Adds an operation as a child of this one, which doesn't end before its children.
    ///
    /// Children start before other operations and don't count against the supervisor's capacity. Suspension doesn't hold
    /// them back. They are cancelled with their parent, and when its `main` fails. A child's failure doesn't fail its
    /// parent: await the child's value if it should. While the parent waits, for its children or for anything else, it
    /// lends them the ``OperationOptions/keys`` that it holds.
    ///
    /// - Parameters:
    ///   - child: The operation.
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority (raised to the parent's if lower), keys (which must be among the parent's).
    /// - Returns: The child's handle.
    /// - Throws: An ``OperationError``: `keyNotHeld`, `parentEnded`, `wouldDeadlock` if a dependency waits for the parent.
    @discardableResult
    public func addChild<Child: Operation>(
        _ child: Child,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) throws -> OperationHandle<Child.Output> {
        let added = WorkRecord(child, options: options, core: record.core)
        do {
            try record.addChild(added, after: dependencies.map(\.dependency))
        } catch {
            LiveOperations.remove(child)
            throw error
        }
        return OperationHandle(record: added)
    }
}
