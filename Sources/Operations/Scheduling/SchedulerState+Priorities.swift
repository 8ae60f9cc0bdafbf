// What an urgent operation waits for is as urgent.
extension SchedulerState {
    /// An operation awaits one of another supervisor, which is to be told when it becomes more urgent.
    mutating func noteForeignWait(of slot: Slot) { entries[Int(slot)].traits.insert(.hasForeignDependencies) }

    /// Raises an operation's priority, and with it that of everything it waits for.
    ///
    /// Only raises, and only declared priorities count, so each operation rises at most four times.
    mutating func raise(_ slot: Slot, to priority: OperationPriority) {
        var pending = [slot]
        while let slot = pending.popLast() {
            let entry = entries[Int(slot)]
            guard entry.priority < priority, entry.phase != .abandoned, entry.phase != .free else { continue }
            entries[Int(slot)].priority = priority
            switch entry.phase {
            case .ready: enqueueReady(slot)
            case .resuming where relations[slot]?.isOwedKeys != true: enqueueResuming(slot)
            case .free, .waiting, .running, .paused, .resuming, .abandoned: break
            }
            if entry.traits.contains(.hasForeignDependencies) { raised.append(slot) }
            appendPredecessors(of: slot, to: &pending)
            pending += (relations[slot]?.children ?? []) + awaited(by: slot)
        }
    }

    mutating func raisePredecessors(of slot: Slot) {
        let priority = entries[Int(slot)].priority
        // The least priority there is has nobody to raise, and it's worth not looking for those of the usual one.
        guard priority > .veryLow else { return }
        var edge = entries[Int(slot)].firstDependency
        while edge != Edges.none {
            let dependency = edges[edge].dependency
            if entries[Int(dependency)].priority < priority { raise(dependency, to: priority) }
            edge = edges[edge].nextDependency
        }
        guard entries[Int(slot)].traits.contains(.hasKeys) else { return }
        for predecessor in keyPredecessors(of: slot) { raise(predecessor.slot, to: priority) }
    }

    /// What an operation that hasn't started waits for, in this scheduler: dependencies, and those with its keys.
    func appendPredecessors(of slot: Slot, to predecessors: inout [Slot]) {
        var edge = entries[Int(slot)].firstDependency
        while edge != Edges.none {
            predecessors.append(edges[edge].dependency)
            edge = edges[edge].nextDependency
        }
        guard entries[Int(slot)].traits.contains(.hasKeys) else { return }
        predecessors += keyPredecessors(of: slot).map(\.slot)
    }
}
