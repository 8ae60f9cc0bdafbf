import OperationsTesting
import TestSupport
import Testing
import ThreadSupport

@testable import Operations

@Suite("Random programs of supervisors, in simulations", .timeLimit(.minutes(60)))
struct SupervisorProgramTests {
    /// The result of a program.
    struct Outcome: Sendable {
        var complaints: [String]
        var counts: SupervisorFixture.Counts
        var states: [OperationState]
    }

    @Test("D1, D2, D5: However operations interact, each ends once, keys exclude, nothing is stuck or left over")
    func programs() async throws {
        var counts = SupervisorFixture.Counts()
        var states: [OperationState: Int] = [:]
        let seeds = TestDepth.seeds(quick: 400, ci: 700, deep: 250_000)
        for seed in seeds {
            let traces = Traces()
            let explanations = Locked<[String]>([])
            let outcome: Outcome
            do {
                outcome = try await Self.run(seed, traces, explanations)
            } catch {
                let left = explanations.withLock { $0 }.joined(separator: "\n")
                Issue.record("seed \(seed): \(error)\n\(left)")
                return
            }
            guard outcome.complaints.isEmpty else {
                Issue.record("seed \(seed): \(outcome.complaints.joined(separator: "\n"))")
                return
            }
            // D8
            guard traces.left.isEmpty else {
                Issue.record("seed \(seed): left are \(traces.left.joined(separator: ", "))")
                return
            }
            counts.add(outcome.counts)
            for state in outcome.states { states[state, default: 0] += 1 }
        }
        // The search proves nothing about cases that never occur in it.
        for state in [OperationState.finished, .failed, .cancelled] {
            #expect(states[state, default: 0] > seeds.count / 5)
        }
        let least = seeds.count / 500
        #expect(counts.refusedWaits > least * 10 && counts.refusedChildren > least, "\(counts)")
        #expect(counts.addedDependencies > least * 50 && counts.refusedDependencies > least * 10, "\(counts)")
        #expect(counts.refusedRoom > least && counts.joined > least * 2 && counts.abandoned > least, "\(counts)")
        #expect(counts.barriers > least * 20, "\(counts)")
    }

    private static func run(
        _ seed: UInt64,
        _ traces: Traces,
        _ explanations: Locked<[String]>
    ) async throws -> Outcome {
        var generator = SplitMix64(seed: seed ^ 0xC0FFEE)
        let cancelSteps = Set(
            (0..<Int.random(in: 0...3, using: &generator)).map { _ in Int.random(in: 0..<300, using: &generator) }
        )
        let cancel = Locked<(@Sendable () -> Void)?>(nil)
        return try await Simulation.run(
            seed: seed,
            beforeStep: { step in if cancelSteps.contains(step) { cancel.withLock { $0 }?() } },
            { simulation in
                var program = SupervisorProgram(simulation, traces)
                let fixture = program.fixture
                let chance = Locked(SplitMix64(seed: seed ^ 0xCA9CE1))
                cancel.withLock {
                    $0 = {
                        let entry = chance.withLock { fixture.anyEntries(1, using: &$0).first }
                        guard let entry else { return }
                        fixture.willCancel(entry.addition.number)
                        entry.handle.cancel()
                    }
                }
                defer { cancel.withLock { $0 = nil } }
                let abandoned: Set<OperationID>
                do {
                    abandoned = try await program.run()
                } catch {
                    // A stuck simulation cancels its scenario.
                    explanations.withLock { $0 = fixture.explanations }
                    throw error
                }
                let complaints = fixture.finalComplaints(abandoned: abandoned)
                return Outcome(
                    complaints: complaints,
                    counts: fixture.counts,
                    states: fixture.entries.map(\.handle.state)
                )
            }
        )
    }
}

extension SupervisorFixture {
    /// The operations that haven't ended, with explanations.
    fileprivate var explanations: [String] {
        let left = entries.filter { !$0.handle.isEnded }
        let own = left.map { "\($0.addition.number) (operation \($0.handle.id)) is \($0.handle.explain())" }
        return own + supervisors.flatMap(\.operations).map { "operation \($0.id) is \($0.explain())" }
    }
}

