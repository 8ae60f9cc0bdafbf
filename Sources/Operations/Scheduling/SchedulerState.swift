import DequeModule

/// The scheduler's rules as a value that turns events into grants and endings.
///
/// No lock, no task, no clock. A ``Position`` is an operation's index in the tables here. Indices are reused, identifiers
/// never are. One number counts what keeps an operation from being granted, its *gates*: a
/// dependency that hasn't ended, a key that other operations hold or wait for, a barrier before it.
///
/// A *grant* gives one operation a slot to run in; at most ``width`` of these are in use. Operations that resume after
/// a pause go first, then children, then *fresh* operations, which haven't started and aren't children. Among these, a
/// more urgent operation goes first, then an older one. Every 32nd grant takes the oldest of all, so nothing starves.
///
/// Suspension, the background and a width of 0 hold back only fresh operations. A paused operation must be able to end,
/// and so must its children.
struct SchedulerState: Sendable {
    /// An operation's index in the tables.
    typealias Position = UInt32

    enum Phase: UInt8, Sendable {
        case free
        /// At least one gate is closed.
        case waiting
        case ready, running, paused
        /// Waits for a slot after a pause.
        case resuming
        /// Abandoned while it ran; it only holds its keys.
        case abandoned
    }

    struct Traits: OptionSet, Sendable {
        let rawValue: UInt8
        static let mayContinueInBackground = Traits(rawValue: 1)
        static let isBarrier = Traits(rawValue: 2)
        static let isChild = Traits(rawValue: 4)
        static let hasKeys = Traits(rawValue: 8)
        /// Waits for operations of other supervisors, which only the owner of this value knows.
        static let hasForeignDependencies = Traits(rawValue: 16)
        /// Ends with another operation and is never granted.
        static let isJoined = Traits(rawValue: 32)
    }

    struct Entry: Sendable {
        var id: OperationID
        var gates: UInt32 = 0
        /// The first edge in its list of dependents.
        var firstDependent = Edges.none
        /// The first edge in its list of dependencies.
        var firstDependency = Edges.none
        /// The number of the section between barriers to which it belongs.
        var section: UInt32 = 0
        /// The index of the worker that runs it, stored for the owner of this value.
        var worker = Workers.none
        var phase = Phase.waiting
        var priority: OperationPriority
        var traits: Traits
    }

    /// The data that only few operations have: keys, relatives, operations that they await.
    struct Relations: Sendable {
        var keys: [ExclusionKey] = []
        var parent: Position?
        /// The children that haven't ended, sorted by age; in a deque, because usually the oldest one ends first.
        var children: Deque<QueueEntry> = []
        /// The number of children that were granted, haven't ended, and use keys of this operation.
        var lentCount = 0
        /// The children that can't start only because this operation runs with the keys that they need.
        var heldChildren: [QueueEntry] = []
        /// Whether it waits to resume until its children return the keys that it lent them.
        var isOwedKeys = false
        /// The operations that its `main` awaits; they may have ended.
        var awaited: [QueueEntry] = []
    }

    /// The description of an operation that is added.
    struct Addition {
        var id: OperationID
        var priority = OperationPriority.normal
        var traits: Traits = []
        typealias Dependency = (position: Position, policy: Edges.Policy)
        var dependencies: [Dependency] = []
        /// The number of dependencies in other supervisors, whose gates the owner of this value opens.
        var foreignDependencyCount = 0
        var keys: [ExclusionKey] = []
        var parent: Position?
    }

    /// How many operations may run at once.
    var width: Int
    /// Whether fresh operations are held back.
    var isSuspended: Bool
    /// The number of callers that cancel several operations now: until they are done, no fresh operation starts.
    var freshHolds = 0
    /// Whether fresh operations that may not continue in the background are held back.
    var isInBackground = false
    /// How many operations run now.
    var runningCount = 0
    /// How many operations haven't ended, not counting abandoned ones.
    var count = 0
    /// How many of them are neither children nor joined to another operation.
    var rootCount = 0
    /// The operations with dependencies in other supervisors whose raised priority the owner of this value passes on.
    var raised: [Position] = []

