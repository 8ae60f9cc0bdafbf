/// One task that runs operation after operation, since a task for each costs more than the operation.
///
/// Cancelling an operation cancels its worker's task, and so *poisons* the worker: it takes no further operation, or that
/// one would find itself cancelled.
final class Worker: @unchecked Sendable {
    // Sendable: read and written under the scheduler's lock, but for `next`, which only the worker's own task touches.
    var task: Task<Void, Never>?
    var isPoisoned = false
    /// Where it stands among the supervisor's workers.
    fileprivate(set) var place = Workers.none
    /// The operation to run after the one that is just ending.
    var next: OperationRecord?
}

/// The workers of a supervisor, each at a place that its operations know.
struct Workers {
    /// The place of an operation that has no worker.
    static let none = UInt32.max

    private var workers: ContiguousArray<Worker?> = []
    private var free: ContiguousArray<UInt32> = []

    subscript(place: UInt32) -> Worker? { place == Self.none ? nil : workers[Int(place)] }

    mutating func insert(_ worker: Worker) {
        if let place = free.popLast() {
            worker.place = place
            workers[Int(place)] = worker
        } else {
            worker.place = UInt32(workers.count)
            workers.append(worker)
        }
    }

    mutating func remove(_ worker: Worker) {
        workers[Int(worker.place)] = nil
        free.append(worker.place)
    }
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