/// The calls from outside the operations in a program.
struct SupervisorProgram {
    let fixture: SupervisorFixture
    private var generator: SplitMix64

    init(_ simulation: Simulation, _ traces: Traces) {
        generator = SplitMix64(seed: simulation.seed)
        fixture = SupervisorFixture(simulation, traces, using: &generator)
    }

    /// Runs the program and returns the operations that were abandoned.
    mutating func run() async throws -> Set<OperationID> {
        let listeners = Locked<[Task<Void, Never>]>([])
        for _ in 0..<Int.random(in: 5...25, using: &generator) { try await step(listeners) }
        for supervisor in fixture.supervisors {
            supervisor.isSuspended = false
            supervisor.width = max(1, supervisor.width)
        }
        let abandoned = await shutDownSomething()
        // Operations of different supervisors may wait for each other, so all are drained.
        for supervisor in fixture.supervisors { try await supervisor.drain() }
        for listener in listeners.withLock({ $0 }) { await listener.value }
        for supervisor in fixture.supervisors { try await supervisor.drain() }
        // Gives abandoned operations the time to end.
        if !abandoned.isEmpty { try await fixture.simulation.clock.sleep(for: .seconds(10_000)) }
        return abandoned
    }

    private mutating func step(_ listeners: Locked<[Task<Void, Never>]>) async throws {
        let number = Int.random(in: fixture.supervisors.indices, using: &generator)
        let supervisor = fixture.supervisors[number]
        switch Int.random(in: 0..<34, using: &generator) {
        case 0..<13: add(to: number, listeners)
        case 13: addWhenRoom(to: number, listeners)
        case 14..<19: for _ in 0..<Int.random(in: 1...20, using: &generator) { await Task.yield() }
        case 19..<22:
            try await fixture.simulation.clock.sleep(for: .milliseconds(Int.random(in: 1...100, using: &generator)))
        case 22, 23: supervisor.width = Int.random(in: 0...fixture.maximumWidth, using: &generator)
        case 24, 25: supervisor.isSuspended.toggle()
        case 26, 27: cancelOne()
        case 28, 29, 30: changeDependencies()
        case 32:
            fixture.anyHandle(using: &generator)?.priority =
                OperationPriority.allCases.randomElement(using: &generator) ?? .low
        case 31 where generator.oneIn(4):
            fixture.willCancelAll(of: number)
            supervisor.cancelAll()
        default: if let handle = fixture.anyHandle(using: &generator) { _ = handle.explain().description }
        }
    }

    /// Adds or removes a dependency between operations of any age and supervisor.
    private mutating func changeDependencies() {
        let entries = Array(fixture.anyEntries(2, using: &generator))
        guard let dependent = entries.first, let other = entries.last else { return }
        if generator.oneIn(4) {
            dependent.handle.removeDependency(other.handle)
            return fixture.removeDependencies(of: dependent.addition.number, on: other.addition.number)
        }
        let onlyWaits = generator.oneIn(2)
        do {
            try dependent.handle.addDependency(onlyWaits ? other.handle.ending : other.handle)
            fixture.count(\.addedDependencies)
            fixture.addDependency(of: dependent.addition.number, on: other.addition.number, onlyWaits: onlyWaits)
        } catch let error as OperationError where error.code == .wouldDeadlock {
            fixture.count(\.refusedDependencies)
        } catch let error as OperationError where error.code == .alreadyStarted {
            // The operation has started or ended.
        } catch {
            fixture.complain(dependent.addition.number, "can't depend on another operation: \(error)")
        }
    }

    private mutating func cancelOne() {
        guard let entry = fixture.anyEntries(1, using: &generator).first else { return }
        fixture.willCancel(entry.addition.number)
        entry.handle.cancel()
        if generator.oneIn(2) { entry.handle.cancel() }
    }

