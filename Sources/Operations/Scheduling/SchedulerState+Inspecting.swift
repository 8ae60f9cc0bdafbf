// Which operations wait for which, for explanations and for the detection of cycles.
extension SchedulerState {
    /// Returns for each key the operation directly before this one, which holds the key or waits for it.
    func keyPredecessors(of position: Position) -> [(key: ExclusionKey, position: Position)] {
        guard let relations = relations[position] else { return [] }
        let candidate = QueueEntry(entries[Int(position)].id, position)
        return relations.keys.compactMap { key in
            tickets.predecessor(of: candidate, for: key, of: relations.parent).map { (key, $0.position) }
        }
    }

    /// Returns the operations that a barrier waits for, or the barrier that an operation waits for.
    func barrierWaits(of position: Position) -> [Position] {
        let entry = entries[Int(position)]
        guard !entry.traits.contains(.isChild), entry.phase == .waiting || entry.phase == .ready else { return [] }
        guard entry.traits.contains(.isBarrier) else {
            return barriers.barrier(before: entry.section).map { [$0.position] } ?? []
        }
        return entries.indices.map { Position($0) }.filter { other in
            let other = entries[Int(other)]
            return other.phase != .free && other.phase != .abandoned && !other.traits.contains(.isChild)
                && other.section <= entry.section && other.id != entry.id
        }
    }

    /// Returns what an operation waits for in this scheduler, as edges of a graph in which a cycle is a deadlock.
    func waits(of position: Position) -> [Position] {
        var waits: [Position] = []
        appendPredecessors(of: position, to: &waits)
        waits += children(of: position) + awaited(by: position)
        return waits + barrierWaits(of: position)
    }

    /// Returns the children of an operation that haven't ended, the oldest first.
    func children(of position: Position) -> [Position] {
        relations[position]?.children.map(\.position) ?? []
    }

    /// Whether an operation has children that haven't ended.
    func hasChildren(_ position: Position) -> Bool { relations[position]?.children.isEmpty == false }

    /// Returns the operations that end with this one, because they joined it.
    func joined(to position: Position) -> [Position] {
        dependents(of: position).filter { $0.policy == .mirror }.map(\.dependent)
    }

    /// Returns the operations that have become ready, or wait again, since this was called last.
    mutating func takeReadinessChanges() -> [Position] {
        defer { readinessChanges = [] }
        return readinessChanges
    }

    /// Whether an operation is on the same side of every barrier as an operation that is added now.
    func isOnSameSideOfBarriers(_ position: Position) -> Bool {
        entries[Int(position)].section == barriers.last
    }

    /// Returns the edges to an operation's unfinished dependencies in this scheduler.
    func dependencies(of position: Position) -> Edges.List {
        edges.dependencies(from: entries[Int(position)].firstDependency)
    }

    /// Returns the edges from the operations in this scheduler that depend on an operation.
    func dependents(of position: Position) -> Edges.List {
        edges.dependents(from: entries[Int(position)].firstDependent)
    }
}
