import DequeModule
import Logging
import ThreadSupport

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The supervisor's data plane: everything that changes, under one lock, and the workers that run operations.
///
/// Every event is decided under the lock, on the ``SchedulerBoard``, and acted on outside it. What an action causes in turn
/// joins the list that is being worked off, so a chain of any length ends with no more stack than its first link; and no
/// supervisor's lock is ever taken while another's is held.
final class SchedulerCore: Sendable {
    let environment: OperationEnvironment
    private let board: Locked<SchedulerBoard>

    init(_ configuration: OperationSupervisor.Configuration) {
        environment = OperationEnvironment(configuration)
        board = Locked(SchedulerBoard(configuration, environment))
    }

    /// Reads or changes what stands under the lock, where nothing follows from it.
    func withBoard<Result>(_ body: (inout sending SchedulerBoard) throws -> sending Result) rethrows -> sending Result {
        try board.withLock(body)
    }

    /// Decides something under the lock, and acts on it.
    func decide<Result>(_ body: (inout SchedulerBoard, inout [SchedulerAction]) throws -> Result) rethrows -> Result {
        var actions: [SchedulerAction] = []
        // The lock's promise about sending is more than is needed: all that is on the board is Sendable.
        nonisolated(unsafe) var result: Result?
        try board.withLock { board in result = try body(&board, &actions) }
        perform(actions)
        guard let result else { preconditionFailure("a decision without a result") }
        return result
    }

    private func perform(_ actions: [SchedulerAction]) {
        guard !actions.isEmpty else { return }
        var pending = Deque(actions)
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
                listener.yield(event)
                if case .ended = event { listener.finish() }
            }
        case .cancelTask(let task): task.cancel()
        case .cancel(let record, let cause):
            record.core.append(to: &pending) { $0.cancel(record, because: cause, &$1) }
        case .withdraw(let record, let error):
            record.core.append(to: &pending) { $0.withdraw(record, error, &$1) }
        case .mirror(let record):
            record.core.append(to: &pending) { $0.mirror(record, &$1) }
        case .settleForeign(let record, let error):
            record.core.append(to: &pending) { $0.settleForeign(record, error, &$1) }
        case .raise(let record, let priority):
            record.core.append(to: &pending) { $0.raise(record, to: priority, &$1) }
        case .release(let object): LiveOperations.remove(object)
        case .drop: break
        case .removeDirectory(let url): try? FileManager.default.removeItem(at: url)
        case .log(let write): write(environment)
        }
    }

    private func append(
        to pending: inout Deque<SchedulerAction>,
        _ body: (inout SchedulerBoard, inout [SchedulerAction]) -> Void
    ) {
        var actions: [SchedulerAction] = []
        board.withLock { body(&$0, &actions) }
        pending += actions
    }

    // MARK: Workers

    private func start(_ worker: Worker, with record: OperationRecord) {
        let task = Task.detached(executorPreference: environment.executor) {
            var next: OperationRecord? = record
            while let current = next {
                await current.execute()
                next = worker.next.take()
            }
        }
        // The operation may have been cancelled before its task was known.
        let isPoisoned = withBoard { _ in
            worker.task = task
            return worker.isPoisoned
        }
        if isPoisoned { task.cancel() }
    }

    /// Runs `body` in a task that isn't cancelled when the current one is: for ending phases and cleaning up.
    ///
    /// The task has the task-local values of the current one, the operation and its span among them.
    func shielded(_ body: @escaping @Sendable () async -> Void) async {
        guard Task.isCancelled else { return await body() }
        await Task(executorPreference: environment.executor) { await body() }.value
    }

    // MARK: Control

    func cancel(_ record: OperationRecord, because cause: OperationError? = nil) {
        decide { $0.cancel(record, because: cause, &$1) }
    }

    /// Changes what the scheduler may do, and gives away the places that this frees.
    func configure(_ change: (inout SchedulerBoard) -> Void) {
        decide { board, actions in
            change(&board)
            board.grantAll(&actions)
        }
    }

    /// The operations that haven't ended, the oldest first.
    var records: [OperationRecord] {
        withBoard { $0.records.compactMap { $0 } }.sorted { $0.id < $1.id }
    }
}
