import DequeModule

/// The scheduler's rules as a value: events in, grants and endings out.
///
/// No lock, no task, no clock. An operation has a *slot*, a small number that is its place in the tables here; slots are
/// used again, identifiers never are. What keeps an operation from being granted is counted in one number, its
/// *gates*: a dependency that hasn't ended, a key that others hold or wait for, a barrier before it.
///
/// A *grant* gives one operation a place; at most ``width`` places are taken. Operations that come back from a pause are
/// served before children, those before fresh ones; among equals the more urgent, then the older. Every 32nd grant takes
/// the oldest of all, so nothing starves. Suspension, the background and a width of 0 hold back fresh operations only:
/// one that paused must be able to end, and so must its children.
struct SchedulerState: Sendable {
    typealias Slot = UInt32

    enum Phase: UInt8, Sendable {
        case free
        /// Behind at least one gate.
        case waiting
        case ready, running, paused
        /// Wants its place back after a pause.
        case resuming
        /// Written off while it ran; only its keys are still taken.
        case abandoned
    }

    struct Traits: OptionSet, Sendable {
        let rawValue: UInt8
        static let mayContinueInBackground = Traits(rawValue: 1)
        static let isBarrier = Traits(rawValue: 2)
        static let isChild = Traits(rawValue: 4)
        static let hasKeys = Traits(rawValue: 8)
        /// Waits for operations of other supervisors, which whoever drives this value knows.
        static let hasForeignDependencies = Traits(rawValue: 16)
        /// Ends with another one and is never granted.
        static let isJoined = Traits(rawValue: 32)
    }

    struct Entry: Sendable {
        var id: OperationID
        var gates: UInt32 = 0
        /// The first edge of those who depend on it.
        var firstDependent = Edges.none
        /// The first edge of what it depends on.
        var firstDependency = Edges.none
        /// Which stretch between barriers it belongs to.
        var epoch: UInt32 = 0
        var phase = Phase.waiting
        var priority: OperationPriority
        var traits: Traits
    }

    /// What few operations have: keys, relatives, operations that they await.
    struct Relations: Sendable {
        var keys: [ExclusionKey] = []
        var parent: Slot?
        var children: [Slot] = []
        /// Children that were granted, haven't ended, and use keys of this operation.
        var lentCount = 0
        /// Children that could start but for this operation running with the keys that they need.
        var heldChildren: [Candidate] = []
        /// Wants its place back and must wait until the keys that it lent are back.
        var isOwedKeys = false
        /// Operations that its `main` awaits; they may have ended.
        var awaited: [Candidate] = []
    }

    /// What is said of an operation when it's added.
    struct Addition {
        var id: OperationID
        var priority = OperationPriority.normal
        var traits: Traits = []
        var dependencies: [(slot: Slot, policy: Edges.Policy)] = []
        /// Gates that whoever drives this value opens: dependencies of other supervisors.
        var foreignDependencyCount = 0
        var keys: [ExclusionKey] = []
        var parent: Slot?
    }

    /// How many operations may run at once.
    private(set) var width: Int
    /// Whether fresh operations are held back.
    var isSuspended: Bool
    /// Whether fresh operations that may not continue in the background are held back.
    var isInBackground = false
    /// How many run now.
    private(set) var runningCount = 0
    /// How many operations haven't ended; those written off don't count.
    private(set) var count = 0
    /// How many of them are operations of their own: neither children nor joined to another one.
    private(set) var rootCount = 0
    /// Operations with dependencies in other supervisors whose priority rose, for whoever drives this value to pass on.
    var raised: [Slot] = []

    private(set) var entries: ContiguousArray<Entry> = []
    private var freeSlots: [Slot] = []
    var edges = Edges()
    var relations: [Slot: Relations] = [:]
    var tickets = KeyTickets()
    private var epochs = Epochs()
    private var queues = ContiguousArray(repeating: ReadyQueue(), count: Line.allCases.count)
    private var grantCount = 0

    /// Where those that could have a place stand.
    private enum Line: Int, CaseIterable {
        case resuming, children, fresh, freshInBackground
    }

    init(width: Int, isSuspended: Bool) {
        self.width = max(0, width)
        self.isSuspended = isSuspended
    }

    mutating func setWidth(_ width: Int) { self.width = max(0, width) }

    /// Whether the slot is still that operation's.
    func contains(_ id: OperationID, at slot: Slot) -> Bool {
        entries.indices.contains(Int(slot)) && entries[Int(slot)].id == id && entries[Int(slot)].phase != .free
    }

    func phase(of slot: Slot) -> Phase { entries[Int(slot)].phase }

    // MARK: Adding