    /// Whether the owner of this value wants to know which operations become ready, or wait again.
    var tracksReadiness = false
    var readinessChanges: [Position] = []

    var entries: ContiguousArray<Entry> = []
    var freePositions: [Position] = []
    var edges = Edges()
    var relations: [Position: Relations] = [:]
    var tickets = KeyTickets()
    var barriers = Barriers()
    var queues = ContiguousArray(repeating: ReadyQueue(), count: Line.allCases.count)
    var grantCount = 0

    /// The queues of the operations that could be granted a slot.
    enum Line: Int, CaseIterable {
        case resuming, children, fresh, freshInBackground
    }

    init(width: Int, isSuspended: Bool) {
        self.width = max(0, width)
        self.isSuspended = isSuspended
    }

    mutating func setWidth(_ width: Int) { self.width = max(0, width) }

    /// Whether the index still belongs to the operation.
    func contains(_ id: OperationID, at position: Position) -> Bool {
        entries.indices.contains(Int(position)) && entries[Int(position)].id == id
            && entries[Int(position)].phase != .free
    }

    func phase(of position: Position) -> Phase { entries[Int(position)].phase }

    // MARK: Adding

    /// Adds an operation whose dependencies haven't ended.
    ///
    /// Returns its index.
    mutating func add(_ addition: Addition) -> Position {
        var entry = Entry(id: addition.id, priority: addition.priority, traits: addition.traits)
        entry.gates = UInt32(addition.foreignDependencyCount)
        if let parent = addition.parent {
            entry.traits.insert(.isChild)
            entry.priority = max(entry.priority, entries[Int(parent)].priority)
        }
        if !addition.keys.isEmpty { entry.traits.insert(.hasKeys) }
        let position = insert(entry)
        count += 1
        if let parent = addition.parent {
            relations[parent, default: Relations()].children.append(QueueEntry(addition.id, position))
        }
        if entry.traits.isDisjoint(with: [.isChild, .isJoined]) { rootCount += 1 }
        if !addition.keys.isEmpty || addition.parent != nil {
            relations[position] = Relations(keys: addition.keys, parent: addition.parent)
        }
        for dependency in addition.dependencies {
            link(position, to: dependency.position, dependency.policy)
        }
        for key in addition.keys {
            let isFirst = tickets.join(QueueEntry(addition.id, position), for: key, of: addition.parent)
            if !isFirst { entries[Int(position)].gates += 1 }
        }
        if addition.parent == nil { joinSection(position, entry.traits) }
        raisePredecessors(of: position)
        if entries[Int(position)].gates == 0 { makeReady(position) }
        return position
    }

    private mutating func insert(_ entry: Entry) -> Position {
        if let position = freePositions.popLast() {
            entries[Int(position)] = entry
            return position
        }
        entries.append(entry)
        return Position(entries.count - 1)
    }

    mutating func link(_ dependent: Position, to dependency: Position, _ policy: Edges.Policy) {
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

    private mutating func joinSection(_ position: Position, _ traits: Traits) {
        let id = entries[Int(position)].id
        let (section, isOpen) = barriers.join(QueueEntry(id, position), isBarrier: traits.contains(.isBarrier))
        entries[Int(position)].section = section
        if !isOpen { entries[Int(position)].gates += 1 }
    }

    /// Opens one of an operation's gates.
    mutating func openGate(of position: Position) {
        entries[Int(position)].gates -= 1
        if entries[Int(position)].gates == 0, entries[Int(position)].phase == .waiting { makeReady(position) }
    }

    private mutating func makeReady(_ position: Position) {
        entries[Int(position)].phase = .ready
        if tracksReadiness { readinessChanges.append(position) }
        enqueueReady(position)
    }

    mutating func enqueueReady(_ position: Position) {
        let entry = entries[Int(position)]
        let candidate = QueueEntry(entry.id, position)
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
