import ThreadSupport

// MARK: - Waiting for room

// A caller that waits for room waits until any of the supervisor's operations ends. That never happens if all of them
// wait, directly or not, for operations that wait for room. Any wait that is added can complete such a deadlock.

extension WaitGraph {
    /// Registers that an operation waits for room in the supervisor, until ``removeRoomWait(in:)``.
    static func addRoomWait(in core: SchedulerCore) { lock.withLock { $0.append(core) } }

    static func removeRoomWait(in core: SchedulerCore) {
        lock.withLock { cores in
            if let index = cores.firstIndex(where: { $0 === core }) { cores.remove(at: index) }
        }
    }

    /// Refuses the waits for room that would never end.
    static func refuseHopelessRoomWaits() {
        refuse(lock.withLock { takeHopelessRoomWaiters(in: $0) })
    }

    static func refuse(_ waiters: [RoomWaiter]) {
        for waiter in waiters {
            let id = waiter.operation.map { "\($0.id)" } ?? ""
            let error = OperationError(
                .wouldDeadlock,
                """
                Waiting would never end: with operation \(id) waiting for room in the supervisor, every operation of the \
                supervisor waits for room, or for an operation that does. Raise the capacity, or add without waiting.
                """
            )
            waiter.continuation.resume(throwing: error)
        }
    }

    /// Removes and returns the waiters whose wait would never end; the caller holds the lock.
    ///
    /// They are removed one by one, because a refused operation can end and leave its room to the others.
    static func takeHopelessRoomWaiters(in cores: [SchedulerCore]) -> [RoomWaiter] {
        var taken: [RoomWaiter] = []
        while let (core, operation) = youngestHopelessRoomWaiter(in: cores) {
            let waiter = core.withBoard { board -> RoomWaiter? in
                guard let index = board.roomWaiters.firstIndex(where: { $0.operation === operation }) else {
                    return nil
                }
                return board.roomWaiters.remove(at: index)
            }
            guard let waiter else { break }
            taken.append(waiter)
        }
        return taken
    }

    private struct FullSupervisor {
        let core: SchedulerCore
        var roots: Set<OperationID>
        var waiters: [OperationRecord]
        var willHaveRoom = false
    }

    private static func youngestHopelessRoomWaiter(in cores: [SchedulerCore]) -> (SchedulerCore, OperationRecord)? {
        guard !cores.isEmpty else { return nil }
        var supervisors: [FullSupervisor] = []
        var pending: [OperationRecord] = []
        for (index, core) in cores.enumerated() where !cores[..<index].contains(where: { $0 === core }) {
            // An operation with reserved room counts: before it can end, it adds another one, which can end too.
            let (roots, waiters) = core.withBoard { board in
                (board.roots + board.operationsWithReservedRoom, board.operationsWithoutRoom)
            }
            guard !waiters.isEmpty else { continue }
            supervisors.append(FullSupervisor(core: core, roots: Set(roots.map(\.id)), waiters: waiters))
            pending += roots + waiters
        }
        // For each operation: how many ends it waits for (room counts as one), and which operations wait for its end.
        var waitCounts: [OperationID: Int] = [:]
        var dependents: [OperationID: [OperationID]] = [:]
        var visited: Set<OperationID> = []
        for waiter in supervisors.flatMap(\.waiters) { waitCounts[waiter.id, default: 0] += 1 }
        while let record = pending.popLast() {
            guard visited.insert(record.id).inserted else { continue }
            let waits = record.core.withBoard { $0.waits(of: record) }
            waitCounts[record.id, default: 0] += waits.count
            for other in waits { dependents[other.id, default: []].append(record.id) }
            pending += waits
        }
        // Simulates the end of every operation that can end.
        var ending = visited.filter { waitCounts[$0] == 0 }
        while let id = ending.popFirst() {
            var freed = dependents.removeValue(forKey: id) ?? []
            for index in supervisors.indices where supervisors[index].roots.contains(id) {
                guard !supervisors[index].willHaveRoom else { continue }
                supervisors[index].willHaveRoom = true
                freed += supervisors[index].waiters.map(\.id)
            }
            for other in freed {
                waitCounts[other, default: 0] -= 1
                if waitCounts[other] == 0 { ending.insert(other) }
            }
        }
        let hopeless = supervisors.filter { !$0.willHaveRoom }
        return hopeless.flatMap { full in full.waiters.map { (full.core, $0) } }.max { $0.1.id < $1.1.id }
    }
}

extension SchedulerBoard {
    /// The operations that take up room.
    fileprivate var roots: [OperationRecord] {
        records.compactMap { record in
            guard let record, !record.hasEnded else { return nil }
            return scheduler.entries[Int(record.position)].traits.isDisjoint(with: [.isChild, .isJoined]) ? record : nil
        }
    }

    /// The operations that wait for room, and get none unless another operation ends.
    fileprivate var operationsWithoutRoom: [OperationRecord] {
        // A caller with reserved room is about to add an operation, which can end. Only an operation whose keys are
        // lent isn't: it resumes when its children return them. An operation of another supervisor isn't inspected.
        let held = operationsWithReservedRoom.count { operation in
            contains(operation) && scheduler.relations[operation.position]?.lentCount ?? 0 > 0
        }
        return hasNoRoom && reservedRoom == held ? roomWaiters.compactMap(\.operation) : []
    }
}
