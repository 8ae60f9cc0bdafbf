import OperationsTesting

@testable import Operations

// MARK: - Choosing

extension SchedulerProgram {
    /// Performs a random event that is possible now.
    mutating func step() throws(Divergence) {
        switch Int.random(in: 0..<108, using: &generator) {
        case 0..<22:
            if model.present.count < shape.maximum { addRoot() }
        case 22..<32: try addChild()
        case 32..<55: _ = try grant()
        case 55..<63: if let number = pick({ $0.stage == .running }) { pause(number, .answer) }
        case 63..<71: if let number = pickResumable() { resume(number) }
        case 71..<79: try awaitAnother()
        case 79..<87:
            if let number = pick({ $0.stage == .running }) {
                try end(number, succeeded: !generator.oneIn(4))
            }
        case 87..<90: try withdrawOne()
        case 90..<91: if let number = pick({ $0.foreignDependencyCount > 0 }) { openGate(number) }
        case 91..<94: configure()
        case 94..<96: if let number = pick(\.isLive) { raise(number) }
        case 96..<97: try abandonOne()
        case 97..<98: if let number = pick({ $0.stage == .abandoned }) { release(number) }
        case 98..<102: try addDependency()
        case 102..<104: removeDependency()
        case 104..<108: if let number = pick(\.isLive) { setPriority(number) }
        default: if let number = pick(\.isLive) { try compareReach(of: number) }
        }
    }

    private mutating func pick(_ isFit: (SchedulerModel.Item) -> Bool) -> Int? {
        model.present.filter { isFit(model.items[$0]) }.randomElement(using: &generator)
    }

    private mutating func pickResumable() -> Int? {
        model.present.filter { model.items[$0].stage == .paused && canResume($0) }.randomElement(using: &generator)
    }

    func canResume(_ number: Int) -> Bool {
        switch pauses[number] {
        case .awaiting(let target): !model.items[target].isLive
        case .children: !hasChildren(number)
        case .answer, nil: true
        }
    }

    private func hasChildren(_ number: Int) -> Bool { model.live.contains { model.items[$0].parent == number } }

    private mutating func randomPriority() -> OperationPriority {
        OperationPriority.allCases.randomElement(using: &generator) ?? .normal
    }

    private mutating func randomKeys() -> UInt8 {
        generator.oneIn(2) ? 0 : UInt8.random(in: 0..<(1 << UInt8(keyCount)), using: &generator)
    }
}

// MARK: - Adding

extension SchedulerProgram {
    private mutating func addRoot() {
        var item = SchedulerModel.Item(priority: randomPriority())
        item.keys = randomKeys()
        item.isBarrier = generator.oneIn(12)
        item.mayContinueInBackground = generator.oneIn(3)
        if generator.oneIn(12) { item.foreignDependencyCount = Int.random(in: 1...2, using: &generator) }
        if generator.oneIn(12),
            let target = pick({ $0.stage == .unstarted && $0.parent == nil && !$0.isJoined && !$0.isDoomed })
        {
            item = SchedulerModel.Item(priority: item.priority)
            item.isJoined = true
            item.dependencies = [(target, .mirror)]
        } else {
            let count = [0, 0, 0, 1, 1, 2].randomElement(using: &generator) ?? 0
            for _ in 0..<count {
                guard let dependency = pick(\.isLive) else { break }
                item.dependencies.append((dependency, generator.oneIn(3) ? .ending : .mustSucceed))
            }
        }
        add(item)
    }

    private mutating func addChild() throws(Divergence) {
        guard model.present.count < shape.maximum, let parent = pick(\.mayRunMain), !leaving.contains(parent) else {
            return
        }
        var item = SchedulerModel.Item(priority: randomPriority())
        item.parent = parent
        item.keys = randomKeys() & model.items[parent].keys
        if generator.oneIn(3), let dependency = pick(\.isLive) {
            try compareReach(of: dependency)
            // The scheduler would refuse a cycle.
            guard !model.closesCycle(parent, waitingFor: dependency) else { return }
            item.dependencies = [(dependency, generator.oneIn(2) ? .ending : .mustSucceed)]
        }
        add(item)
    }

    private mutating func add(_ item: SchedulerModel.Item) {
        let number = model.items.count
        var addition = SchedulerState.Addition(id: id(number))
        addition.priority = item.priority
        if item.isBarrier { addition.traits.insert(.isBarrier) }
        if item.isJoined { addition.traits.insert(.isJoined) }
        if item.mayContinueInBackground { addition.traits.insert(.mayContinueInBackground) }
        addition.dependencies = item.dependencies.map { (positions[$0.item], $0.policy) }
        addition.foreignDependencyCount = item.foreignDependencyCount
        if item.foreignDependencyCount > 0 { addition.traits.insert(.hasForeignDependencies) }
        addition.keys = (0..<8).filter { item.keys & (1 << $0) != 0 }.map { Self.keys[$0] }
        addition.parent = item.parent.map { positions[$0] }
        note(item.parent == nil ? "add" : "add child", number)
        model.add(item)
        let position = state.add(addition)
        positions.append(position)
        numbers[position] = number
    }

    private static let keys = (0..<8).map { ExclusionKey("\($0)") }
}

