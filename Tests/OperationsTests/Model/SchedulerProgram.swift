import OperationsTesting

@testable import Operations

/// A random program for the scheduler, run event by event on the scheduler's state and on its model.
///
/// After every event both must agree on the grant, on every operation's phase and priority, on the counts, and on the
/// operations that may not run. At the end everything is allowed to end, and must end.
struct SchedulerProgram {
    /// A difference between the scheduler's state and the model.
    struct Divergence: Error, CustomStringConvertible {
        var description: String
    }

    /// The parameters of random programs.
    struct Shape {
        var steps: ClosedRange<Int> = 20...50
        var maximum = 9
        /// The number of grants before the program starts, so that short programs reach the 32nd grant too.
        var warmUp = 0...0
    }

    /// The reason for an operation's pause.
    enum Pause: Equatable {
        case answer, children
        case awaiting(Int)
    }

    typealias Position = SchedulerState.Position

    var generator: SplitMix64
    var model: SchedulerModel
    var state: SchedulerState
    let shape: Shape
    /// By number.
    var positions: [Position] = []
    /// The number of the operation that has the slot.
    var numbers: [Position: Int] = [:]
    var pauses: [Int: Pause] = [:]
    /// The operations that wait for their children to end, and then end.
    var leaving: Set<Int> = []
    var keyCount: Int
    var isShutDown = false
    var journal: [(event: StaticString, number: Int)] = []
    var grantCount = 0
    /// How often each operation was passed over since it became eligible, and how often by an older operation.
    var passedOver: [Int: (all: Int, byOlder: Int)] = [:]
    let offset: Int

    init(seed: UInt64, shape: Shape = Shape()) {
        generator = SplitMix64(seed: seed)
        self.shape = shape
        let width = Int.random(in: 0...4, using: &generator)
        keyCount = Int.random(in: 1...4, using: &generator)
        model = SchedulerModel(width: width)
        state = SchedulerState(width: width, isSuspended: false)
        offset = Int.random(in: shape.warmUp, using: &generator)
        warmUp()
    }

    private mutating func warmUp() {
        guard offset > 0 else { return }
        state.setWidth(1)
        for number in 0..<offset {
            let position = state.add(SchedulerState.Addition(id: OperationID(rawValue: UInt64(number + 1))))
            if state.grant()?.position == position { _ = state.end(position, succeeded: true) }
        }
        state.setWidth(model.width)
        model.grantCount = offset
    }

    func id(_ number: Int) -> OperationID { OperationID(rawValue: UInt64(number + 1 + offset)) }

    // MARK: Running

    /// Runs the program to its end.
    ///
    /// Returns the number of events.
    mutating func run() throws(Divergence) -> Int {
        for _ in 0..<Int.random(in: shape.steps, using: &generator) {
            try step()
            try compare()
        }
        if generator.oneIn(8) {
            try shutDown()
        } else {
            try drain()
        }
        return journal.count
    }

    mutating func note(_ event: StaticString, _ number: Int) { journal.append((event, number)) }

    func divergence(_ what: String) -> Divergence {
        let events = journal.map { "\($0.event) \($0.number)" }.joined(separator: ", ")
        let items = model.present.map { number -> String in
            let item = model.items[number]
            return "\(number): \(item), in fact \(state.phase(of: positions[number]))"
        }
        return Divergence(
            description: """
                \(what)
                after \(events)
                width \(model.width), suspended \(model.isSuspended), in background \(model.isInBackground)
                \(items.joined(separator: "\n"))
                """
        )
    }

    // MARK: Comparing

    /// Compares the state with the model.
    func compare() throws(Divergence) {
        guard state.runningCount == model.runningCount else { throw divergence("running \(state.runningCount)") }
        var (count, rootCount) = (0, 0)
        var busyKeys: UInt8 = 0
        for number in model.present {
            let item = model.items[number]
            let phase = model.phase(of: number)
            let position = positions[number]
            guard state.phase(of: position) == phase else { throw divergence("phase of \(number), expected \(phase)") }
            if phase == .running || phase == .abandoned && !isShutDown {
                // D2: only one of the operations with a key runs.
                guard busyKeys & item.keys == 0 else { throw divergence("a key of \(number) is used twice") }
                busyKeys |= item.keys
            }
            guard item.isLive else { continue }
            count += 1
            if item.parent == nil, !item.isJoined { rootCount += 1 }
            guard state.entries[Int(position)].priority == item.priority else {
                throw divergence("priority of \(number) is \(state.entries[Int(position)].priority)")
            }
        }
        guard state.count == count, state.rootCount == rootCount else {
            throw divergence("counts \(state.count) and \(state.rootCount), expected \(count) and \(rootCount)")
        }
    }