    /// An operation is added; its dependencies haven't ended.
    ///
    /// Returns its slot.
    mutating func add(_ addition: Addition) -> Slot {
        var entry = Entry(id: addition.id, priority: addition.priority, traits: addition.traits)
        entry.gates = UInt32(addition.foreignDependencyCount)
        if let parent = addition.parent {
            entry.traits.insert(.isChild)
            entry.priority = max(entry.priority, entries[Int(parent)].priority)
        }
        if !addition.keys.isEmpty { entry.traits.insert(.hasKeys) }
        let slot = insert(entry)
        count += 1
        if let parent = addition.parent { relations[parent, default: Relations()].children.append(slot) }
        if entry.traits.isDisjoint(with: [.isChild, .isJoined]) { rootCount += 1 }
        if !addition.keys.isEmpty || addition.parent != nil {
            relations[slot] = Relations(keys: addition.keys, parent: addition.parent)
        }
        for dependency in addition.dependencies {
            link(slot, to: dependency.slot, dependency.policy)
        }
        for key in addition.keys {
            let isFirst = tickets.join(Candidate(addition.id, slot), for: key, of: addition.parent)
            if !isFirst { entries[Int(slot)].gates += 1 }
        }
        if addition.parent == nil { joinEpoch(slot, entry.traits) }
        raisePredecessors(of: slot)
        if entries[Int(slot)].gates == 0 { makeReady(slot) }
        return slot
    }

    private mutating func insert(_ entry: Entry) -> Slot {
        if let slot = freeSlots.popLast() {
            entries[Int(slot)] = entry
            return slot
        }
        entries.append(entry)
        return Slot(entries.count - 1)
    }

    private mutating func link(_ dependent: Slot, to dependency: Slot, _ policy: Edges.Policy) {
        let (dependentIndex, dependencyIndex) = (Int(dependent), Int(dependency))
        let edge = edges.insert(
            from: dependent,
            to: dependency,
            policy,
            nextDependent: entries[dependencyIndex].firstDependent,
            nextDependency: entries[dependentIndex].firstDependency
        )
        entries[dependencyIndex].firstDependent = edge
        entries[dependentIndex].firstDependency = edge
        entries[dependentIndex].gates += 1
    }

    private mutating func joinEpoch(_ slot: Slot, _ traits: Traits) {
        let id = entries[Int(slot)].id
        let (epoch, isOpen) = epochs.join(Candidate(id, slot), isBarrier: traits.contains(.isBarrier))
        entries[Int(slot)].epoch = epoch
        if !isOpen { entries[Int(slot)].gates += 1 }
    }

    /// One of an operation's gates opens.
    mutating func openGate(of slot: Slot) {
        entries[Int(slot)].gates -= 1
        if entries[Int(slot)].gates == 0, entries[Int(slot)].phase == .waiting { makeReady(slot) }
    }

    private mutating func makeReady(_ slot: Slot) {
        entries[Int(slot)].phase = .ready
        enqueueReady(slot)
    }

    private mutating func enqueueReady(_ slot: Slot) {
        let entry = entries[Int(slot)]
        let candidate = Candidate(entry.id, slot)
        let line: Line =
            if entry.traits.contains(.isChild) {
                .children
            } else if entry.traits.contains(.mayContinueInBackground) {
                .freshInBackground
            } else {
                .fresh
            }
        queues[line.rawValue].insert(candidate, entry.priority)
    }

    // MARK: Granting

    struct Grant: Hashable {
        var slot: Slot
        /// Whether it comes back from a pause; else it starts.
        var isResumption: Bool
    }

    static let ageingInterval = 32

