public import Logging

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// What a supervisor lends to one run of an operation.
///
/// It is valid until the operation has ended; what a task that outlived `main` does with it has no effect.
public struct OperationContext: Sendable {
    let record: OperationRecord
    /// Which call of ``Operation/main(_:)`` this is: 1, and more where a failed one is tried again.
    public let attempt: Int

    private var options: OperationOptions { record.core.withBoard { _ in record.options } }

    /// The operation's identifier in this process.
    public var id: OperationID { record.id }
    /// The operation's name: the one it was added with, else its type's.
    public var name: String { record.core.withBoard { _ in record.name } }
    /// What the operation was added with.
    public var userInfo: [String: any Sendable] { options.userInfo }
    /// The synchronization client on whose behalf the operation works, where it was added with one.
    public var clientIdentifier: String? { options.clientIdentifier }
    /// Whether the work may go on while the app is in the background.
    public var mayContinueInBackground: Bool { options.mayContinueInBackground }
    /// Time as the supervisor sees it.
    ///
    /// Wait on it, never on the real clock, and a simulation can replay the operation.
    public var clock: any Clock<Duration> { record.core.environment.clock }
    /// A file manager for the operation's use.
    public var fileManager: FileManager { .default }
    /// Whether the operation's end was asked for.
    public var isCancelled: Bool { record.isCancellationRequested }
    /// The executor on which the operation may block.
    package var blockingExecutor: (any TaskExecutor)? { record.core.environment.blockingExecutor }

    /// A logger that carries the operation's identifier as `operation.id`.
    ///
    /// Made anew on each use: keep it in a constant.
    public var logger: Logger {
        var logger = record.core.environment.logger
        logger[metadataKey: "operation.id"] = "\(record.id)"
        return logger
    }

    /// Reports how far the work has come.
    ///
    /// Returns at once; values that come too fast are passed over.
    ///
    /// A value lower than a former one, or not a number, changes nothing; 1 is reached by finishing only.
    ///
    /// - Parameter progress: How far the whole operation has come.
    public func reportProgress(_ progress: OperationProgress) {
        record.report(progress)
    }

    /// Reports how far the work has come, from 0 to 1.
    public func reportProgress(_ fractionCompleted: Double) {
        record.report(OperationProgress(fractionCompleted: fractionCompleted))
    }

    /// A directory for this run alone, with mode 0700, made on first use.
    ///
    /// It is removed with all its content whichever way the operation ends, after the ending phase. If the process dies
    /// before, the next operation that asks for a directory in the same location removes it, in whatever process.
    ///
    /// - Returns: The directory's location, in the supervisor's place for them, else the system's.
    /// - Throws: An ``OperationError`` of the code `temporaryDirectoryUnavailable` if it can't be made.
    public func temporaryDirectory() async throws -> URL {
        try await record.temporaryDirectory()
    }

    /// Waits for an answer from outside, a person's for example, without holding up other operations.
    ///
    /// The operation is `paused` while `answer` runs and gives its place to others; it goes on when a place is free,
    /// before fresh work does. Cancelling the operation cancels the task that `answer` runs in: it should throw then.
    ///
    /// - Parameters:
    ///   - reason: What is waited for, as ``OperationEvent/paused(_:)`` shows it.
    ///   - answer: Asks and waits.
    /// - Returns: The answer.
    /// - Throws: What `answer` throws.
    public nonisolated(nonsending) func pause<Answer>(
        awaiting reason: String,
        _ answer: nonisolated(nonsending) () async throws -> Answer
    ) async throws -> Answer {
        try await record.core.pause(record, awaiting: reason, answer)
    }

    /// Runs `body` where cancelling the operation doesn't reach it.
    ///
    /// For the few steps between doing what can't be undone and knowing that it was done: the operation isn't cancelled then,
    /// whatever was asked for meanwhile.
    ///
    /// - Parameter body: The steps, short ones.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    package func shielded<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) async throws -> Value {
        try await Task(executorPreference: record.core.environment.executor) { try await body() }.value
    }

    /// Adds an operation as part of this one, which doesn't end before it.
    ///
    /// Children are served before other operations and don't count against the supervisor's capacity; suspension doesn't
    /// hold them back. They are cancelled with their parent, and when its `main` fails. A child's failure is its own: await
    /// its value if it's the parent's too. While the parent waits, for its children or for anything else, it lends them
    /// the ``OperationOptions/keys`` that it holds.
    ///
    /// - Parameters:
    ///   - child: The operation.
    ///   - dependencies: What must have ended before.
    ///   - options: Name, priority (at least the parent's counts), keys (which must be among the parent's).
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
