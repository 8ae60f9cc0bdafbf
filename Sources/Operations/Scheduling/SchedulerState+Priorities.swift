// Everything that an urgent operation waits for becomes as urgent.
extension SchedulerState {
    /// Marks an operation that awaits another supervisor's operation, so that raises are passed on to that supervisor.
    mutating func noteForeignWait(of position: Position) {
        entries[Int(position)].traits.insert(.hasForeignDependencies)
    }

    /// Raises an operation's priority, and the priority of everything that it waits for.
    ///
    /// Only declared priorities count, and an inherited one never falls. So each operation is raised at most four times,
    /// unless its declared priority is lowered in between.
    mutating func raise(_ position: Position, to priority: OperationPriority) {
        var pending = [position]
        while let position = pending.popLast() {
            let entry = entries[Int(position)]
            guard entry.priority < priority, entry.phase != .abandoned, entry.phase != .free else { continue }
            entries[Int(position)].priority = priority
            requeue(position)
            if entry.traits.contains(.hasForeignDependencies) { raised.append(position) }
            appendPredecessors(of: position, to: &pending)
            pending += children(of: position) + awaited(by: position)
        }
    }

    /// Sets an operation's declared priority.
    ///
    /// A lower one has no effect as long as a more urgent operation here waits for this one. What this one waits for keeps
    /// the priority that it inherited.
    mutating func setPriority(_ position: Position, to priority: OperationPriority) {
        let entry = entries[Int(position)]
        guard priority < entry.priority else { return raise(position, to: priority) }
        guard entry.phase != .abandoned, entry.phase != .free else { return }
        let effective = max(priority, inheritedPriority(of: position))
        guard effective < entry.priority else { return }
        entries[Int(position)].priority = effective
        requeue(position)
    }

    /// Adds an operation that waits for a slot to the queue of its new priority; its former entry is stale.
    private mutating func requeue(_ position: Position) {
        switch phase(of: position) {
        case .ready: enqueueReady(position)
        case .resuming where relations[position]?.isOwedKeys != true: enqueueResuming(position)
        case .free, .waiting, .running, .paused, .resuming, .abandoned: break
        }
    }

    /// The highest priority of the operations here that wait for this one, or are its parent.
    private func inheritedPriority(of position: Position) -> OperationPriority {
        let entry = entries[Int(position)]
        let itself = QueueEntry(entry.id, position)
        var waiting = dependents(of: position).map(\.dependent)
        if let relations = relations[position] {
            if let parent = relations.parent { waiting.append(parent) }
            waiting += relations.keys.compactMap {
                tickets.successor(of: itself, for: $0, of: relations.parent)?.position
            }
        }
        waiting += relations.lazy.filter { $0.value.awaited.contains(itself) }.map(\.key)
        // An abandoned operation waits for nothing.
        let live = waiting.lazy.map { entries[Int($0)] }.filter { $0.phase != .abandoned }
        return live.map(\.priority).max() ?? .veryLow
    }

    mutating func raisePredecessors(of position: Position) {
        let priority = entries[Int(position)].priority
        // The lowest priority raises no operation. The comparison below saves the call in the usual case.
        guard priority > .veryLow else { return }
        for edge in dependencies(of: position) where entries[Int(edge.dependency)].priority < priority {
            raise(edge.dependency, to: priority)
        }
        guard entries[Int(position)].traits.contains(.hasKeys) else { return }
        for predecessor in keyPredecessors(of: position) { raise(predecessor.position, to: priority) }
    }

    /// Appends what an unstarted operation waits for here: its dependencies, and its predecessors in the key queues.
    func appendPredecessors(of position: Position, to predecessors: inout [Position]) {
        predecessors += dependencies(of: position).lazy.map(\.dependency)
        guard entries[Int(position)].traits.contains(.hasKeys) else { return }
        predecessors += keyPredecessors(of: position).map(\.position)
    }
}
