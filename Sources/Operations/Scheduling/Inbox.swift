import DequeModule
import Synchronization
import ThreadSupport

/// The pending operations: added while they couldn't start, and not yet taken in by the scheduler.
///
/// Callers that add operations would contend with the workers of a busy supervisor for the scheduler's lock. So
/// operations without dependencies or special options, except perhaps a lower priority, are left here. The scheduler
/// takes them in all at once: before its state is read or changed under the lock, and when it has a free slot and no
/// operation that comes before them.
///
/// If no other operation waits for a slot, a worker keeps its slot and runs one pending operation after another
/// straight from the inbox. It stops when none is left, or when the scheduler takes everything in, including the
/// operation that the worker runs at that moment. So an operation may run and end without the scheduler's knowledge.
/// This can't be observed, because the scheduler takes everything in before its state is read.
///
/// The locks here are taken while the scheduler's lock is held, never the other way round.
final class Inbox: Sendable {
    /// How many pending operations the inbox admits.
    enum Admission {
        case none
        /// A limited number: no worker runs them, so the next access to the scheduler takes all in, and must be quick.
        case few
        case any

        fileprivate var capacity: Int {
            switch self {
            case .none: 0
            case .few: 1024
            case .any: .max
            }
        }
    }

    /// Where callers leave operations, with a separate lock so that callers and workers rarely contend.
    private struct Entrance {
        var admission = Admission.none
        /// The operations, oldest first.
        var records: Deque<OperationRecord> = []
        /// Whether the oldest operation starts first; unknown once there is one of lower priority.
        var isInOrder = true
    }

    /// Where workers take operations.
    private struct Outlet {
        /// The operations that are older than all at the entrance, oldest first.
        var records: Deque<OperationRecord> = []
        var takers: [Taker] = []
        /// The number of operations that workers have run to the end straight from here.
        var endedCount: Int64 = 0
    }

    /// A worker that runs operations straight from the inbox.
    struct Taker {
        let worker: Worker
        /// The operation that it runs.
        var record: OperationRecord
    }

    /// Everything that the scheduler doesn't know yet.
    struct Contents {
        /// The number of operations that workers have run to the end straight from the inbox.
        var endedCount: Int64
        /// The workers that run operations straight from the inbox.
        var takers: [Taker]
        /// The waiting operations, oldest first.
        var records: Deque<OperationRecord>
    }

    /// Locked before the entrance, never while the entrance is locked.
    private let outlet = Locked(Outlet())
    private let entrance = Locked(Entrance())
    private let isFilled = Atomic(false)

    /// Leaves an operation in the inbox, if the inbox admits it.
    ///
    /// Returns whether it does; if not, the caller adds the operation to the scheduler.
    func put(_ record: OperationRecord) -> Bool {
        entrance.withLock { entrance in
            guard entrance.records.count < entrance.admission.capacity else { return false }
            record.id = .next()
            entrance.records.append(record)
            if record.priority != .normal { entrance.isInOrder = false }
            isFilled.store(true, ordering: .releasing)
            return true
        }
    }

    /// Whether no operation waits here, and no worker runs one straight from here.
    var isEmpty: Bool { !isFilled.load(ordering: .acquiring) }

    // MARK: Running straight from the inbox

    /// Lets a worker that has a slot run pending operations straight from here, if there are any.
    ///
    /// Returns the first operation for the worker.
    func makeTaker(of worker: Worker) -> OperationRecord? {
        outlet.withLock { outlet in
            guard let record = takeFirst(&outlet) else { return nil }
            outlet.takers.append(Taker(worker: worker, record: record))
            return record
        }
    }

    /// Ends an operation that a worker has run straight from here, and hands the worker the next one.
    ///
    /// Returns whether that was possible; if not, the scheduler has to end the operation.
    func passOn(_ record: OperationRecord) -> Bool {
        guard record.isTaken else { return false }
        return outlet.withLock { outlet in
            guard let index = outlet.takers.firstIndex(where: { $0.record === record }),
                let next = takeFirst(&outlet)
            else { return false }
            record.change { $0.end(.finished) }
            // The caller holds the operation, so its last reference isn't released under the lock.
            _ = record.clear()
            outlet.endedCount += 1
            outlet.takers[index].record = next
            outlet.takers[index].worker.next = next
            return true
        }
    }

    private func takeFirst(_ outlet: inout Outlet) -> OperationRecord? {
        if outlet.records.isEmpty {
            entrance.withLock { entrance in
                if entrance.isInOrder { swap(&entrance.records, &outlet.records) }
            }
        }
        guard let record = outlet.records.popFirst() else { return nil }
        record.begin()
        record.noteTaker()
        return record
    }

    // MARK: Taking in by the scheduler

    /// Removes and returns everything, including what workers run straight from here; `nil` if the inbox is empty.
    func takeAll() -> Contents? {
        isEmpty ? nil : takeAll { _ in }
    }

    /// Sets how many operations the inbox admits, and removes and returns everything in it.
    func setAdmission(_ admission: Admission) -> Contents {
        takeAll { $0.admission = admission }
    }

    private func takeAll(_ change: (inout Entrance) -> Void) -> Contents {
        outlet.withLock { outlet in
            var contents = Contents(endedCount: 0, takers: [], records: [])
            swap(&contents.endedCount, &outlet.endedCount)
            swap(&contents.takers, &outlet.takers)
            swap(&contents.records, &outlet.records)
            entrance.withLock { entrance in
                contents.records += entrance.records
                entrance = Entrance(admission: entrance.admission)
                change(&entrance)
                isFilled.store(false, ordering: .releasing)
            }
            return contents
        }
    }
}