    private mutating func add(to number: Int, _ listeners: Locked<[Task<Void, Never>]>) {
        if generator.oneIn(10), let former = fixture.anyEntries(1, using: &generator).first {
            return addNext(after: former)
        }
        let addition = fixture.makeAddition(to: number, parent: nil, using: &generator)
        let supervisor = fixture.supervisors[number]
        let handle: OperationHandle<Int>
        if addition.isBarrier {
            let operation = ScriptedOperation(addition.number, fixture)
            handle = supervisor.addBarrier(operation, after: addition.references, options: addition.options)
        } else if addition.options.coalescingKey == nil, generator.oneIn(4) {
            handle = supervisor.add(after: addition.references, options: addition.options) { [fixture] in
                ScriptedOperation(addition.number, fixture)
            }
        } else {
            let operation = ScriptedOperation(addition.number, fixture)
            handle = supervisor.add(operation, after: addition.references, options: addition.options)
        }
        if addition.options.coalescingKey != nil, handle.record.extras?.target?.extras?.joinedCount ?? 0 > 1 {
            fixture.count(\.joined)
        }
        fixture.register(addition, handle)
        if generator.oneIn(3) { listen(to: handle, addition.number, listeners) }
    }

    private mutating func addNext(after former: SupervisorFixture.Entry) {
        let supervisor = former.addition.supervisor
        var addition = fixture.makeAddition(to: supervisor, parent: nil, waitsForRoom: true, using: &generator)
        addition.dependencies = [(former.addition.number, false)]
        let number = addition.number
        let handle = former.handle.then(options: addition.options) { [fixture] _ in ScriptedOperation(number, fixture) }
        fixture.register(addition, handle)
    }

    private mutating func addWhenRoom(to number: Int, _ listeners: Locked<[Task<Void, Never>]>) {
        let addition = fixture.makeAddition(to: number, parent: nil, waitsForRoom: true, using: &generator)
        let task = Task.detached(executorPreference: fixture.simulation.executor) { [fixture] in
            let operation = ScriptedOperation(addition.number, fixture)
            let handle = try? await fixture.supervisors[number].addWhenRoom(
                operation,
                after: addition.references,
                options: addition.options
            )
            if let handle { fixture.register(addition, handle) }
        }
        listeners.withLock { $0.append(task) }
    }

    /// Checks D1: a listener gets the end once, and nothing after it.
    private func listen(to handle: OperationHandle<Int>, _ number: Int, _ listeners: Locked<[Task<Void, Never>]>) {
        let events = handle.events
        let task = Task.detached(executorPreference: fixture.simulation.executor) { [fixture] in
            var last: OperationEvent?
            for await event in events {
                if case .ended = last { fixture.complain(number, "sent \(event) after its end") }
                last = event
            }
            guard case .ended(let state) = last, state == handle.state else {
                return fixture.complain(number, "sent \(String(describing: last)) last")
            }
        }
        listeners.withLock { $0.append(task) }
    }

    /// Shuts down one of the supervisors in some programs, with operations in it that ignore cancellation.
    private mutating func shutDownSomething() async -> Set<OperationID> {
        guard generator.oneIn(3) else { return [] }
        let number = Int.random(in: fixture.supervisors.indices, using: &generator)
        for entry in fixture.anyEntries(8, using: &generator) where entry.addition.supervisor == number {
            fixture.makeUncooperative(entry.addition.number)
        }
        fixture.willCancelAll(of: number)
        let start = fixture.simulation.clock.now
        let abandoned = await fixture.supervisors[number].shutdown(grace: .seconds(1))
        if start.duration(to: fixture.simulation.clock.now) > .seconds(1) {
            fixture.complain(number, "took too long to shut down")
        }
        for entry in fixture.entries where entry.addition.supervisor == number && !entry.handle.isEnded {
            fixture.complain(entry.addition.number, "hasn't ended in a shutdown")
        }
        fixture.count(\.abandoned, by: abandoned.count)
        let ids = Set(abandoned.map(\.id))
        fixture.didWriteOff(ids)
        return ids
    }
}

extension SupervisorFixture.Counts {
    fileprivate mutating func add(_ other: Self) {
        runs += other.runs
        refusedWaits += other.refusedWaits
        refusedChildren += other.refusedChildren
        refusedRoom += other.refusedRoom
        addedDependencies += other.addedDependencies
        refusedDependencies += other.refusedDependencies
        joined += other.joined
        abandoned += other.abandoned
        barriers += other.barriers
    }
}
