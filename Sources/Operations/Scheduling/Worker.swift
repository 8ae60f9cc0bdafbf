/// One task that runs operation after operation, since a task for each costs more than the operation.
///
/// Cancelling an operation cancels its worker's task, and so *poisons* the worker: it takes no further operation, or that
/// one would find itself cancelled.
final class Worker: @unchecked Sendable {
    // Sendable: read and written under the scheduler's lock, but for `next`, which only the worker's own task touches.
    var task: Task<Void, Never>?
    var isPoisoned = false
    /// The operation to run after the one that is just ending.
    var next: OperationRecord?
}

/// A task for one operation alone, made when that is added so that it inherits the adder's task-local values.
struct OwnTask: Sendable {
    let task: Task<Void, Never>
    private let start: AsyncStream<Void>.Continuation

    init(_ record: OperationRecord) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        start = continuation
        task = Task(executorPreference: record.core.environment.executor) {
            for await _ in stream { await record.execute() }
        }
    }

    /// Lets the operation run.
    func run() {
        start.yield()
        start.finish()
    }

    /// The operation has ended without running.
    func drop() { start.finish() }
}
