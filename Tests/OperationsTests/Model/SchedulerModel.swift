@testable import Operations

/// The scheduler's rules as the design states them, computed from scratch for every question.
///
/// The model keeps no derived state: no queues, no counters, no gates. Operations are numbered in the order in which they
/// were added, and the number is their age. The answers of ``SchedulerState`` are compared with those of this model.
struct SchedulerModel {
    enum Stage { case unstarted, running, paused, resuming, abandoned, gone }

    struct Item {
        var priority: OperationPriority
        var stage = Stage.unstarted
        /// One bit for each key.
        var keys: UInt8 = 0
        /// The dependencies that haven't ended.
        var dependencies: [(item: Int, policy: Edges.Policy)] = []
        var foreignDependencyCount = 0
        /// Whether a dependency ended in a way that doesn't let the operation run.
        var isDoomed = false
        var parent: Int?
        var isBarrier = false
        var mayContinueInBackground = false
        var isJoined = false
        var awaited: [Int] = []

        var mayRunMain: Bool { stage == .running || stage == .paused || stage == .resuming }
        var isLive: Bool { stage != .gone && stage != .abandoned }
    }

    var items: [Item] = []
    /// The operations that aren't released, oldest first.
    private(set) var present: [Int] = []
    var width: Int
    var isSuspended = false
    var isInBackground = false
    var grantCount = 0

    init(width: Int) { self.width = width }

    var live: [Int] { present.filter { items[$0].isLive } }
    var runningCount: Int {
        var count = 0
        for item in present where items[item].stage == .running { count += 1 }
        return count
    }

    // MARK: Events

    mutating func add(_ item: Item) {
        var item = item
        // Children inherit their parent's priority.
        if let parent = item.parent { item.priority = max(item.priority, items[parent].priority) }
        items.append(item)
        present.append(items.count - 1)
        inherit()
    }

    mutating func pause(_ item: Int) { items[item].stage = .paused }
    mutating func resume(_ item: Int) { items[item].stage = .resuming }

    mutating func beginAwait(_ item: Int, _ target: Int) {
        items[item].awaited.append(target)
        inherit()
    }

    mutating func addDependency(of item: Int, on dependency: Int, _ policy: Edges.Policy) {
        items[item].dependencies.append((dependency, policy))
        inherit()
    }

    mutating func removeDependencies(of item: Int, on dependency: Int) {
        items[item].dependencies.removeAll { $0.item == dependency }
    }

    mutating func endAwait(_ item: Int) { items[item].awaited = [] }

    mutating func raise(_ item: Int, to priority: OperationPriority) {
        items[item].priority = max(items[item].priority, priority)
        inherit()
    }

    mutating func setPriority(_ item: Int, to priority: OperationPriority) {
        items[item].priority = priority
        inherit()
    }

    /// Ends an operation.
    ///
    /// Returns the operations that may not run because of this outcome, or have to end with it, oldest first.
    mutating func end(_ item: Int, succeeded: Bool) -> [Int] {
        let doomed = settle(item, succeeded)
        release(item)
        return doomed
    }

    mutating func abandon(_ item: Int) -> [Int] {
        items[item].stage = .abandoned
        return settle(item, false)
    }

    mutating func release(_ item: Int) {
        items[item].stage = .gone
        present.removeAll { $0 == item }
    }

    private mutating func settle(_ item: Int, _ succeeded: Bool) -> [Int] {
        var doomed: [Int] = []
        for other in present where other != item {
            for dependency in items[other].dependencies where dependency.item == item {
                let isGood = dependency.policy == .ending || dependency.policy == .mustSucceed && succeeded
                guard !isGood, doomed.last != other else { continue }
                items[other].isDoomed = true
                doomed.append(other)
            }
            items[other].dependencies.removeAll { $0.item == item }
        }
        return doomed
    }

    // MARK: Which operations may run

    /// Whether the operation waits for nothing but a slot.
    ///
    /// *Keys* are taken all at once, at the start. Every older operation with one of the keys goes first until it is
    /// released, whatever it waits for itself. Children queue only among their siblings and so pass other operations.
    ///
    /// A *barrier* waits for all older operations, and all newer operations wait for the barrier. Children have their
    /// parent's position.
    func isReady(_ number: Int) -> Bool {
        let item = items[number]
        guard item.stage == .unstarted, item.dependencies.isEmpty, !item.isDoomed, item.foreignDependencyCount == 0
        else { return false }
        for older in present where older < number {
            if isRival(older, of: number) || isBehindBarrier(number, older) { return false }
        }
        return true
    }

    private func isRival(_ older: Int, of number: Int) -> Bool {
        items[older].parent == items[number].parent && items[older].keys & items[number].keys != 0
    }