    /// Compares the graphs of waits.
    func compareReach(of number: Int) throws(Divergence) {
        var reached: Set<Int> = [number]
        var pending = [number]
        while let next = pending.popLast() {
            guard model.items[next].isLive else { continue }
            for position in state.waits(of: positions[next]) {
                guard let other = numbers[position] else { throw divergence("\(next) waits for an unknown operation") }
                if reached.insert(other).inserted { pending.append(other) }
            }
        }
        // Only operations that need its keys wait for an abandoned operation, which waits for nothing.
        reached = reached.filter { model.items[$0].isLive }
        let expected = model.reach(of: number).filter { model.items[$0].isLive }
        guard reached == expected else {
            throw divergence("\(number) waits for \(reached.sorted()), expected \(expected.sorted())")
        }
    }

    // MARK: Granting

    /// Grants a slot in both.
    ///
    /// Returns whether an operation got it.
    mutating func grant() throws(Divergence) -> Bool {
        let eligible = model.eligible
        let expected = model.grant()
        let granted = state.grant()
        let number = granted.flatMap { numbers[$0.position] }
        note("grant", number ?? -1)
        guard number == expected?.item, granted?.isResumption == expected?.isResumption else {
            throw divergence("granted \(number ?? -1), expected \(expected?.item ?? -1)")
        }
        guard let number else { return false }
        grantCount += 1
        // D5
        guard state.runningCount <= max(1, model.width) else { throw divergence("the width is exceeded") }
        for waiting in passedOver.keys where waiting == number || !eligible.contains(waiting) {
            passedOver[waiting] = nil
        }
        for waiting in eligible where waiting != number {
            var passed = passedOver[waiting] ?? (0, 0)
            passed = (passed.all + 1, passed.byOlder + (number < waiting ? 1 : 0))
            passedOver[waiting] = passed
            // Ageing: of 32 grants one goes to the oldest.
            guard passed.all < 32 * (passed.byOlder + 1) else { throw divergence("\(waiting) starves") }
        }
        if granted?.isResumption == true {
            if case .awaiting(let target) = pauses[number] {
                state.endAwait(of: positions[number], for: QueueEntry(id(target), positions[target]))
                model.endAwait(number)
            }
            pauses[number] = nil
        }
        return true
    }

    // MARK: Draining

    /// Removes all obstacles, so that all operations must end.
    mutating func drain() throws(Divergence) {
        state.isSuspended = false
        state.isInBackground = false
        state.setWidth(max(1, model.width))
        (model.isSuspended, model.isInBackground, model.width) = (false, false, max(1, model.width))
        while !model.present.isEmpty {
            var hasMoved = false
            for number in model.present { if try letGo(number) { hasMoved = true } }
            while try grant() { hasMoved = true }
            try compare()
            guard hasMoved else { throw divergence("stuck") }
        }
        guard state.count == 0, state.runningCount == 0 else { throw divergence("something is left") }
    }

    private mutating func letGo(_ number: Int) throws(Divergence) -> Bool {
        let item = model.items[number]
        switch item.stage {
        case .unstarted where item.isDoomed:
            try withdraw(number)
        case .unstarted where item.foreignDependencyCount > 0:
            openGate(number)
        case .running:
            try end(number, succeeded: true)
        case .paused where canResume(number):
            resume(number)
        case .abandoned:
            release(number)
        case .unstarted, .paused, .resuming, .gone:
            return false
        }
        return true
    }

    /// Abandons running operations and withdraws the others.
    ///
    /// Nothing may be left, in whatever order the abandoned operations end.
    private mutating func shutDown() throws(Divergence) {
        isShutDown = true
        for number in model.live.reversed() where model.items[number].stage == .unstarted { try withdraw(number) }
        for number in model.live { try abandon(number) }
        try compare()
        guard state.count == 0, state.runningCount == 0, state.grant() == nil else {
            throw divergence("something is left")
        }
        for number in model.present.shuffled(using: &generator) {
            release(number)
            guard state.grant() == nil else { throw divergence("something was granted after the end") }
        }
    }
}
