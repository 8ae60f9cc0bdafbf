// Everything that an urgent operation waits for becomes as urgent.
extension SchedulerState {
    /// Marks an operation that awaits another supervisor's operation, so that raises are passed on to that supervisor.
    mutating func noteForeignWait(of position: Position) {
        entries[Int(position)].traits.insert(.hasForeignDependencies)
    }

    /// Raises an operation's priority, and the priority of everything that it waits for.
    ///
    /// Priorities never fall, and only declared priorities count. So each operation is raised at most four times.
    mutating func raise(_ position: Position, to priority: OperationPriority) {
        var pending = [position]
        while let position = pending.popLast() {
            let entry = entries[Int(position)]
            guard entry.priority < priority, entry.phase != .abandoned, entry.phase != .free else { continue }
            entries[Int(position)].priority = priority
            switch entry.phase {
            case .ready: enqueueReady(position)
            case .resuming where relations[position]?.isOwedKeys != true: enqueueResuming(position)
            case .free, .waiting, .running, .paused, .resuming, .abandoned: break
            }
            if entry.traits.contains(.hasForeignDependencies) { raised.append(position) }
            appendPredecessors(of: position, to: &pending)
            pending += (relations[position]?.children ?? []) + awaited(by: position)
        }
    }

    mutating func raisePredecessors(of position: Position) {
        let priority = entries[Int(position)].priority
        // The lowest priority raises no operation. The comparison below saves the call in the usual case.
        guard priority > .veryLow else { return }
        var edge = entries[Int(position)].firstDependency
        while edge != Edges.none {
            let dependency = edges[edge].dependency
            if entries[Int(dependency)].priority < priority { raise(dependency, to: priority) }
            edge = edges[edge].nextDependency
        }
        guard entries[Int(position)].traits.contains(.hasKeys) else { return }
        for predecessor in keyPredecessors(of: position) { raise(predecessor.position, to: priority) }
    }

    /// Appends what an unstarted operation waits for here: its dependencies, and its predecessors in the key queues.
    func appendPredecessors(of position: Position, to predecessors: inout [Position]) {
        var edge = entries[Int(position)].firstDependency
        while edge != Edges.none {
            predecessors.append(edges[edge].dependency)
            edge = edges[edge].nextDependency
        }
        guard entries[Int(position)].traits.contains(.hasKeys) else { return }
        predecessors += keyPredecessors(of: position).map(\.position)
    }
}
