import Synchronization
import ThreadSupport

/// The graph of waits across supervisors, which is searched before an edge that could close a cycle is added.
///
/// The waits of an operation that is being added can't close a cycle, because nothing waits for it yet: its dependencies,
/// its keys and its barriers. Three kinds of waits can: an operation awaits another one, a parent waits for a child that
/// has dependencies, or a dependency is added later. Only these and waits for room take the lock here. Supervisors' locks
/// are taken while it is held, never the other way round.
enum WaitGraph {
    /// The supervisors in which operations wait for room, once for each such operation.
    static let lock = Locked<[SchedulerCore]>([])

    /// The number of dependencies in other supervisors that these supervisors don't know of yet.
    private static let unsettledCount = Atomic(0)

    /// Counts dependencies before the dependent's supervisor shows it, and uncounts them once the other one knows of them.
    static func noteUnsettled(_ count: Int) { unsettledCount.add(count, ordering: .sequentiallyConsistent) }

    /// Adds the wait of `current`, which is about to await `target`.
    static func addWait(of current: OperationRecord, for target: OperationRecord) throws {
        // Before the edge exists, because a search relies on it from then on.
        target.core.withBoard { _ in
            if !target.hasEnded { target.madeExtras.isAwaited = true }
        }
        let priority = try addingEdges(from: current, to: [target]) { board -> OperationPriority? in
            guard current.lifecycle.runs, board.contains(current) else { return nil }
            let priority = board.scheduler.entries[Int(current.position)].priority
            if target.core !== current.core {
                current.madeExtras.awaitedElsewhere.append(target)
                board.scheduler.noteForeignWait(of: current.position)
            } else if !target.hasEnded {
                board.scheduler.beginAwait(of: current.position, for: target.position)
            }
            return priority
        }
        guard let priority else { return }
        target.core.withBoard { board in
            guard !target.hasEnded else { return }
            target.core === current.core
                ? board.raise(target, to: priority) : board.raiseFromElsewhere(target, to: priority)
        }
    }

    /// Removes the wait of `current`, which no longer awaits `target`.
    static func removeWait(of current: OperationRecord, for target: OperationRecord) {
        current.core.withBoard { board in
            if let index = current.extras?.awaitedElsewhere.firstIndex(where: { $0 === target }) {
                current.extras?.awaitedElsewhere.remove(at: index)
            } else if target.core === current.core, board.contains(current) {
                board.scheduler.endAwait(of: current.position, for: QueueEntry(target.id, target.position))
            }
        }
    }

    /// Calls `body` to add edges from an operation on its supervisor's board, unless one of them would close a cycle.
    ///
    /// What follows from the decision is performed after the lock is released, because it calls code from outside, which may
    /// block or add edges. Only metrics are recorded while it is held.
    ///
    /// - Throws: An ``OperationError`` that names the operations of the cycle.
    static func addingEdges<Result>(
        from source: OperationRecord,
        to targets: [OperationRecord],
        _ body: (inout SchedulerBoard) throws -> Result
    ) throws -> Result {
        nonisolated(unsafe) var decision: (answer: Result, effects: [SchedulerEffect])?
        nonisolated(unsafe) var refused: [RoomWaiter] = []
        try lock.withLock { coresWithoutRoom in
            // An ancestor's end waits for its descendants, so a path to an ancestor closes a cycle too.
            var goals: Set<OperationID> = []
            var ancestor: OperationRecord? = source
            while let current = ancestor {
                goals.insert(current.id)
                ancestor = current.core.withBoard { _ in current.extras?.parent }
            }
            let mayClose = mayHaveDependents(source)
            for target in targets where !target.hasEnded && (mayClose || goals.contains(target.id)) {
                guard let path = path(from: target, to: goals) else { continue }
                let names = ([source] + path).map { record in
                    record.core.withBoard { _ in "\(record.name) (operation \(record.id))" }
                }
                throw OperationError(
                    .wouldDeadlock,
                    "Waiting would never end: \(names.joined(separator: " waits for ")). Remove one of these waits."
                )
            }
            decision = try source.core.decide(body)
            refused = takeHopelessRoomWaiters(in: coresWithoutRoom)
        }
        guard let decision else { preconditionFailure("edges were neither added nor refused") }
        source.core.perform(decision.effects)
        refuse(refused)
        return decision.answer
    }

    /// Whether any operation may wait for this one, so that a wait of this one may close a cycle.
    ///
    /// Dependencies are usually added to operations for which none waits yet, and then nothing has to be searched.
    private static func mayHaveDependents(_ record: OperationRecord) -> Bool {
        guard unsettledCount.load(ordering: .sequentiallyConsistent) == 0 else { return true }
        return record.core.withBoard { board in
            guard board.contains(record) else { return true }
            if let extras = record.extras, extras.isAwaited || !extras.foreignDependents.isEmpty { return true }
            return board.scheduler.mayHaveDependents(record.position)
        }
    }

    /// Returns a path along which `start` waits for one of the goals.
    private static func path(from start: OperationRecord, to goals: Set<OperationID>) -> [OperationRecord]? {
        var reachedFrom: [OperationID: OperationRecord] = [:]
        var visited: Set<OperationID> = [start.id]
        var pending = [start]
        while let record = pending.popLast() {
            if goals.contains(record.id) {
                var path = [record]
                while let last = path.last, let previous = reachedFrom[last.id] { path.append(previous) }
                return path.reversed()
            }
            for next in record.core.withBoard({ $0.waits(of: record) }) where visited.insert(next.id).inserted {
                reachedFrom[next.id] = record
                pending.append(next)
            }
        }
        return nil
    }
}

extension SchedulerBoard {
    /// Returns what an operation waits for, in any supervisor.
    func waits(of record: OperationRecord) -> [OperationRecord] {
        guard !record.hasEnded, contains(record) else { return [] }
        let here = scheduler.waits(of: record.position).compactMap { records[Int($0)] }
        guard let extras = record.extras else { return here }
        return here + extras.awaitedElsewhere
            + (record.lifecycle.isWaiting ? extras.foreignDependencies.map(\.record) : [])
    }
}