    private func isBehindBarrier(_ number: Int, _ older: Int) -> Bool {
        items[number].parent == nil && items[older].parent == nil && items[older].isLive
            && (items[number].isBarrier || items[older].isBarrier)
    }

    /// Whether children use keys of the operation.
    private func hasLentKeys(_ number: Int) -> Bool {
        for child in present where items[child].parent == number && items[child].keys != 0 {
            if items[child].stage != .unstarted { return true }
        }
        return false
    }

    /// Whether the operation would be granted a slot if no other operation competed for it.
    func isEligible(_ number: Int, runningCount: Int) -> Bool {
        guard runningCount < max(1, width) else { return false }
        let item = items[number]
        if item.stage == .resuming { return !hasLentKeys(number) }
        guard isReady(number) else { return false }
        guard let parent = item.parent else {
            return !isSuspended && runningCount < width && (!isInBackground || item.mayContinueInBackground)
        }
        // A parent lends its keys while it doesn't run.
        return item.keys == 0 || items[parent].stage != .running
    }

    var eligible: [Int] {
        let runningCount = runningCount
        return present.filter { isEligible($0, runningCount: runningCount) }
    }

    /// Grants a slot to the next operation: resuming ones first, then children, then others; by priority, then by age.
    ///
    /// Every 32nd grant takes the oldest of all.
    mutating func grant() -> (item: Int, isResumption: Bool)? {
        let candidates = eligible
        let best =
            (grantCount + 1) % 32 == 0
            ? candidates.first : candidates.max { isServedBefore($1, $0) }
        guard let best else { return nil }
        grantCount += 1
        let isResumption = items[best].stage == .resuming
        items[best].stage = .running
        return (best, isResumption)
    }

    private func isServedBefore(_ one: Int, _ other: Int) -> Bool {
        let (first, second) = (rank(one), rank(other))
        if first != second { return first < second }
        if items[one].priority != items[other].priority { return items[one].priority > items[other].priority }
        return one < other
    }

    private func rank(_ number: Int) -> Int {
        if items[number].stage == .resuming { return 0 }
        return items[number].parent == nil ? 2 : 1
    }

    func phase(of number: Int) -> SchedulerState.Phase {
        switch items[number].stage {
        case .unstarted: isReady(number) ? .ready : .waiting
        case .running: .running
        case .paused: .paused
        case .resuming: .resuming
        case .abandoned: .abandoned
        case .gone: .free
        }
    }

    // MARK: The graph of waits

    /// The operations that must end before this operation can.
    func waits(of number: Int) -> [Int] {
        let item = items[number]
        guard item.isLive else { return [] }
        var waits = item.awaited.filter { items[$0].isLive }
        for other in present where other != number {
            if items[other].parent == number { waits.append(other) }
            guard item.stage == .unstarted else { continue }
            if item.dependencies.contains(where: { $0.item == other }) { waits.append(other) }
            guard other < number else { continue }
            if isRival(other, of: number) || isBehindBarrier(number, other) { waits.append(other) }
        }
        return waits
    }

    /// The operation and everything that it waits for, directly or not.
    func reach(of number: Int) -> Set<Int> {
        var reached: Set<Int> = [number]
        var pending = [number]
        while let next = pending.popLast() {
            for other in waits(of: next) where reached.insert(other).inserted { pending.append(other) }
        }
        return reached
    }

    /// Whether another operation waits for the operation, except by awaiting it.
    func isAwaited(_ number: Int) -> Bool {
        live.contains { other in waits(of: other).contains(number) && !items[other].awaited.contains(number) }
    }

    /// Whether `number` and its ancestors would never end if `number` waited for `target`.
    func closesCycle(_ number: Int, waitingFor target: Int) -> Bool {
        let reached = reach(of: target)
        var ancestor: Int? = number
        while let current = ancestor {
            if reached.contains(current) { return true }
            ancestor = items[current].parent
        }
        return false
    }

    /// Raises operations to the priority of the operations that wait for them, permanently; barriers pass no priority on.
    private mutating func inherit() {
        var hasChanged = true
        while hasChanged {
            hasChanged = false
            for number in present where items[number].isLive {
                for other in heirs(of: number) where items[other].priority < items[number].priority {
                    items[other].priority = items[number].priority
                    hasChanged = true
                }
            }
        }
    }

    private func heirs(of number: Int) -> [Int] {
        let item = items[number]
        var heirs = item.awaited.filter { items[$0].isLive }
        for other in present where items[other].isLive {
            if items[other].parent == number { heirs.append(other) }
            guard item.stage == .unstarted else { continue }
            let isDependency = item.dependencies.contains { $0.item == other }
            if isDependency || other < number && isRival(other, of: number) { heirs.append(other) }
        }
        return heirs
    }
}
