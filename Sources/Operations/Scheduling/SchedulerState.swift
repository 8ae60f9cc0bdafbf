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
        /// Who runs it, for whoever drives this value to know.
        var worker = Workers.none
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
        typealias Dependency = (slot: Slot, policy: Edges.Policy)
        var dependencies: [Dependency] = []
        /// Gates that whoever drives this value opens: dependencies of other supervisors.
        var foreignDependencyCount = 0
        var keys: [ExclusionKey] = []
        var parent: Slot?
        /// Whether it runs already, at a place that is counted.
        var isRunning = false
    }

    /// How many operations may run at once.
    var width: Int
    /// Whether fresh operations are held back.
    var isSuspended: Bool
    /// Whether fresh operations that may not continue in the background are held back.
    var isInBackground = false
    /// How many run now.
    var runningCount = 0
    /// How many operations haven't ended; those written off don't count.
    var count = 0
    /// How many of them are operations of their own: neither children nor joined to another one.
    var rootCount = 0
    /// Operations with dependencies in other supervisors whose priority rose, for whoever drives this value to pass on.
    var raised: [Slot] = []

    var entries: ContiguousArray<Entry> = []
    var freeSlots: [Slot] = []
    var edges = Edges()
    var relations: [Slot: Relations] = [:]
    var tickets = KeyTickets()
    var epochs = Epochs()
    var queues = ContiguousArray(repeating: ReadyQueue(), count: Line.allCases.count)
    var grantCount = 0

    /// Where those that could have a place stand.
    enum Line: Int, CaseIterable {
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
        if addition.isRunning {
            entries[Int(slot)].phase = .running
        } else if entries[Int(slot)].gates == 0 {
            makeReady(slot)
        }
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

    mutating func enqueueReady(_ slot: Slot) {
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
}
