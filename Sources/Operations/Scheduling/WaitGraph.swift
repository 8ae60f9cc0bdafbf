import ThreadSupport

/// Who waits for whom, across supervisors: searched before an edge is added that could close a cycle.
///
/// Dependencies, keys and barriers point from newer operations to older ones, and so can't. What can: an operation that
/// awaits another one, and a child with dependencies, for which its parent waits. Only those take the lock here, which is
/// held while supervisors' locks are taken and never the other way round.
enum WaitGraph {
    /// The supervisors in which operations wait for room, each as often as one does.
    static let lock = Locked<[SchedulerCore]>([])

    /// `current` is about to await `target`.
    static func addWait(of current: OperationRecord, for target: OperationRecord) throws {
        try addingEdges(from: current, to: [target]) {
            let priority = current.core.decide { board, actions -> OperationPriority? in
                guard current.lifecycle.isUnderway, board.scheduler.contains(current.id, at: current.slot) else {
                    return nil
                }
                let priority = board.scheduler.entries[Int(current.slot)].priority
                if target.core !== current.core {
                    current.madeExtras.awaitedForeigners.append(target)
                    board.scheduler.noteForeignWait(of: current.slot)
                } else if target.lifecycle.finalOutcome == nil {
                    board.scheduler.beginAwait(of: current.slot, for: target.slot)
                }
                return priority
            }
            guard let priority else { return }
            target.core.decide { $0.raise(target, to: priority, &$1) }
        }
    }

    /// `current` awaits `target` no more.
    static func removeWait(of current: OperationRecord, for target: OperationRecord) {
        current.core.withBoard { board in
            if let index = current.extras?.awaitedForeigners.firstIndex(where: { $0 === target }) {
                current.extras?.awaitedForeigners.remove(at: index)
            } else if target.core === current.core, board.scheduler.contains(current.id, at: current.slot) {
                board.scheduler.endAwait(of: current.slot, for: Candidate(target.id, target.slot))
            }
        }
    }

    /// Adds edges from an operation, by `body`, unless one of them would close a cycle.
    ///
    /// - Throws: An ``OperationError`` that names the operations of the cycle.
    static func addingEdges<Result>(
        from source: OperationRecord,
        to targets: [OperationRecord],
        _ body: () throws -> Result
    ) throws -> Result {
        nonisolated(unsafe) var result: Result?
        nonisolated(unsafe) var refused: [RoomWaiter] = []
        try lock.withLock { coresWithoutRoom in
            // The ancestors' ends wait for their descendant.
            var goals: Set<OperationID> = []
            var ancestor: OperationRecord? = source
            while let current = ancestor {
                goals.insert(current.id)
                ancestor = current.core.withBoard { _ in current.extras?.parent }
            }
            for target in targets {
                guard let path = path(from: target, to: goals) else { continue }
                let names = ([source] + path).map { record in
                    record.core.withBoard { _ in "\(record.name) (operation \(record.id))" }
                }
                throw OperationError(
                    .wouldDeadlock,
                    "Waiting would never end: \(names.joined(separator: " waits for ")). Take one of these waits away."
                )
            }
            result = try body()
            refused = takeHopelessRoomWaiters(in: coresWithoutRoom)
        }
        refuse(refused)
        guard let result else { preconditionFailure("edges were neither added nor refused") }
        return result
    }

    /// A path along which `start` waits for one of the goals.
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
    /// What an operation waits for, in any supervisor.
    func waits(of record: OperationRecord) -> [OperationRecord] {
        guard record.lifecycle.finalOutcome == nil, scheduler.contains(record.id, at: record.slot) else { return [] }
        let here = scheduler.waits(of: record.slot).compactMap { records[Int($0)] }
        guard let extras = record.extras else { return here }
        return here + extras.awaitedForeigners + (record.lifecycle.isWaiting ? extras.foreignDependencies : [])
    }
}
