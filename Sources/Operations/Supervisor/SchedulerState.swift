import DequeModule
import HeapModule

/// The scheduler's rules as a value: events in, grants and endings out.
///
/// No lock, no task, no clock.
///
/// A *grant* gives one operation a place; at most `width` places are taken. Operations that come back from a pause are
/// served before fresh ones, then the more urgent, then the older. Suspension, the background and a width of 0 hold back
/// fresh operations only: one that paused must be able to end.
struct SchedulerState: Sendable {
    private enum Phase: Hashable {
        /// Waits for this many dependencies.
        case waiting(Int)
        case ready, running, paused, resuming
    }

    private struct Entry {
        var phase: Phase
        var priority: OperationPriority
        var mayContinueInBackground: Bool
        var dependents: [(id: OperationID, policy: OperationDependency.Policy)] = []
    }

    private struct Candidate: Comparable, Sendable {
        var priority: OperationPriority
        var id: OperationID

        /// The heap's maximum is granted next: the greater priority, then the older operation.
        static func < (lhs: Self, rhs: Self) -> Bool {
            lhs.priority == rhs.priority ? lhs.id > rhs.id : lhs.priority < rhs.priority
        }
    }

    /// How many operations may run at once.
    private(set) var width: Int
    /// Whether fresh operations are held back.
    var isSuspended: Bool
    /// Whether fresh operations that may not continue in the background are held back.
    var isInBackground = false
    /// How many run now.
    private(set) var runningCount = 0

    private var entries: [OperationID: Entry] = [:]
    // Entries of operations that were withdrawn stay in the heaps and are passed over when they come up.
    private var ready = Heap<Candidate>()
    private var readyInBackground = Heap<Candidate>()
    private var resuming = Deque<OperationID>()

    init(width: Int, isSuspended: Bool) {
        self.width = max(0, width)
        self.isSuspended = isSuspended
    }

    /// How many operations haven't ended.
    var count: Int { entries.count }

    mutating func setWidth(_ width: Int) { self.width = max(0, width) }

    // MARK: Adding

    /// An operation is added; `dependencies` are those of its dependencies, in this scheduler, that haven't ended.
    ///
    /// `outstanding` counts what must end besides, outside this scheduler. Returns whether the operation is ready.
    mutating func add(
        _ id: OperationID,
        priority: OperationPriority,
        mayContinueInBackground: Bool,
        dependencies: [(id: OperationID, policy: OperationDependency.Policy)],
        outstanding: Int
    ) -> Bool {
        for dependency in dependencies {
            entries[dependency.id]?.dependents.append((id, dependency.policy))
        }
        let count = dependencies.count + outstanding
        entries[id] = Entry(
            phase: .waiting(count),
            priority: priority,
            mayContinueInBackground: mayContinueInBackground
        )
        guard count == 0 else { return false }
        makeReady(id)
        return true
    }

    func contains(_ id: OperationID) -> Bool { entries[id] != nil }

    /// One dependency of `id` ended well enough.
    ///
    /// Returns whether `id` is ready now.
    mutating func dependencyEnded(of id: OperationID) -> Bool {
        guard case .waiting(let count) = entries[id]?.phase else { return false }
        entries[id]?.phase = .waiting(count - 1)
        guard count == 1 else { return false }
        makeReady(id)
        return true
    }

    private mutating func makeReady(_ id: OperationID) {
        guard let entry = entries[id] else { return }
        entries[id]?.phase = .ready
        let candidate = Candidate(priority: entry.priority, id: id)
        if entry.mayContinueInBackground {
            readyInBackground.insert(candidate)
        } else {
            ready.insert(candidate)
        }
    }

    // MARK: Granting

    enum Grant: Hashable {
        case fresh(OperationID)
        case resumed(OperationID)
    }

    /// Gives the next operation a place, if there is one and somebody may have it.
    mutating func grant() -> Grant? {
        // What paused gets a place even at width 0, or it could never end.
        while runningCount < max(1, width), let id = resuming.popFirst() {
            guard entries[id]?.phase == .resuming else { continue }
            entries[id]?.phase = .running
            runningCount += 1
            return .resumed(id)
        }
        guard runningCount < width, !isSuspended, let id = popReady() else { return nil }
        entries[id]?.phase = .running
        runningCount += 1
        return .fresh(id)
    }

    private mutating func popReady() -> OperationID? {
        while true {
            let isFromBackground = isInBackground || (ready.max ?? .none) < (readyInBackground.max ?? .none)
            let next = isFromBackground ? readyInBackground.popMax() : ready.popMax()
            guard let next else { return nil }
            if entries[next.id]?.phase == .ready { return next.id }
        }
    }

    // MARK: Pausing and ending

    /// A running operation waits for an answer from outside and gives its place back.
    mutating func pause(_ id: OperationID) {
        guard entries[id]?.phase == .running else { return }
        entries[id]?.phase = .paused
        runningCount -= 1
    }

    /// A paused operation wants its place again; ``grant()`` says when it has one.
    mutating func resume(_ id: OperationID) -> Bool {
        guard entries[id]?.phase == .paused else { return false }
        entries[id]?.phase = .resuming
        resuming.append(id)
        return true
    }

    /// Takes an operation back that hasn't started.
    ///
    /// `nil` if it has.
    mutating func withdraw(_ id: OperationID) -> Bool {
        switch entries[id]?.phase {
        case .waiting, .ready: true
        case .running, .paused, .resuming, nil: false
        }
    }

    /// An operation ended.
    ///
    /// Returns who depended on it, the oldest first.
    mutating func end(_ id: OperationID) -> [(id: OperationID, policy: OperationDependency.Policy)] {
        guard let entry = entries.removeValue(forKey: id) else { return [] }
        if entry.phase == .running { runningCount -= 1 }
        return entry.dependents
    }
}

extension Optional where Wrapped: Comparable {
    /// Orders "none" before every value.
    fileprivate static func < (lhs: Self, rhs: Self) -> Bool {
        switch (lhs, rhs) {
        case (_, nil): false
        case (nil, _): true
        case (let lhs?, let rhs?): lhs < rhs
        }
    }
}
