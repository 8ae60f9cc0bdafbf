import DequeModule
import ThreadSupport

/// A caller that waits for room to add an operation.
struct RoomWaiter {
    var ticket: UInt64
    var continuation: CheckedContinuation<Void, any Error>
    /// The waiting operation, of any supervisor, if the caller is an operation.
    var operation: OperationRecord?
}

extension OperationSupervisor {
    /// Returns when every operation has ended, including operations that are added meanwhile.
    ///
    /// A suspended supervisor that holds operations doesn't drain until it is resumed. An operation of another supervisor
    /// that waits here releases its slot there. A deadlock in which two supervisors' operations drain each other's
    /// supervisor isn't detected.
    ///
    /// - Throws: `CancellationError` if the waiting task is cancelled, which doesn't affect the operations; an
    ///   ``OperationError`` of the code `suspended` if the supervisor suspended itself, or `wouldDeadlock` if the caller is
    ///   one of its own operations.
    public func drain() async throws {
        // A task may outlive its operation, and then doesn't hold up that operation's end.
        guard let current = CurrentOperation.record, !current.hasEnded else { return try await waitUntilDrained() }
        guard current.core !== core else {
            throw OperationError(
                .wouldDeadlock,
                "Waiting would never end: operation \(current.id) waits for all operations of its supervisor, including itself."
            )
        }
        try await current.core.pause(current, awaiting: "another supervisor to drain") { try await waitUntilDrained() }
    }

    private func waitUntilDrained() async throws {
        let ticket = core.makeTicket()
        try await waitCancellably(for: "the end of every operation of a supervisor") { continuation in
            core.withBoard { board in
                guard board.scheduler.count > 0 else { return false }
                if board.isSuspendedByFailures {
                    board.emit(.call { continuation.resume(throwing: OperationError.suspendedByFailures) })
                } else {
                    board.drainWaiters[ticket] = continuation
                }
                return true
            }
        } remove: { [core] in
            core.withBoard { $0.drainWaiters.removeValue(forKey: ticket) }
        }
    }

    /// Adds an operation as soon as the supervisor holds fewer than its capacity, first come, first served.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - dependencies: The operations that must end first.
    ///   - options: Name, priority, keys and the rest. A coalescing key has no effect here.
    /// - Returns: The operation's handle.
    /// - Throws: `CancellationError` if the waiting task is cancelled before there is room; an ``OperationError`` of the
    ///   code `wouldDeadlock` if the caller is an operation and no other operation could ever end and make room.
    @discardableResult
    public func addWhenRoom<Work: Operation>(
        _ operation: Work,
        after dependencies: [any OperationReference] = [],
        options: OperationOptions? = nil
    ) async throws -> OperationHandle<Work.Output> {
        let current = CurrentOperation.record
        if let current {
            try await current.core.pause(current, awaiting: "room for another operation") {
                try await core.awaitRoom(for: current)
                // The operation's children may hold its keys and wait for room themselves.
                WaitGraph.refuseHopelessRoomWaits()
            }
        } else {
            try await core.awaitRoom(for: nil)
        }
        let record = WorkRecord(operation, options: options, core: core)
        core.add(CollectionOfOne(record), after: dependencies, isAdmitted: true, by: current)
        // The new operation may wait for all the operations that wait for room.
        WaitGraph.refuseHopelessRoomWaits()
        return OperationHandle(record: record)
    }
}

extension SchedulerCore {
    func makeTicket() -> UInt64 { withBoard { $0.makeTicket() } }

    /// Waits until there is room, and reserves it.
    fileprivate nonisolated(nonsending) func awaitRoom(for current: OperationRecord?) async throws {
        let ticket = makeTicket()
        if current != nil { WaitGraph.addRoomWait(in: self) }
        defer { if current != nil { WaitGraph.removeRoomWait(in: self) } }
        try await waitCancellably(for: "room for another operation") { continuation in
            let mustWait = withBoard { board in
                guard board.hasNoRoom || !board.roomWaiters.isEmpty else {
                    board.reserveRoom(for: current)
                    return false
                }
                board.roomWaiters.append(RoomWaiter(ticket: ticket, continuation: continuation, operation: current))
                return true
            }
            if mustWait, current != nil { WaitGraph.refuseHopelessRoomWaits() }
            return mustWait
        } remove: {
            self.withBoard { board in
                guard let index = board.roomWaiters.firstIndex(where: { $0.ticket == ticket }) else { return nil }
                return board.roomWaiters.remove(at: index).continuation
            }
        }
    }
}

extension SchedulerBoard {
    var hasNoRoom: Bool {
        guard let capacity = environment.configuration.capacity, !isShutDown else { return false }
        return scheduler.rootCount + reservedRoom >= capacity
    }

    /// Reserves room for the operation that a caller is about to add; `nil` is a caller that isn't an operation.
    mutating func reserveRoom(for caller: OperationRecord?) {
        reservedRoom += 1
        if let caller { operationsWithReservedRoom.append(caller) }
    }

    /// Ends a caller's reservation, because the caller's operation is added now.
    mutating func useReservation(of caller: OperationRecord?) {
        reservedRoom -= 1
        if let caller, let index = operationsWithReservedRoom.firstIndex(where: { $0 === caller }) {
            operationsWithReservedRoom.remove(at: index)
        }
    }

    /// Reserves the free room for the callers that wait for it, in the order in which they came.
    mutating func admitWaiters() {
        while !hasNoRoom, let waiter = roomWaiters.popFirst() {
            reserveRoom(for: waiter.operation)
            emit(.call { waiter.continuation.resume() })
        }
    }
}
