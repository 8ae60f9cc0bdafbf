// Everything that an urgent operation waits for becomes as urgent.
extension SchedulerState {
    /// Marks an operation that awaits another supervisor's operation, so that raises are passed on to that supervisor.
    mutating func noteForeignWait(of slot: Slot) { entries[Int(slot)].traits.insert(.hasForeignDependencies) }

    /// Raises an operation's priority, and the priority of everything that it waits for.
    ///
    /// Priorities never fall, and only declared priorities count. So each operation is raised at most four times.
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
        // The lowest priority raises no operation. The comparison below saves the call in the usual case.
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

    /// Appends what an unstarted operation waits for here: its dependencies, and its predecessors in the key queues.
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