    /// Gives the next operation a place, if there is one and somebody may have it.
    mutating func grant() -> Grant? {
        // What paused, and children, get a place even at width 0, or the paused one could never end.
        guard runningCount < max(1, width) else { return nil }
        let allowsFresh = runningCount < width && !isSuspended
        if !queues[Line.resuming.rawValue].isEmpty { dropStale(from: .resuming) }
        if !queues[Line.children.rawValue].isEmpty { dropStale(from: .children) }
        if !queues[Line.fresh.rawValue].isEmpty { dropStale(from: .fresh) }
        if !queues[Line.freshInBackground.rawValue].isEmpty { dropStale(from: .freshInBackground) }
        let takesOldest = (grantCount + 1).isMultiple(of: Self.ageingInterval)
        guard let line = takesOldest ? lineOfOldest(allowsFresh) : lineOfBest(allowsFresh) else { return nil }
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

    private func head(of line: Line) -> ReadyQueue.Head? { queues[line.rawValue].head }

    private func lineOfBest(_ allowsFresh: Bool) -> Line? {
        if head(of: .resuming) != nil { return .resuming }
        if head(of: .children) != nil { return .children }
        guard allowsFresh else { return nil }
        let foreground = isInBackground ? nil : head(of: .fresh)
        guard let background = head(of: .freshInBackground) else { return foreground == nil ? nil : .fresh }
        guard let foreground else { return .freshInBackground }
        return foreground.isServedBefore(background) ? .fresh : .freshInBackground
    }

    private func lineOfOldest(_ allowsFresh: Bool) -> Line? {
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

    /// Takes from the front of a line what isn't to be granted any more, or not yet.
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

    private func isReady(_ candidate: Candidate, _ priority: OperationPriority) -> Bool {
        let entry = entries[Int(candidate.slot)]
        return entry.id == candidate.id && entry.phase == .ready && entry.priority == priority
    }

    private func usesParentsKeys(_ slot: Slot) -> Bool {
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

    private mutating func enqueueResuming(_ slot: Slot) {
        let entry = entries[Int(slot)]
        queues[Line.resuming.rawValue].insert(Candidate(entry.id, slot), entry.priority)
    }

    // MARK: Ending

    /// Whether an operation can be taken back because it hasn't started.
    func canWithdraw(_ slot: Slot) -> Bool {
        switch phase(of: slot) {
        case .waiting, .ready: true
        case .free, .running, .paused, .resuming, .abandoned: false
        }
    }

    /// An operation ended; its slot is free for another one.
    ///
    /// - Returns: The operations that may not run because this one didn't end well, or that are to end as it did, the
    ///   oldest first.
    mutating func end(_ slot: Slot, succeeded: Bool) -> [Slot] {
        let unlucky = leave(slot, succeeded: succeeded)
        release(slot)
        return unlucky
    }

    /// A running operation is written off: all but its keys is given back, which ``release(_:)`` does.
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

    /// What an operation kept until nothing of it runs: its keys and its slot.
    mutating func release(_ slot: Slot) {
        let entry = entries[Int(slot)]
        entries[Int(slot)].phase = .free
        if let relations = relations.removeValue(forKey: slot), entry.traits.contains(.hasKeys) {
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
        return unlucky.sorted { entries[Int($0)].id < entries[Int($1)].id }
    }

    private mutating func unlinkDependencies(of slot: Slot) {
        while entries[Int(slot)].firstDependency != Edges.none { unlink(entries[Int(slot)].firstDependency) }
    }

    private mutating func unlink(_ index: UInt32) {
        let edge = edges[index]
        let removal = edges.remove(index)
        if removal.wasFirstDependent { entries[Int(edge.dependency)].firstDependent = edge.nextDependent }
        if removal.wasFirstDependency { entries[Int(edge.dependent)].firstDependency = edge.nextDependency }
    }

    // MARK: Priorities

    /// An operation awaits one of another supervisor, which is to be told when it becomes more urgent.
    mutating func noteForeignWait(of slot: Slot) { entries[Int(slot)].traits.insert(.hasForeignDependencies) }

    /// Raises an operation's priority, and with it that of everything it waits for.
    ///
    /// Only raises, and only declared priorities count, so each operation rises at most four times.
    mutating func raise(_ slot: Slot, to priority: OperationPriority) {
        var pending = [slot]
        while let slot = pending.popLast() {
            let entry = entries[Int(slot)]
            guard entry.priority < priority, entry.phase != .abandoned, entry.phase != .free else { continue }
            entries[Int(slot)].priority = priority
            switch entry.phase {
            case .ready: enqueueReady(slot)
            case .resuming where relations[slot]?.isOwedKeys != true: enqueueResuming(slot)
            case .free, .waiting, .running, .paused, .resuming, .abandoned: break
            }
            if entry.traits.contains(.hasForeignDependencies) { raised.append(slot) }
            appendPredecessors(of: slot, to: &pending)
            pending += (relations[slot]?.children ?? []) + awaited(by: slot)
        }
    }

    private mutating func raisePredecessors(of slot: Slot) {
        let priority = entries[Int(slot)].priority
        // The least priority there is has nobody to raise, and it's worth not looking for those of the usual one.
        guard priority > .veryLow else { return }
        var predecessors: [Slot] = []
        appendPredecessors(of: slot, to: &predecessors)
        for predecessor in predecessors { raise(predecessor, to: priority) }
    }

    /// What an operation that hasn't started waits for, in this scheduler: dependencies, and those with its keys.
    private func appendPredecessors(of slot: Slot, to predecessors: inout [Slot]) {
        var edge = entries[Int(slot)].firstDependency
        while edge != Edges.none {
            predecessors.append(edges[edge].dependency)
            edge = edges[edge].nextDependency
        }
        guard entries[Int(slot)].traits.contains(.hasKeys) else { return }
        predecessors += keyPredecessors(of: slot).map(\.slot)
    }

    // MARK: Looking

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
                && other.id < entry.id
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
