import ThreadSupport

// MARK: - Waiting for room

// Who waits for room waits until one of the supervisor's operations ends, whichever it is. That never comes when all of
// them wait, in the end, for somebody who waits for room; and any wait that is added can be the last one needed for it.

extension WaitGraph {
    /// An operation is going to wait for room in this supervisor, until ``removeRoomWait(in:)``.
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
                Waiting would never end: every operation of the supervisor waits for room in it, or for one that does, \
                now operation \(id) too. Let it hold more, or add without waiting.
                """
            )
            waiter.continuation.resume(throwing: error)
        }
    }

    /// Takes out those that wait in vain, under the lock: one after the other, since one that is refused can end, and
    /// leave its room to the others.
    static func takeHopelessRoomWaiters(in cores: [SchedulerCore]) -> [RoomWaiter] {
        var taken: [RoomWaiter] = []
        while let operation = youngestHopelessRoomWaiter(in: cores) {
            let waiter = operation.core.withBoard { board -> RoomWaiter? in
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
        var roots: Set<OperationID>
        var waiters: [OperationRecord]
        var willHaveRoom = false
    }

    private static func youngestHopelessRoomWaiter(in cores: [SchedulerCore]) -> OperationRecord? {
        guard !cores.isEmpty else { return nil }
        var supervisors: [FullSupervisor] = []
        var pending: [OperationRecord] = []
        for (index, core) in cores.enumerated() where !cores[..<index].contains(where: { $0 === core }) {
            // Who was promised room and can end, adds somebody before, who can end too.
            let (roots, waiters) = core.withBoard { ($0.roots + $0.promisedRoom, $0.operationsWithoutRoom) }
            guard !waiters.isEmpty else { continue }
            supervisors.append(FullSupervisor(roots: Set(roots.map(\.id)), waiters: waiters))
            pending += roots + waiters
        }
        // How many ends, or how much room, each one waits for, and who waits for its end.
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
        // Lets everything end that can.
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
        return supervisors.filter { !$0.willHaveRoom }.flatMap(\.waiters).max { $0.id < $1.id }
    }
}

extension SchedulerBoard {
    /// The operations that take up room.
    fileprivate var roots: [OperationRecord] {
        records.compactMap { record in
            guard let record, record.lifecycle.finalOutcome == nil else { return nil }
            return scheduler.entries[Int(record.slot)].traits.isDisjoint(with: [.isChild, .isJoined]) ? record : nil
        }
    }

    /// The operations that wait for room as long as none of the others ends.
    fileprivate var operationsWithoutRoom: [OperationRecord] {
        // Of those who were promised room, only one whose keys are lent isn't about to add somebody who can end.
        let held = promisedRoom.count { scheduler.relations[$0.slot]?.lentCount ?? 0 > 0 }
        return hasNoRoom && reservedRoom == held ? roomWaiters.compactMap(\.operation) : []
    }
}
