import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

/// Operations that workers run straight from the inbox, so that the scheduler never hears of most, and everything that can
/// come between: it has to look as if the scheduler had known of each.
@Suite("Operations that nobody looks at", .timeLimit(.minutes(30)))
struct TakerTests {
    @Test("D5: start in the rules' order, each once, whatever else is added, cancelled or changed meanwhile")
    func programs() async throws {
        var takenCount = 0
        for seed in seeds(2000) {
            let outcome = try await Simulation.run(seed: seed) { simulation in
                var program = QuietProgram(simulation)
                try await program.run()
                return (complaints: program.complaints, takenCount: program.takenCount)
            }
            guard outcome.complaints.isEmpty else {
                Issue.record("seed \(seed): \(outcome.complaints.joined(separator: "\n"))")
                return
            }
            takenCount += outcome.takenCount
        }
        // Whatever a search never meets, it says nothing about.
        #expect(takenCount > 10_000)
    }

    @Test("come before older ones of lower priority")
    func urgency() async throws {
        let gate = Gate()
        let supervisor = OperationSupervisor(width: 1)
        let order = Locked<[OperationPriority]>([])
        supervisor.add(Probe { _ in try await gate.wait() })
        for priority in [OperationPriority.low, .normal, .veryLow, .normal, .normal] {
            supervisor.add(
                Probe { _ in order.withLock { $0.append(priority) } },
                options: OperationOptions(priority: priority)
            )
        }
        gate.open()
        try await supervisor.drain()
        #expect(order.withLock { $0 } == [.normal, .normal, .normal, .low, .veryLow])
    }

    @Test("come after older ones that get ready meanwhile")
    func readiness() async throws {
        for seed in seeds(100) {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: 2))
                let (go, hasStarted) = (Gate(), Gate())
                let order = Locked<[String]>([])
                let first = supervisor.add(Probe { _ in try await go.wait() })
                // One takes the place of the first, the other that of whoever runs the rest.
                for name in ["a", "b"] {
                    let dependent = Probe { _ in
                        order.withLock { $0.append(name) }
                        if name == "a" { try await hasStarted.wait() } else { hasStarted.open() }
                    }
                    supervisor.add(dependent, after: [first])
                }
                for number in 0..<60 {
                    supervisor.add(
                        Probe { _ in
                            order.withLock { $0.append("\(number)") }
                            if number == 10 { go.open() }
                        }
                    )
                }
                try await supervisor.drain()
                #expect(order.withLock { $0.count == 62 && !$0.suffix(10).contains("b") }, "seed \(seed)")
            }
        }
    }

    @Test("are told of cancellation like others, and none is told of another's")
    func cancellation() async throws {
        for seed in seeds(50) {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: 1))
                let (gate, hasStarted, isCancelled) = (Gate(), Gate(), Gate())
                supervisor.add(Probe { _ in try await gate.wait() })
                for _ in 0..<3 { supervisor.add(Probe { _ in }) }
                let taken = supervisor.add(
                    Probe { _ in
                        hasStarted.open()
                        // It doesn't care.
                        try? await Gate().wait()
                        await Task { try? await isCancelled.wait() }.value
                    }
                )
                gate.open()
                try await hasStarted.wait()
                taken.cancel()
                isCancelled.open()
                // While its ending phase runs, perhaps.
                for _ in 0..<seed % 12 { await Task.yield() }
                let next = supervisor.add(Probe { _ in #expect(!Task.isCancelled) })
                try await supervisor.drain()
                #expect(taken.state == .finished && next.state == .finished)
            }
        }
    }

    @Test("count in the supervisor's progress, which begins anew only when it has drained")
    func progress() async throws {
        let gate = Gate()
        let supervisor = OperationSupervisor(width: 1)
        let seen = Locked<[SupervisorProgress]>([])
        supervisor.add(Probe { _ in try await gate.wait() })
        for number in 0..<20 {
            supervisor.add(Probe { _ in if number == 10 { seen.withLock { $0.append(supervisor.progress) } } })
        }
        let late = supervisor.add(
            Probe { _ in seen.withLock { $0.append(supervisor.progress) } },
            options: OperationOptions(priority: .low)
        )
        gate.open()
        try await supervisor.drain()
        #expect(late.state == .finished)
        let expected = [11, 21].map { count in
            SupervisorProgress(totalUnitCount: 22, completedUnitCount: count, fractionCompleted: Double(count) / 22)
        }
        #expect(seen.withLock { $0 } == expected)
        #expect(supervisor.progress.completedUnitCount == 22)
    }

    @Test("D5: wait for a place where the width has been lowered")
    func lowerWidth() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: 2))
            let (first, second) = (Gate(), Gate())
            let count = Locked(0)
            let ending = supervisor.add(Probe { _ in try await first.wait() })
            supervisor.add(Probe { _ in try await second.wait() })
            supervisor.width = 1
            for _ in 0..<10 { supervisor.add(Probe { _ in count.withLock { $0 += 1 } }) }
            first.open()
            for _ in 0..<200 { await Task.yield() }
            #expect(count.withLock { $0 } == 0 && ending.state == .finished)
            second.open()
            try await supervisor.drain()
            #expect(count.withLock { $0 } == 10)
        }
    }

    @Test("are taken one after the other while they are added, and none is left")
    func streaming() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let count = Locked(0)
        var handles: [OperationHandle<Void>] = []
        var traces: [Trace] = []
        for _ in 0..<20_000 {
            let operation = Probe { _ in count.withLock { $0 += 1 } }
            traces.append(Trace(operation: operation))
            handles.append(supervisor.add(operation))
        }
        try await supervisor.drain()
        // D8: but for what a worker has in hand just yet.
        #expect(traces.count { $0.operation != nil } < 10)
        #expect(count.withLock { $0 } == 20_000)
        #expect(handles.allSatisfy { $0.state == .finished })
        #expect(handles.contains { $0.record.isTaken })
        #expect(supervisor.operations.isEmpty && supervisor.runningCount == 0)
    }
}

