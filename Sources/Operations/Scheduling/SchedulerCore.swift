import DequeModule
import ThreadSupport

/// The supervisor's data plane: all mutable state, guarded by one lock, and the workers that run operations.
///
/// Every event but one (see ``LifecycleCell``) is decided under the lock, on the ``SchedulerBoard``, and acted on outside
/// it. A run takes the lock once, to end the operation and to grant its slot to the next. Further effects that an
/// effect causes are appended to the list that is being performed. So a chain of any length needs no more stack than
/// its first link, and no supervisor's lock is ever taken while another's is held.
final class SchedulerCore: Sendable {
    let environment: OperationEnvironment
    private let board: Locked<SchedulerBoard>

    init(_ configuration: OperationSupervisor.Configuration) {
        environment = OperationEnvironment(configuration)
        board = Locked(SchedulerBoard(environment))
        withBoard { $0.listeners.core = self }
    }

    /// Reads or decides under the lock, and performs what follows outside it.
    ///
    /// A body that throws must do so before it decides anything.
    func withBoard<Answer, Failure: Error>(
        _ body: (inout SchedulerBoard) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let (answer, effects) = try decide(body)
        perform(effects)
        return answer
    }

    /// Reads or decides under the lock, and returns what follows, which the caller performs outside all locks.
    ///
    /// A body that throws must do so before it decides anything.
    func decide<Answer, Failure: Error>(
        _ body: (inout SchedulerBoard) throws(Failure) -> Answer
    ) throws(Failure) -> (answer: Answer, effects: [SchedulerEffect]) {
        // The lock's requirement of `sending` is stricter than needed: everything on the board is Sendable.
        nonisolated(unsafe) var effects: [SchedulerEffect] = []
        let answer = try board.withLock { board throws(Failure) in
            nonisolated(unsafe) let answer = try body(&board)
            effects = board.takeEffects()
            return answer
        }
        return (answer, effects)
    }

    func perform(_ effects: [SchedulerEffect]) {
        guard !effects.isEmpty else { return }
        // Most effects cause no others, so the list usually allocates no memory.
        var pending: Deque<SchedulerEffect> = []
        for effect in effects { perform(effect, &pending) }
        while let effect = pending.popFirst() { perform(effect, &pending) }
    }

    private func perform(_ effect: SchedulerEffect, _ pending: inout Deque<SchedulerEffect>) {
        switch effect {
        case .start(let worker, let record): record.core.start(worker, with: record)
        case .decide(let core, let decision): pending += core.decide(decision).effects
        case .release(let object): extendLifetime(object)
        case .call(let body): body()
        }
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
            if let executor = environment.configuration.executor {
                Task.detached(executorPreference: executor, priority: worker.taskPriority, operation: work)
            } else {
                Task.detached(priority: worker.taskPriority, operation: work)
            }
        // The operation may have been cancelled before its task was known.
        let isCancelled = withBoard { _ in
            worker.task = task
            return worker.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    // MARK: Control

    var supervisor: OperationSupervisor? { withBoard { $0.listeners.supervisor } }

    func cancel(_ record: OperationRecord, because cause: OperationError? = nil) {
        withBoard { $0.cancel(record, because: cause) }
    }

    /// Cancels operations, which are in the order of their age, the newest first.
    func cancel(_ records: [OperationRecord]) {
        // An operation that only waits for the end of another one must not start when that one is cancelled.
        withBoard { $0.scheduler.freshHolds += 1 }
        defer { configure { $0.scheduler.freshHolds -= 1 } }
        // In batches, so that other threads can take the lock in between.
        for end in stride(from: records.count, to: 0, by: -256) {
            withBoard { board in
                for record in records[max(0, end - 256)..<end].reversed() {
                    board.cancel(record, because: nil)
                }
            }
        }
    }

    /// Changes what the scheduler may do, and grants the slots that become free.
    func configure(_ change: (inout SchedulerBoard) -> Void) {
        withBoard { board in
            change(&board)
            board.grantAll()
        }
    }

    /// The operations that haven't ended, the oldest first.
    var records: [OperationRecord] {
        let records = withBoard { board in
            board.records.enumerated().compactMap { position, record in
                record.map { (id: board.scheduler.entries[position].id, record: $0) }
            }
        }
        return records.sorted { $0.id < $1.id }.map(\.record)
    }
}
