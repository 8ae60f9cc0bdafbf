// Who waits for whom, for those who explain it and for those who look for circles.
extension SchedulerState {
    /// For each key, the operation that has it or stands next before this one.
    func keyPredecessors(of slot: Slot) -> [(key: ExclusionKey, slot: Slot)] {
        guard let relations = relations[slot] else { return [] }
        let candidate = Candidate(entries[Int(slot)].id, slot)
        return relations.keys.compactMap { key in
            tickets.predecessor(of: candidate, for: key, of: relations.parent).map { (key, $0.slot) }
        }
    }

    /// The operations that a barrier waits for, or the barrier that an operation waits for.
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

    /// What an operation waits for, in this scheduler, as edges of the graph in which a cycle would be a deadlock.
    func waits(of slot: Slot) -> [Slot] {
        var waits: [Slot] = []
        appendPredecessors(of: slot, to: &waits)
        waits += (relations[slot]?.children ?? []) + awaited(by: slot)
        return waits + barrierWaits(of: slot)
    }

    /// Whether an operation stands where one would that is added now, as far as barriers are concerned.
    func isOnSameSideOfBarriers(_ slot: Slot) -> Bool {
        entries[Int(slot)].epoch == epochs.last
    }

    /// The unfinished dependencies of an operation, in this scheduler.
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
