// What it means for other operations that an operation ends or is abandoned.
extension SchedulerState {
    /// Ends an operation and frees its index.
    ///
    /// - Returns: The operations that must not run because this one didn't succeed, or that end as it does, the oldest
    ///   first.
    mutating func end(_ position: Position, succeeded: Bool) -> [Position] {
        let doomed = leave(position, succeeded: succeeded)
        release(position)
        return doomed
    }

    /// Abandons a running operation, which keeps its keys and its index until ``release(_:)``.
    mutating func abandon(_ position: Position) -> [Position] {
        let doomed = leave(position, succeeded: false)
        entries[Int(position)].phase = .abandoned
        return doomed
    }

    private mutating func leave(_ position: Position, succeeded: Bool) -> [Position] {
        let entry = entries[Int(position)]
        if entry.phase == .running { runningCount -= 1 }
        count -= 1
        unlinkDependencies(of: position)
        let doomed = settleDependents(of: position, succeeded: succeeded)
        if entry.traits.isDisjoint(with: [.isChild, .isJoined]) { rootCount -= 1 }
        if entry.traits.contains(.isChild) {
            leaveParent(QueueEntry(entry.id, position))
        } else {
            for candidate in barriers.leave(entry.section, isBarrier: entry.traits.contains(.isBarrier)) {
                guard contains(candidate.id, at: candidate.position) else { continue }
                openGate(of: candidate.position)
            }
        }
        return doomed
    }

    /// Releases what an operation holds until nothing of it runs any more: its keys and its index.
    mutating func release(_ position: Position) {
        let entry = entries[Int(position)]
        entries[Int(position)].phase = .free
        if !relations.isEmpty, let relations = relations.removeValue(forKey: position), entry.traits.contains(.hasKeys)
        {
            for key in relations.keys {
                if let next = tickets.leave(QueueEntry(entry.id, position), for: key, of: relations.parent) {
                    openGate(of: next.position)
                }
            }
        }
        freePositions.append(position)
    }

    private mutating func leaveParent(_ child: QueueEntry) {
        guard let parent = relations[child.position]?.parent else { return }
        relations[parent]?.children.remove(child)
        switch entries[Int(child.position)].phase {
        case .running, .paused, .resuming: break
        case .free, .waiting, .ready, .abandoned: return
        }
        guard usesParentsKeys(child.position) else { return }
        relations[parent]?.lentCount -= 1
        guard relations[parent]?.lentCount == 0, relations[parent]?.isOwedKeys == true else { return }
        relations[parent]?.isOwedKeys = false
        enqueueResuming(parent)
    }

    private mutating func settleDependents(of position: Position, succeeded: Bool) -> [Position] {
        var doomed: [Position] = []
        while entries[Int(position)].firstDependent != Edges.none {
            let edge = edges[entries[Int(position)].firstDependent]
            unlink(entries[Int(position)].firstDependent)
            switch edge.policy {
            case .mustSucceed where succeeded, .ending: openGate(of: edge.dependent)
            case .mustSucceed, .mirror: doomed.append(edge.dependent)
            }
        }
        guard doomed.count > 1 else { return doomed }
        return doomed.sorted { entries[Int($0)].id < entries[Int($1)].id }
    }

    mutating func unlinkDependencies(of position: Position) {
        while entries[Int(position)].firstDependency != Edges.none { unlink(entries[Int(position)].firstDependency) }
    }

    mutating func unlink(_ index: UInt32) {
        let edge = edges[index]
        let removal = edges.remove(index)
        if removal.wasFirstDependent { entries[Int(edge.dependency)].firstDependent = edge.nextDependent }
        if removal.wasFirstDependency { entries[Int(edge.dependent)].firstDependency = edge.nextDependency }
    }
}