// MARK: - Dependencies after adding

extension SchedulerProgram {
    /// Adds a dependency on an operation of any age, unless that would close a cycle.
    private mutating func addDependency() throws(Divergence) {
        guard let number = pick({ $0.stage == .unstarted && !$0.isJoined && !$0.isDoomed }),
            let dependency = pick(\.isLive)
        else { return }
        try compareReach(of: dependency)
        if !state.mayHaveDependents(positions[number]), model.isAwaited(number) {
            throw divergence("the dependents of \(number) are overlooked")
        }
        guard !model.closesCycle(number, waitingFor: dependency) else { return }
        let policy = generator.oneIn(3) ? Edges.Policy.ending : .mustSucceed
        note("depend", number)
        note("depend on", dependency)
        model.addDependency(of: number, on: dependency, policy)
        state.addDependency(of: positions[number], on: positions[dependency], policy)
    }

    private mutating func removeDependency() {
        guard let number = pick({ $0.stage == .unstarted && !$0.isJoined && !$0.isDoomed && !$0.dependencies.isEmpty }),
            let dependency = model.items[number].dependencies.randomElement(using: &generator)?.item
        else { return }
        note("undepend", number)
        note("undepend on", dependency)
        model.removeDependencies(of: number, on: dependency)
        state.removeDependencies(of: positions[number], on: positions[dependency])
    }
}

// MARK: - Events

extension SchedulerProgram {
    private mutating func pause(_ number: Int, _ pause: Pause) {
        note("pause", number)
        model.pause(number)
        state.pause(positions[number])
        pauses[number] = pause
    }

    mutating func resume(_ number: Int) {
        note("resume", number)
        model.resume(number)
        _ = state.resume(positions[number])
    }

    /// Lets a running operation await another one, unless that is refused.
    private mutating func awaitAnother() throws(Divergence) {
        guard let number = pick({ $0.stage == .running }), let target = pick(\.isLive) else { return }
        try compareReach(of: target)
        guard !model.closesCycle(number, waitingFor: target) else { return }
        note("await from", number)
        note("await of", target)
        model.beginAwait(number, target)
        state.beginAwait(of: positions[number], for: positions[target])
        state.raise(positions[target], to: state.entries[Int(positions[number])].priority)
        pause(number, .awaiting(target))
    }

    /// Ends a running operation, or lets it wait for its children to end first.
    mutating func end(_ number: Int, succeeded: Bool) throws(Divergence) {
        guard !hasChildren(number) else {
            leaving.insert(number)
            return pause(number, .children)
        }
        note(succeeded ? "end" : "fail", number)
        try tell(state.end(positions[number], succeeded: succeeded), model.end(number, succeeded: succeeded))
    }

    private mutating func tell(_ positions: [Position], _ expected: [Int]) throws(Divergence) {
        var told: [Int] = []
        for position in positions {
            guard let number = numbers[position] else { throw divergence("an unknown dependent") }
            // An operation with two dependencies on the same operation is listed twice.
            if told.last != number { told.append(number) }
        }
        guard told == expected else { throw divergence("told \(told), expected \(expected)") }
    }

    private mutating func withdrawOne() throws(Divergence) {
        if generator.oneIn(2), let number = pick({ $0.isDoomed && $0.stage == .unstarted }) {
            try withdraw(number)
        } else if let number = pick({ $0.stage == .unstarted }) {
            try withdraw(number)
        }
    }

    /// Withdraws an operation that hasn't started.
    mutating func withdraw(_ number: Int) throws(Divergence) {
        note("withdraw", number)
        try tell(state.end(positions[number], succeeded: false), model.end(number, succeeded: false))
    }

    mutating func openGate(_ number: Int) {
        note("open", number)
        model.items[number].foreignDependencyCount -= 1
        state.openGate(of: positions[number])
    }

    private mutating func configure() {
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
            let width = Int.random(in: 0...4, using: &generator)
            note("width", width)
            model.width = width
            state.setWidth(width)
        case 1:
            model.isSuspended.toggle()
            state.isSuspended = model.isSuspended
            note("suspended", model.isSuspended ? 1 : 0)
        default:
            model.isInBackground.toggle()
            state.isInBackground = model.isInBackground
            note("background", model.isInBackground ? 1 : 0)
        }
    }

    private mutating func raise(_ number: Int) {
        let priority = randomPriority()
        note("raise", number)
        model.raise(number, to: priority)
        state.raise(positions[number], to: priority)
    }

    private mutating func setPriority(_ number: Int) {
        let priority = randomPriority()
        note("set priority", number)
        model.setPriority(number, to: priority)
        state.setPriority(positions[number], to: priority)
    }

    /// Abandons an operation that is neither child nor parent; others are abandoned only by a shutdown.
    private mutating func abandonOne() throws(Divergence) {
        guard let number = pick({ $0.mayRunMain && $0.parent == nil }), !hasChildren(number) else { return }
        try abandon(number)
    }

    mutating func abandon(_ number: Int) throws(Divergence) {
        note("abandon", number)
        try tell(state.abandon(positions[number]), model.abandon(number))
    }

    mutating func release(_ number: Int) {
        note("release", number)
        model.release(number)
        state.release(positions[number])
    }
}
