import OperationsTesting
import ThreadSupport

@testable import Operations

/// Bursts of operations without special options, which inspect nothing, with other events now and then.
struct QuietProgram {
    struct Added {
        var priority: OperationPriority
        var dependency: Int?
        var isBarrier: Bool
        /// When it was added, started and ended.
        var added: Int
        var started: Int?
        var ended: Int?
        var sawCancellation = false
    }

    /// The reports of the operations; the time is the number of reports.
    struct Log {
        var time = 0
        var operations: [Added] = []
        var runningCount = 0
        var maximumRunning = 0

        mutating func tick() -> Int {
            time += 1
            return time
        }
    }

    private let simulation: Simulation
    private let supervisor: OperationSupervisor
    private let width: Int
    private var generator: SplitMix64
    private let log = Locked(Log())
    private var handles: [OperationHandle<Void>] = []
    private var cancelled: Set<Int> = []
    private var wasSuspended = false
    private(set) var complaints: [String] = []

    init(_ simulation: Simulation) {
        self.simulation = simulation
        generator = SplitMix64(seed: simulation.seed ^ 0x7A6E)
        width = Int.random(in: 1...3, using: &generator)
        supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: width))
    }

    mutating func run() async throws {
        add()
        let early = Task(executorPreference: simulation.executor) { [supervisor] in try await supervisor.drain() }
        let isCalm = generator.oneIn(3)
        for _ in 0..<Int.random(in: 5...15, using: &generator) {
            for _ in 0..<Int.random(in: 1...12, using: &generator) { add() }
            for _ in 0..<Int.random(in: 0...60, using: &generator) { await Task.yield() }
            if !isCalm { disturb() }
        }
        supervisor.isSuspended = false
        try await supervisor.drain()
        // The drain that was pending from the beginning returns too.
        try await early.value
        check()
    }

    private mutating func disturb() {
        switch Int.random(in: 0..<12, using: &generator) {
        case 0, 1: add(after: handles.indices.randomElement(using: &generator))
        case 2: add(.high)
        case 3: add(.low)
        case 4: add(isBarrier: true)
        case 5, 6:
            let number = Int.random(in: handles.indices, using: &generator)
            cancelled.insert(number)
            handles[number].cancel()
        case 7:
            wasSuspended = true
            supervisor.isSuspended.toggle()
        case 8:
            let ended = log.withLock { log in log.operations.count { $0.ended != nil } } + cancelled.count
            let progress = supervisor.progress
            if progress.completedUnitCount > ended || progress.totalUnitCount > handles.count {
                complaints.append("\(progress), \(ended) ended of \(handles.count)")
            }
        case 9: _ = handles.randomElement(using: &generator)?.state
        default: break
        }
    }

    private mutating func add(
        _ priority: OperationPriority = .normal,
        after dependency: Int? = nil,
        isBarrier: Bool = false
    ) {
        let number = handles.count
        let yields = Int.random(in: 0...3, using: &generator)
        log.withLock { log in
            let time = log.tick()
            log.operations.append(
                Added(priority: priority, dependency: dependency, isBarrier: isBarrier, added: time)
            )
        }
        let operation = Probe { [log] _ in
            log.withLock { log in
                log.operations[number].started = log.operations[number].started == nil ? log.tick() : -1
                log.runningCount += 1
                log.maximumRunning = max(log.maximumRunning, log.runningCount)
            }
            for _ in 0..<yields { await Task.yield() }
            log.withLock { log in
                log.operations[number].sawCancellation = Task.isCancelled
                log.operations[number].ended = log.tick()
                log.runningCount -= 1
            }
        }
        let options = priority == .normal ? nil : OperationOptions(priority: priority)
        let handle: OperationHandle<Void>
        if isBarrier {
            handle = supervisor.addBarrier(operation)
        } else if let dependency {
            handle = supervisor.add(operation, after: [handles[dependency].ending], options: options)
        } else {
            handle = supervisor.add(operation, options: options)
        }
        handles.append(handle)
    }

    // MARK: Rules

    private mutating func complain(_ number: Int, _ what: String) { complaints.append("\(number) \(what)") }

    private mutating func check() {
        let log = log.withLock { $0 }
        if log.maximumRunning > width { complaints.append("\(log.maximumRunning) ran at once, with width \(width)") }
        let progress = supervisor.progress
        if progress.fractionCompleted != 1 || progress.completedUnitCount != progress.totalUnitCount {
            complaints.append("\(progress)")
        }
        if !supervisor.operations.isEmpty || supervisor.runningCount != 0 { complaints.append("something is left") }
        for (number, operation) in log.operations.enumerated() {
            let state = handles[number].state
            guard let started = operation.started, operation.ended != nil else {
                if !cancelled.contains(number) || state != .cancelled { complain(number, "never ran, and is \(state)") }
                continue
            }
            if started < 0 { complain(number, "ran twice") }
            if state != .finished && !cancelled.contains(number) { complain(number, "is \(state)") }
            if operation.sawCancellation && !cancelled.contains(number) { complain(number, "saw a cancellation") }
            if let ended = operation.dependency.flatMap({ log.operations[$0].ended }), ended > started {
                complain(number, "ran before its dependency had ended")
            }
            for (other, rival) in log.operations.enumerated() where other != number {
                check(number, operation, started, against: other, rival, log)
            }
        }
    }

    /// Checks whether the other operation should have started before this one.
    private mutating func check(
        _ number: Int,
        _ operation: Added,
        _ started: Int,
        against other: Int,
        _ rival: Added,
        _ log: Log
    ) {
        if operation.isBarrier || rival.isBarrier, other < number, (rival.ended ?? 0) > started {
            complain(number, "passed \(other), but one of them is a barrier")
        }
        // The order is exact only if operations run one at a time, nothing was held back, and no grant took the oldest.
        guard width == 1, !wasSuspended, let rivalStarted = rival.started, rivalStarted > started else { return }
        // An operation that others wait for inherits their priority.
        guard !log.operations.contains(where: { $0.dependency == number }) else { return }
        guard rival.priority > operation.priority || rival.priority == operation.priority && other < number else {
            return
        }
        let formerEnd = log.operations.compactMap(\.ended).filter { $0 < started }.max() ?? 0
        var isReady = rival.added < formerEnd
        if let dependency = rival.dependency {
            // The dependency may have been cancelled before it ran.
            isReady = isReady && (log.operations[dependency].ended.map { $0 < formerEnd } ?? false)
        }
        let isBehindBarrier = log.operations[..<other].contains { $0.isBarrier } || rival.isBarrier
        let older = log.operations[..<number]
        let isOldest = older.allSatisfy { $0.dependency != nil || ($0.started ?? 0) <= started }
        if isReady, !isBehindBarrier, !isOldest { complain(number, "started before \(other), which comes first") }
    }
}
