// What it means for other operations that an operation ends or is abandoned.
extension SchedulerState {
    /// Whether an operation can be withdrawn because it hasn't started.
    func canWithdraw(_ slot: Slot) -> Bool {
        switch phase(of: slot) {
        case .waiting, .ready: true
        case .free, .running, .paused, .resuming, .abandoned: false
        }
    }

    /// Ends an operation and frees its index.
    ///
    /// - Returns: The operations that must not run because this one didn't succeed, or that end as it does, the oldest
    ///   first.
    mutating func end(_ slot: Slot, succeeded: Bool) -> [Slot] {
        let unlucky = leave(slot, succeeded: succeeded)
        release(slot)
        return unlucky
    }

    /// Abandons a running operation, which keeps its keys and its index until ``release(_:)``.
    mutating func abandon(_ slot: Slot) -> [Slot] {
        let unlucky = leave(slot, succeeded: false)
        entries[Int(slot)].phase = .abandoned
        return unlucky
    }

    private mutating func leave(_ slot: Slot, succeeded: Bool) -> [Slot] {
        let entry = entries[Int(slot)]
        if entry.phase == .running { runningCount -= 1 }
        count -= 1
        unlinkDependencies(of: slot)
        let unlucky = settleDependents(of: slot, succeeded: succeeded)
        if entry.traits.isDisjoint(with: [.isChild, .isJoined]) { rootCount -= 1 }
        if entry.traits.contains(.isChild) {
            leaveParent(slot)
        } else {
            for candidate in epochs.leave(entry.epoch, isBarrier: entry.traits.contains(.isBarrier)) {
                guard contains(candidate.id, at: candidate.slot) else { continue }
                openGate(of: candidate.slot)
            }
        }
        return unlucky
    }

    /// Releases what an operation holds until nothing of it runs any more: its keys and its index.
    mutating func release(_ slot: Slot) {
        let entry = entries[Int(slot)]
        entries[Int(slot)].phase = .free
        if !relations.isEmpty, let relations = relations.removeValue(forKey: slot), entry.traits.contains(.hasKeys) {
            for key in relations.keys {
                if let next = tickets.leave(Candidate(entry.id, slot), for: key, of: relations.parent) {
                    openGate(of: next.slot)
                }
            }
        }
        freeSlots.append(slot)
    }

    private mutating func leaveParent(_ slot: Slot) {
        guard let parent = relations[slot]?.parent else { return }
        relations[parent]?.children.removeAll { $0 == slot }
        switch entries[Int(slot)].phase {
        case .running, .paused, .resuming: break
        case .free, .waiting, .ready, .abandoned: return
        }
        guard usesParentsKeys(slot) else { return }
        relations[parent]?.lentCount -= 1
        guard relations[parent]?.lentCount == 0, relations[parent]?.isOwedKeys == true else { return }
        relations[parent]?.isOwedKeys = false
        enqueueResuming(parent)
    }

    private mutating func settleDependents(of slot: Slot, succeeded: Bool) -> [Slot] {
        var unlucky: [Slot] = []
        while entries[Int(slot)].firstDependent != Edges.none {
            let edge = edges[entries[Int(slot)].firstDependent]
            unlink(entries[Int(slot)].firstDependent)
            switch edge.policy {
            case .mustSucceed where succeeded, .ending: openGate(of: edge.dependent)
            case .mustSucceed, .mirror: unlucky.append(edge.dependent)
            }
        }
        guard unlucky.count > 1 else { return unlucky }
        return unlucky.sorted { entries[Int($0)].id < entries[Int($1)].id }
    }

    mutating func unlinkDependencies(of slot: Slot) {
        while entries[Int(slot)].firstDependency != Edges.none { unlink(entries[Int(slot)].firstDependency) }
    }

    private mutating func unlink(_ index: UInt32) {
        let edge = edges[index]
        let removal = edges.remove(index)
        if removal.wasFirstDependent { entries[Int(edge.dependency)].firstDependent = edge.nextDependent }
        if removal.wasFirstDependency { entries[Int(edge.dependent)].firstDependency = edge.nextDependency }
    }
}
