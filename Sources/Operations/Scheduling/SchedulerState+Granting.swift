// Which operations are granted a slot, and how they release it while they wait.
extension SchedulerState {
    struct Grant: Hashable {
        var slot: Slot
        /// Whether the operation resumes after a pause; otherwise it starts.
        var isResumption: Bool
    }

    static let ageingInterval = 32

    /// Whether a slot is free, at least for operations that resume and for children.
    ///
    /// These get a slot even at width 0. Otherwise a paused operation could never end.
    var hasPlace: Bool { runningCount < max(1, width) }

    /// Whether no operation waits for a slot, and every barrier has ended.
    var holdsNobodyBack: Bool { queues.allSatisfy(\.isEmpty) && epochs.areOpen }

    private var allowsFresh: Bool { runningCount < width && !isSuspended }

    /// Whether an operation without special options couldn't start even if slots were free.
    var holdsNewcomers: Bool { isSuspended || isInBackground || width == 0 }

    /// Whether an operation without special options would start if it were added now.
    var startsNewcomers: Bool { allowsFresh && !isInBackground }

    /// Whether an operation here comes before every pending operation in the inbox.
    var outranksNewcomers: Bool {
        !isEmpty(.resuming) || !isEmpty(.children) || queues[Line.fresh.rawValue].holds(.normal)
            || queues[Line.freshInBackground.rawValue].holds(.normal)
    }

    /// Removes entries from the front of each line that must not be granted any more, or not yet.
    mutating func dropStale() {
        for line in Line.allCases where !isEmpty(line) { dropStale(from: line) }
    }

    /// Grants the next operation a slot, if a slot is free and an operation may have it.
    mutating func grant() -> Grant? {
        guard hasPlace else { return nil }
        dropStale()
        return grantFirst()
    }

    /// Grants like ``grant()``, but requires a free slot and no stale entries at the front of the lines.
    mutating func grantFirst() -> Grant? {
        let takesOldest = (grantCount + 1).isMultiple(of: Self.ageingInterval)
        guard let line = takesOldest ? lineOfOldest() : lineOfBest() else { return nil }
        let candidate = queues[line.rawValue].remove(oldest: takesOldest)
        grantCount += 1
        runningCount += 1
        let isResumption = entries[Int(candidate.slot)].phase == .resuming
        entries[Int(candidate.slot)].phase = .running
        if !isResumption { didStart(candidate.slot) }
        return Grant(slot: candidate.slot, isResumption: isResumption)
    }

    private mutating func didStart(_ slot: Slot) {
        unlinkDependencies(of: slot)
        guard usesParentsKeys(slot), let parent = relations[slot]?.parent else { return }
        relations[parent]?.lentCount += 1
    }

    private func isEmpty(_ line: Line) -> Bool { queues[line.rawValue].isEmpty }

    private func lineOfBest() -> Line? {
        if !isEmpty(.resuming) { return .resuming }
        if !isEmpty(.children) { return .children }
        guard allowsFresh else { return nil }
        let hasForeground = !isInBackground && !isEmpty(.fresh)
        guard !isEmpty(.freshInBackground) else { return hasForeground ? .fresh : nil }
        guard hasForeground, let foreground = queues[Line.fresh.rawValue].head,
            let background = queues[Line.freshInBackground.rawValue].head
        else { return .freshInBackground }
        return foreground.isServedBefore(background) ? .fresh : .freshInBackground
    }

    private func lineOfOldest() -> Line? {
        let lines = Line.allCases.filter { line in
            switch line {
            case .resuming, .children: true
            case .fresh: allowsFresh && !isInBackground
            case .freshInBackground: allowsFresh
            }
        }
        let oldest = lines.compactMap { line in queues[line.rawValue].oldest.map { (line, $0) } }
        return oldest.min { $0.1 < $1.1 }?.0
    }

    private mutating func dropStale(from line: Line) {
        var filled = queues[line.rawValue].filledPriorities
        while filled != 0, let priority = OperationPriority(rawValue: UInt8(filled.trailingZeroBitCount)) {
            filled &= filled - 1
            while let candidate = queues[line.rawValue].first(of: priority), !isCurrent(candidate, priority, line) {
                queues[line.rawValue].removeFirst(of: priority)
            }
        }
    }

    private mutating func isCurrent(_ candidate: Candidate, _ priority: OperationPriority, _ line: Line) -> Bool {
        switch line {
        case .fresh, .freshInBackground:
            return isReady(candidate, priority)
        case .resuming:
            let entry = entries[Int(candidate.slot)]
            return entry.id == candidate.id && entry.phase == .resuming && entry.priority == priority
                && relations[candidate.slot]?.isOwedKeys != true
        case .children:
            guard isReady(candidate, priority) else { return false }
            guard isHeldByParent(candidate.slot), let parent = relations[candidate.slot]?.parent else { return true }
            relations[parent]?.heldChildren.append(candidate)
            return false
        }
    }

    func isReady(_ candidate: Candidate, _ priority: OperationPriority) -> Bool {
        let entry = entries[Int(candidate.slot)]
        return entry.id == candidate.id && entry.phase == .ready && entry.priority == priority
    }

    func usesParentsKeys(_ slot: Slot) -> Bool {
        entries[Int(slot)].traits.isSuperset(of: [.isChild, .hasKeys])
    }

    /// Whether the child can't start because its parent runs and holds the keys that the child needs.
    func isHeldByParent(_ slot: Slot) -> Bool {
        guard usesParentsKeys(slot), let parent = relations[slot]?.parent else { return false }
        return entries[Int(parent)].phase == .running
    }

    // MARK: Pausing

    /// Pauses a running operation: releases its slot, and lends its children the keys that they need.
    mutating func pause(_ slot: Slot) {
        guard entries[Int(slot)].phase == .running else { return }
        entries[Int(slot)].phase = .paused
        runningCount -= 1
        guard let held = relations[slot]?.heldChildren, !held.isEmpty else { return }
        relations[slot]?.heldChildren = []
        for candidate in held where isReady(candidate, entries[Int(candidate.slot)].priority) {
            enqueueReady(candidate.slot)
        }
    }

    /// Makes a paused operation wait for a slot, which ``grant()`` grants.
    ///
    /// Returns `false` if the operation isn't paused and so doesn't have to wait.
    mutating func resume(_ slot: Slot) -> Bool {
        guard entries[Int(slot)].phase == .paused else { return false }
        entries[Int(slot)].phase = .resuming
        if let lent = relations[slot]?.lentCount, lent > 0 {
            relations[slot]?.isOwedKeys = true
        } else {
            enqueueResuming(slot)
        }
        return true
    }

    mutating func enqueueResuming(_ slot: Slot) {
        let entry = entries[Int(slot)]
        queues[Line.resuming.rawValue].insert(Candidate(entry.id, slot), entry.priority)
    }
}
