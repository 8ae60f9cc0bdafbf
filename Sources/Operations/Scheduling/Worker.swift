import ThreadSupport

/// A task that runs one operation after another, because a task for each costs more than the operation.
///
/// Cancelling an operation cancels its worker's task. The worker then runs no further operation, which would find itself
/// cancelled.
final class Worker: @unchecked Sendable {
    // Sendable: accessed under the scheduler's lock, except for `next`, which only the worker's own task accesses.
    var task: Task<Void, Never>?
    var isCancelled = false
    /// Whether it runs a single operation, which has a task priority or a task of its own.
    let isSolitary: Bool
    /// The number of its task's priority, as in the options.
    private let rawTaskPriority: UInt8?
    /// Its index among the supervisor's workers.
    fileprivate(set) var index = Workers.none
    /// The operation to run after the current one.
    var next: OperationRecord?

    init(rawTaskPriority: UInt8?, isSolitary: Bool) {
        self.rawTaskPriority = rawTaskPriority
        self.isSolitary = isSolitary
    }

    var taskPriority: TaskPriority? { rawTaskPriority.map(TaskPriority.init(rawValue:)) }
}

/// The workers of a supervisor, each at an index that its operations store.
struct Workers {
    /// The index for operations that have no worker.
    static let none = UInt32.max

    private var workers: ContiguousArray<Worker?> = []
    private var free: ContiguousArray<UInt32> = []

    subscript(index: UInt32) -> Worker? { index == Self.none ? nil : workers[Int(index)] }

    mutating func insert(_ worker: Worker) {
        if let index = free.popLast() {
            worker.index = index
            workers[Int(index)] = worker
        } else {
            worker.index = UInt32(workers.count)
            workers.append(worker)
        }
    }

    mutating func remove(_ worker: Worker) {
        workers[Int(worker.index)] = nil
        free.append(worker.index)
    }
}

/// A task for one operation alone, created when the operation is added, to inherit the caller's task-local values.
struct OwnTask: Sendable {
    private enum Signal {
        case awaited(CheckedContinuation<Bool, Never>?)
        /// Whether the operation runs.
        case given(Bool)
    }

    let task: Task<Void, Never>
    private let signal: Locked<Signal>

    init(_ record: OperationRecord) {
        let signal = Locked(Signal.awaited(nil))
        self.signal = signal
        let environment = record.core.environment
        let rawPriority = record.core.withBoard { _ in record.options.rawTaskPriority } ?? environment.rawTaskPriority
        let priority = rawPriority.map(TaskPriority.init(rawValue:))
        task = Task(executorPreference: environment.configuration.executor, priority: priority) {
            // A cancellation doesn't end this wait: once the operation was granted a slot, only its run can end it.
            let runs = await withCheckedContinuation { continuation in
                let given: Bool? = signal.withLock { signal in
                    if case .given(let runs) = signal { return runs }
                    signal = .awaited(continuation)
                    return nil
                }
                if let given { continuation.resume(returning: given) }
            }
            if runs { await record.execute() }
        }
    }

    /// Lets the operation run.
    func run() { give(true) }

    /// Ends the task without running the operation, which has ended.
    func drop() { give(false) }

    /// Gives the signal, of which only the first counts.
    private func give(_ runs: Bool) {
        let continuation: CheckedContinuation<Bool, Never>? = signal.withLock { signal in
            guard case .awaited(let continuation) = signal else { return nil }
            signal = .given(runs)
            return continuation
        }
        continuation?.resume(returning: runs)
    }
}

extension OperationRecord {
    /// Creates the task that inherits the caller's task-local values, if the options ask for it.
    func makeOwnTask() {
        guard core.withBoard({ _ in extras?.options.inheritsTaskLocals }) == true else { return }
        let task = OwnTask(self)
        core.withBoard { _ in extras?.ownTask = task }
    }

    /// Ends the operation's own task, if there is one, without running the operation, which wasn't added.
    func dropOwnTask() { core.withBoard { _ in extras?.ownTask.take() }?.drop() }
}
