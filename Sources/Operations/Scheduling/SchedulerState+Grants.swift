// Which operations are granted a slot, and how they release it while they wait.
extension SchedulerState {
    struct Grant: Equatable {
        var position: Position
        /// Whether the operation resumes after a pause; otherwise it starts.
        var isResumption: Bool
    }

    static let ageingInterval = 32

    private var allowsFresh: Bool { runningCount < width && !isSuspended && freshHolds == 0 }

    /// Grants the next operation a slot, if a slot is free and an operation may have it.
    ///
    /// Operations that resume and children get a slot even at width 0. Otherwise a paused operation could never end.
    mutating func grant() -> Grant? {
        guard runningCount < max(1, width) else { return nil }
        for line in Line.allCases where !isEmpty(line) { dropStale(from: line) }
        let takesOldest = (grantCount + 1).isMultiple(of: Self.ageingInterval)
        guard let line = takesOldest ? lineOfOldest() : lineOfBest() else { return nil }
        let candidate = queues[line.rawValue].remove(oldest: takesOldest)
        grantCount += 1
        runningCount += 1
        let isResumption = entries[Int(candidate.position)].phase == .resuming
        entries[Int(candidate.position)].phase = .running
        if !isResumption { didStart(candidate.position) }
        return Grant(position: candidate.position, isResumption: isResumption)
    }

    private mutating func didStart(_ position: Position) {
        unlinkDependencies(of: position)
        guard usesParentsKeys(position), let parent = relations[position]?.parent else { return }
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
        let oldest = lines.compactMap { line in queues[line.rawValue].oldest.map { (line, $0.candidate) } }
        return oldest.min { $0.1 < $1.1 }?.0
    }

    private mutating func dropStale(from line: Line) {
        var filled = queues[line.rawValue].filledPriorities
        while filled != 0, let priority = OperationPriority(rawValue: UInt8(filled.trailingZeroBitCount)) {
            filled &= filled - 1
            while let candidate = queues[line.rawValue].first(of: priority),
                !isCurrent(candidate, line, priority)
            {
                queues[line.rawValue].removeFirst(of: priority)
            }
        }
    }

    /// Whether an entry of a queue still counts; an operation whose priority was changed has several.
    private mutating func isCurrent(_ candidate: QueueEntry, _ line: Line, _ priority: OperationPriority) -> Bool {
        switch line {
        case .fresh, .freshInBackground:
            return isReady(candidate, priority)
        case .resuming:
            let entry = entries[Int(candidate.position)]
            return entry.id == candidate.id && entry.phase == .resuming && entry.priority == priority
                && relations[candidate.position]?.isOwedKeys != true
        case .children:
            guard isReady(candidate, priority) else { return false }
            guard isHeldByParent(candidate.position), let parent = relations[candidate.position]?.parent else {
                return true
            }
            relations[parent]?.heldChildren.append(candidate)
            return false
        }
    }

    private func isReady(_ candidate: QueueEntry, _ priority: OperationPriority) -> Bool {
        let entry = entries[Int(candidate.position)]
        return entry.id == candidate.id && entry.phase == .ready && entry.priority == priority
    }

    func usesParentsKeys(_ position: Position) -> Bool {
        entries[Int(position)].traits.isSuperset(of: [.isChild, .hasKeys])
    }

    /// Whether the child can't start because its parent runs and holds the keys that the child needs.
    func isHeldByParent(_ position: Position) -> Bool {
        guard usesParentsKeys(position), let parent = relations[position]?.parent else { return false }
        return entries[Int(parent)].phase == .running
    }

    // MARK: Pausing

    /// Pauses a running operation: releases its slot, and lends its children the keys that they need.
    mutating func pause(_ position: Position) {
        guard entries[Int(position)].phase == .running else { return }
        entries[Int(position)].phase = .paused
        runningCount -= 1
        guard let held = relations[position]?.heldChildren, !held.isEmpty else { return }
        relations[position]?.heldChildren = []
        for candidate in held
        where contains(candidate.id, at: candidate.position) && phase(of: candidate.position) == .ready {
            enqueueReady(candidate.position)
        }
    }

    /// Makes a paused operation wait for a slot, which ``grant()`` grants.
    ///
    /// Returns `false` if the operation isn't paused and so doesn't have to wait.
    mutating func resume(_ position: Position) -> Bool {
        guard entries[Int(position)].phase == .paused else { return false }
        entries[Int(position)].phase = .resuming
        if let lent = relations[position]?.lentCount, lent > 0 {
            relations[position]?.isOwedKeys = true
        } else {
            enqueueResuming(position)
        }
        return true
    }

    mutating func enqueueResuming(_ position: Position) {
        let entry = entries[Int(position)]
        queues[Line.resuming.rawValue].insert(QueueEntry(entry.id, position), entry.priority)
    }
}
