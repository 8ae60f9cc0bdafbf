// Which operations wait for which, for explanations and for the detection of cycles.
extension SchedulerState {
    /// Returns for each key the operation directly before this one, which holds the key or waits for it.
    func keyPredecessors(of slot: Slot) -> [(key: ExclusionKey, slot: Slot)] {
        guard let relations = relations[slot] else { return [] }
        let candidate = Candidate(entries[Int(slot)].id, slot)
        return relations.keys.compactMap { key in
            tickets.predecessor(of: candidate, for: key, of: relations.parent).map { (key, $0.slot) }
        }
    }

    /// Returns the operations that a barrier waits for, or the barrier that an operation waits for.
    func barrierWaits(of slot: Slot) -> [Slot] {
        let entry = entries[Int(slot)]
        guard !entry.traits.contains(.isChild), canWithdraw(slot) else { return [] }
        guard entry.traits.contains(.isBarrier) else {
            return epochs.barrier(before: entry.epoch).map { [$0.slot] } ?? []
        }
        return entries.indices.map { Slot($0) }.filter { other in
            let other = entries[Int(other)]
            return other.phase != .free && other.phase != .abandoned && !other.traits.contains(.isChild)
                && other.epoch <= entry.epoch && other.id != entry.id
        }
    }

    /// Returns what an operation waits for in this scheduler, as edges of a graph in which a cycle is a deadlock.
    func waits(of slot: Slot) -> [Slot] {
        var waits: [Slot] = []
        appendPredecessors(of: slot, to: &waits)
        waits += (relations[slot]?.children ?? []) + awaited(by: slot)
        return waits + barrierWaits(of: slot)
    }

    /// Whether an operation is on the same side of every barrier as an operation that is added now.
    func isOnSameSideOfBarriers(_ slot: Slot) -> Bool {
        entries[Int(slot)].epoch == epochs.last
    }

    /// Returns the unfinished dependencies of an operation in this scheduler.
    func dependencies(of slot: Slot) -> [(slot: Slot, policy: Edges.Policy)] {
        var dependencies: [(Slot, Edges.Policy)] = []
        var edge = entries[Int(slot)].firstDependency
        while edge != Edges.none {
            dependencies.append((edges[edge].dependency, edges[edge].policy))
            edge = edges[edge].nextDependency
        }
        return dependencies
    }
}
