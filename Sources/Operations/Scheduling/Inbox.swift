import DequeModule
import Synchronization
import ThreadSupport

/// Operations that were added while none could start, until somebody takes them in.
///
/// Whoever adds to a busy supervisor would wait for the scheduler's lock, and its workers for whoever adds. So operations
/// that depend on nothing and are as usual, but for a lower priority perhaps, are left here. They are taken in together:
/// before anybody looks at or changes what stands under the lock, and by a worker that has a place to give and nothing
/// better for it.
///
/// Where nothing but what is here waits for a place, a worker becomes a *taker*: it keeps its place and runs one operation
/// after the other straight from here, until there is none left or somebody takes everything in, what it runs just then
/// included. So an operation may come and go without the scheduler's having heard of it. Nobody can tell the difference:
/// whoever could has taken it in.
///
/// The locks here are taken while the scheduler's is held, never the other way round.
final class Inbox: Sendable {
    /// How many operations may be left here.
    enum Admission {
        case none
        /// Nobody comes to take them before somebody looks, which isn't to take long.
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

    /// Where operations are left: with a lock of its own, so that whoever adds seldom meets whoever takes.
    private struct Entrance {
        var admission = Admission.none
        /// The oldest first.
        var records: Deque<OperationRecord> = []
        /// Whether the oldest is the one to start first, which a lower priority among them makes doubtful.
        var isInOrder = true
    }

    /// Where takers take them.
    private struct Outlet {
        /// Those that came before all at the entrance, the oldest first.
        var records: Deque<OperationRecord> = []
        var takers: [Taker] = []
        /// How many takers have run to their end.
        var endedCount: Int64 = 0
    }

    /// A worker that runs newcomers.
    struct Taker {
        let worker: Worker
        /// What it runs.
        var record: OperationRecord
    }

    /// All that the scheduler hasn't heard of.
    struct Contents {
        /// How many takers have run to their end.
        var endedCount: Int64
        /// What runs, and where.
        var takers: [Taker]
        /// What waits, the oldest first.
        var records: Deque<OperationRecord>
    }

    /// Taken before the entrance's lock.
    private let outlet = Locked(Outlet())
    private let entrance = Locked(Entrance())
    private let isFilled = Atomic(false)

    /// Leaves an operation here.
    ///
    /// Returns whether that was possible; else it goes to the scheduler itself.
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

    /// Whether nothing waits here, and no taker runs anything.
    var isEmpty: Bool { !isFilled.load(ordering: .acquiring) }

    // MARK: Taking

    /// Makes a worker with a place a taker, if there is something to take.
    ///
    /// Returns the first operation that it's to run.
    func makeTaker(of worker: Worker) -> OperationRecord? {
        outlet.withLock { outlet in
            guard let record = takeFirst(&outlet) else { return nil }
            outlet.takers.append(Taker(worker: worker, record: record))
            return record
        }
    }

    /// Ends an operation that a taker has run, and gives the taker the next one.
    ///
    /// Returns whether that was possible; else the scheduler has to end it.
    func passOn(_ record: OperationRecord) -> Bool {
        guard record.isTaken else { return false }
        return outlet.withLock { outlet in
            guard let index = outlet.takers.firstIndex(where: { $0.record === record }),
                let next = takeFirst(&outlet)
            else { return false }
            record.change { $0.end(.finished) }
            // Whoever ends it has the operation in hand.
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

    // MARK: Taking in

    /// Takes everything out, from the takers too; `nil` if there is nothing.
    func takeAll() -> Contents? {
        isEmpty ? nil : takeAll { _ in }
    }

    /// Opens or closes it, and takes everything out.
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
