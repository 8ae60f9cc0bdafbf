import DequeModule
import Logging
import ThreadSupport

/// The supervisor's data plane: all mutable state, guarded by one lock, and the workers that run operations.
///
/// Every event is decided under the lock, on the ``SchedulerBoard``, and acted on outside it. Further actions that an
/// action causes are appended to the list that is being performed. So a chain of any length needs no more stack than
/// its first link, and no supervisor's lock is ever taken while another's is held.
final class SchedulerCore: Sendable {
    let environment: OperationEnvironment
    let inbox = Inbox()
    private let board: Locked<SchedulerBoard>

    init(_ configuration: OperationSupervisor.Configuration) {
        environment = OperationEnvironment(configuration)
        board = Locked(SchedulerBoard(configuration, environment, inbox))
    }

    /// Reads or changes the state that the lock guards, if no actions follow from that.
    func withBoard<Result>(_ body: (inout sending SchedulerBoard) throws -> sending Result) rethrows -> sending Result {
        try board.withLock { board in
            board.takeInNewcomers()
            return try body(&board)
        }
    }

    /// Reads or changes state without taking in pending operations.
    ///
    /// This is for state that pending operations don't affect, or if `body` asks the inbox itself.
    func withBoardAsItStands<Result>(
        _ body: (inout sending SchedulerBoard) throws -> sending Result
    ) rethrows -> sending Result {
        try board.withLock { try body(&$0) }
    }

    /// Decides something under the lock, and performs the actions outside it.
    func decide<Result>(_ body: (inout SchedulerBoard, inout [SchedulerAction]) throws -> Result) rethrows -> Result {
        var actions: [SchedulerAction] = []
        // The lock's requirement of `sending` is stricter than needed: everything on the board is Sendable.
        nonisolated(unsafe) var result: Result?
        try board.withLock { board in
            board.takeInNewcomers()
            result = try body(&board, &actions)
        }
        perform(actions)
        guard let result else { preconditionFailure("a decision without a result") }
        return result
    }

    /// Ends an operation of which nothing runs any more.
    ///
    /// Takes in the pending operations only if that makes a difference.
    func end(_ record: OperationRecord, keepsOperation: Bool) {
        if keepsOperation, inbox.passOn(record) { return }
        var actions: [SchedulerAction] = []
        board.withLock { $0.end(record, keepsOperation: keepsOperation, &actions) }
        perform(actions)
    }

    private func perform(_ actions: [SchedulerAction]) {
        guard !actions.isEmpty else { return }
        // Most actions cause no others, so the list usually allocates no memory.
        var pending: Deque<SchedulerAction> = []
        for action in actions { perform(action, &pending) }
        while let action = pending.popFirst() { perform(action, &pending) }
    }

    private func perform(_ action: SchedulerAction, _ pending: inout Deque<SchedulerAction>) {
        switch action {
        case .start(let worker, let record): record.core.start(worker, with: record)
        case .startOwnTask(let task): task.run()
        case .dropOwnTask(let task): task.drop()
        case .resume(let continuation): continuation.resume()
        case .wake(let continuation): continuation.resume()
        case .fail(let continuation, let error): continuation.resume(throwing: error)
        case .tell(let listeners, let event):
            for listener in listeners {
                listener.continuation.yield(event)
                if case .ended = event { listener.continuation.finish() }
            }
        case .cancelTask(let task): task.cancel()
        case .cancel(let record, let cause):
            record.core.append(to: &pending) { $0.cancel(record, because: cause, &$1) }
        case .withdraw(let record, let error):
            record.core.append(to: &pending) { $0.withdraw(record, error, &$1) }
        case .mirror(let record):
            record.core.append(to: &pending) { $0.mirror(record, &$1) }
        case .settleForeign(let record, let dependency, let error):
            record.core.append(to: &pending) { $0.settleForeign(record, dependency, error, &$1) }
        case .forgetForeign(let record, let dependency):
            dependency.core.append(to: &pending) { board, _ in board.forgetForeign(record, dependency) }
        case .raise(let record, let priority):
            record.core.append(to: &pending) { $0.raise(record, to: priority, &$1) }
        case .release(let object): LiveOperations.remove(object)
        case .drop: break
        case .removeDirectory(let directory): directory.remove()
        case .endBackgroundStay(let stay):
            Task.detached(executorPreference: environment.executor) { await stay.end() }
        case .log(let write): write(environment)
        }
    }

    private func append(
        to pending: inout Deque<SchedulerAction>,
        _ body: (inout SchedulerBoard, inout [SchedulerAction]) -> Void
    ) {
        var actions: [SchedulerAction] = []
        board.withLock { board in
            board.takeInNewcomers()
            body(&board, &actions)
        }
        pending += actions
    }

    // MARK: Workers

    private func start(_ worker: Worker, with record: OperationRecord) {
        let work = { @Sendable in
            var next: OperationRecord? = record
            while let current = next {
                await current.execute()
                next = worker.next.take()
            }
        }
        // The runtime looks up an executor preference at every switch, even if the preference is `nil`.
        let task =
            if let executor = environment.executor {
                Task.detached(executorPreference: executor, operation: work)
            } else {
                Task.detached(operation: work)
            }
        // The operation may have been cancelled before its task was known.
        let isPoisoned = withBoard { _ in
            worker.task = task
            return worker.isPoisoned
        }
        if isPoisoned { task.cancel() }
    }

    // MARK: Control

    func cancel(_ record: OperationRecord, because cause: OperationError? = nil) {
        decide { $0.cancel(record, because: cause, &$1) }
    }

    /// Cancels all operations, newest first.
    ///
    /// In another order, an operation that only waits for another one's end would start when that one is cancelled.
    func cancelAll() {
        let records = records
        // In batches, so that other threads can take the lock in between.
        for end in stride(from: records.count, to: 0, by: -256) {
            decide { board, actions in
                for record in records[max(0, end - 256)..<end].reversed() {
                    board.cancel(record, because: nil, &actions)
                }
            }
        }
    }

    /// Changes what the scheduler may do, and grants the slots that become free.
    func configure(_ change: (inout SchedulerBoard) -> Void) {
        decide { board, actions in
            change(&board)
            board.grantAll(&actions)
        }
    }

    /// The operations that haven't ended, the oldest first.
    var records: [OperationRecord] {
        let records = withBoard { board in
            board.records.enumerated().compactMap { slot, record in
                record.map { (id: board.scheduler.entries[slot].id, record: $0) }
            }
        }
        return records.sorted { $0.id < $1.id }.map(\.record)
    }
}
