// Who gets a place, and gives it back while it waits.
extension SchedulerState {
    struct Grant: Hashable {
        var slot: Slot
        /// Whether it comes back from a pause; else it starts.
        var isResumption: Bool
    }

    static let ageingInterval = 32

    /// Whether a place is free, at least for what paused, and for children: they get one even at width 0, or the paused
    /// one could never end.
    var hasPlace: Bool { runningCount < max(1, width) }

    /// Whether nothing waits for a place, and no barrier for the end of what runs.
    var holdsNobodyBack: Bool { queues.allSatisfy(\.isEmpty) && epochs.areOpen }

    private var allowsFresh: Bool { runningCount < width && !isSuspended }

    /// Whether an operation with nothing that is unusual wouldn't start, however many places were free.
    var holdsNewcomers: Bool { isSuspended || isInBackground || width == 0 }

    /// Whether an operation with nothing that is unusual would start if it were added now.
    var startsNewcomers: Bool { allowsFresh && !isInBackground }

    /// Whether something stands here that comes before any operation with nothing that is unusual that is added now.
    var outranksNewcomers: Bool {
        !isEmpty(.resuming) || !isEmpty(.children) || queues[Line.fresh.rawValue].holds(.normal)
            || queues[Line.freshInBackground.rawValue].holds(.normal)
    }

    /// Takes from the front of each line what isn't to be granted any more, or not yet.
    mutating func dropStale() {
        for line in Line.allCases where !isEmpty(line) { dropStale(from: line) }
    }

    /// Gives the next operation a place, if there is one and somebody may have it.
    mutating func grant() -> Grant? {
        guard hasPlace else { return nil }
        dropStale()
        return grantFirst()
    }

    /// As ``grant()``, where a place is free and nothing stale stands first.
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

    /// Whether the parent runs, with the keys that the child needs.
    func isHeldByParent(_ slot: Slot) -> Bool {
        guard usesParentsKeys(slot), let parent = relations[slot]?.parent else { return false }
        return entries[Int(parent)].phase == .running
    }

    // MARK: Pausing

    /// A running operation gives its place back, and the keys that its children need.
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

    /// A paused operation wants its place again; ``grant()`` says when it has one.
    ///
    /// Returns whether it has to wait.
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
