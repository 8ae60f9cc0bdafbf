// Dependencies that are added or removed after an operation was added, and before it starts.
extension SchedulerState {
    /// Adds a dependency to an operation that hasn't started, on an operation that hasn't ended.
    mutating func addDependency(of position: Position, on dependency: Position, _ policy: Edges.Policy) {
        link(position, to: dependency, policy)
        leaveReady(position)
        raisePredecessors(of: position)
    }

    /// Adds a dependency in another supervisor, whose gate the owner of this value opens.
    mutating func addForeignDependency(of position: Position) {
        entries[Int(position)].traits.insert(.hasForeignDependencies)
        entries[Int(position)].gates += 1
        leaveReady(position)
    }

    /// Removes the dependencies of an operation on another one; only a joined operation keeps the one on its target.
    mutating func removeDependencies(of position: Position, on dependency: Position) {
        var index = entries[Int(position)].firstDependency
        while index != Edges.none {
            let edge = edges[index]
            if edge.dependency == dependency, edge.policy != .mirror {
                unlink(index)
                openGate(of: position)
            }
            index = edge.nextDependency
        }
    }

    /// Makes a ready operation wait again; its entry in the queue is stale until it is ready once more.
    private mutating func leaveReady(_ position: Position) {
        guard entries[Int(position)].phase == .ready else { return }
        entries[Int(position)].phase = .waiting
        if tracksReadiness { readinessChanges.append(position) }
    }

    /// Whether another operation here may wait for this one.
    ///
    /// This may be `true` for an operation that has no dependents, but is never `false` for one with dependents.
    func mayHaveDependents(_ position: Position) -> Bool {
        let entry = entries[Int(position)]
        return entry.firstDependent != Edges.none || !entry.traits.isDisjoint(with: [.isBarrier, .isChild, .hasKeys])
            || entry.section != barriers.last
    }
}