private struct Trace {
    weak var operation: Probe<Void>?
}

/// Bursts of operations with nothing unusual, which look at nothing, and now and then something else.
private struct QuietProgram {
    struct Added {
        var id: OperationID
        var priority: OperationPriority
        var dependency: Int?
        var isBarrier: Bool
        /// When it was added, started and ended.
        var added: Int
        var started: Int?
        var ended: Int?
        var sawCancellation = false
    }

    /// What the operations report; time is the number of reports.
    struct Log {
        var time = 0
        var operations: [Added] = []
        var runningCount = 0
        var mostRunning = 0

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

    var takenCount: Int { handles.count { $0.record.isTaken } }

    mutating func run() async throws {
        add()
        let early = Task(executorPreference: simulation.executor) { [supervisor, log] in
            try await supervisor.drain()
            return log.withLock { log in log.operations.count { $0.ended == nil } }
        }
        let isCalm = generator.oneIn(3)
        for _ in 0..<Int.random(in: 5...15, using: &generator) {
            for _ in 0..<Int.random(in: 1...12, using: &generator) { add() }
            for _ in 0..<Int.random(in: 0...60, using: &generator) { await Task.yield() }
            if !isCalm { disturb() }
        }
        supervisor.isSuspended = false
        try await supervisor.drain()
        // It may have ended in a moment in which nothing was left, before more was added.
        _ = try await early.value
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
                Added(id: .none, priority: priority, dependency: dependency, isBarrier: isBarrier, added: time)
            )
        }
        let operation = Probe { [log] _ in
            log.withLock { log in
                log.operations[number].started = log.operations[number].started == nil ? log.tick() : -1
                log.runningCount += 1
                log.mostRunning = max(log.mostRunning, log.runningCount)
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
        log.withLock { $0.operations[number].id = handle.id }
    }

    // MARK: Rules

    private mutating func complain(_ number: Int, _ what: String) { complaints.append("\(number) \(what)") }

    private mutating func check() {
        let log = log.withLock { $0 }
        if log.mostRunning > width { complaints.append("\(log.mostRunning) ran at once, of \(width)") }
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

    /// One that started: whether the other should have started before.
    private mutating func check(
        _ number: Int,
        _ operation: Added,
        _ started: Int,
        against other: Int,
        _ rival: Added,
        _ log: Log
    ) {
        if operation.isBarrier || rival.isBarrier, other < number, (rival.ended ?? 0) > started {
            complain(number, "passed \(other), and one of them is a barrier")
        }
        // Exact only where one runs after the other, nothing was held back, and the oldest of all didn't take its turn.
        guard width == 1, !wasSuspended, let rivalStarted = rival.started, rivalStarted > started else { return }
        guard rival.priority > operation.priority || rival.priority == operation.priority && other < number else {
            return
        }
        let formerEnd = log.operations.compactMap(\.ended).filter { $0 < started }.max() ?? 0
        var isReady = rival.added < formerEnd
        if let dependency = rival.dependency {
            // It may have been cancelled before it ran.
            isReady = isReady && (log.operations[dependency].ended.map { $0 < formerEnd } ?? false)
        }
        let isBehindBarrier = log.operations[..<other].contains { $0.isBarrier } || rival.isBarrier
        let older = log.operations[..<number]
        let isOldest = older.allSatisfy { $0.dependency != nil || ($0.started ?? 0) <= started }
        if isReady, !isBehindBarrier, !isOldest { complain(number, "started before \(other), which comes first") }
    }
}
