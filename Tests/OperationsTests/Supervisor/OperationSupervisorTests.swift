import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("The supervisor", .timeLimit(.minutes(60)))
struct OperationSupervisorTests {
    /// How a dependency can end.
    enum Ending: CaseIterable, Sendable { case finish, fail, cancel }

    private func probe(ending: Ending) -> Probe<Void> {
        Probe { _ in
            switch ending {
            case .finish: return
            case .fail: throw ProbeError(name: "root cause")
            case .cancel: throw CancellationError()
            }
        }
    }

    @Test(
        "D3: A dependency's outcome and policy decide whether an operation runs, added before or after its end",
        arguments: Ending.allCases,
        [(false, false), (false, true), (true, false), (true, true)]
    )
    func dependencyMatrix(ending: Ending, rule: (onlyWaits: Bool, isLate: Bool)) async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: !rule.isLate))
        let first = supervisor.add(probe(ending: ending))
        if rule.isLate { _ = await first.result }
        let journal = Journal()
        let second = supervisor.add(
            Probe("b", journal) { _ in },
            after: [rule.onlyWaits ? first.ending : first]
        )
        let third = supervisor.add(Probe { _ in }, after: [second])
        supervisor.isSuspended = false
        try await supervisor.drain()
        if ending == .finish || rule.onlyWaits {
            #expect(second.state == .finished)
            #expect(third.state == .finished)
        } else {
            #expect(second.state == (ending == .fail ? .failed : .cancelled))
            #expect(third.state == second.state)
            #expect((third.error as? ProbeError)?.name == (ending == .fail ? "root cause" : nil))
            #expect(journal.all.isEmpty, "the operation ran in spite of its failed dependency")
        }
        // A cancelled or failed operation doesn't affect later ones.
        let later: Int = try await supervisor.add(Probe { _ in 3 }).value
        #expect(later == 3)
    }

    @Test("Dependencies hold across supervisors", arguments: Ending.allCases)
    func acrossSupervisors(ending: Ending) async {
        let (here, there) = (OperationSupervisor(.init(isSuspended: true)), OperationSupervisor())
        let first = here.add(probe(ending: ending))
        let second = there.add(Probe { _ in }, after: [first])
        let third = there.add(Probe { _ in }, after: [first.ending, second.ending])
        #expect(second.state == .waiting)
        here.isSuspended = false
        _ = await (second.result, third.result)
        #expect(second.state == first.state)
        #expect(third.state == .finished)
    }

    @Test("`then` creates the next operation from the previous output; an error that make throws fails it")
    func chaining() async throws {
        let supervisor = OperationSupervisor()
        let doubled = supervisor.add(Probe { _ in 21 }).then { number in Probe { _ in number * 2 } }
        #expect(try await doubled.value == 42)
        let failed = doubled.then { _ -> Probe<Int> in throw ProbeError(name: "make") }
        let after = failed.then { number in Probe { _ in number } }
        await #expect(throws: ProbeError(name: "make")) { try await after.value }
        let cancelled = supervisor.add(probe(ending: .cancel)).then { Probe { _ in } }
        _ = await cancelled.result
        #expect(cancelled.state == .cancelled)
    }

    @Test("A batch is added as a whole and keeps its order")
    func batch() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let journal = Journal()
        let handles = supervisor.add((0..<10).map { number in Probe("\(number)", journal) { _ in number } })
        var values: [Int] = []
        for handle in handles { values.append(try await handle.value) }
        #expect(values == Array(0..<10))
        #expect(journal.all.filter { $0.hasSuffix("main") } == (0..<10).map { "\($0) main" })
    }

    @Test("D5: At most width operations run at once, while the width changes and operations pause and are cancelled")
    func width() async throws {
        for seed in 0..<300 as Range<UInt64> {
            let running = Locked((now: 0, maximum: 0))
            let enter: @Sendable () -> Void = {
                running.withLock { $0 = ($0.now + 1, max($0.maximum, $0.now + 1)) }
            }
            let leave: @Sendable () -> Void = { running.withLock { $0.now -= 1 } }
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 3))
                let handles = (0..<20).map { number in
                    supervisor.add(
                        Probe { context in
                            enter()
                            await Task.yield()
                            leave()
                            if number % 3 == 0 {
                                try await context.pause(awaiting: "x") {
                                    await Task.yield()
                                    try Task.checkCancellation()
                                }
                            }
                            enter()
                            await Task.yield()
                            leave()
                        }
                    )
                }
                for handle in handles where handle.id.rawValue % 5 == 0 {
                    await Task.yield()
                    handle.cancel()
                }
                supervisor.width = 0
                await Task.yield()
                supervisor.width = 2
                try await supervisor.drain()
                #expect(supervisor.runningCount == 0)
            }
            #expect(running.withLock { $0.now } == 0)
            #expect(running.withLock { $0.maximum } <= 3, "seed \(seed)")
        }
    }

    @Test("R34 F15: An operation that waits for an answer is paused, and others use its slot")
    func pausing() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let asking = supervisor.add(
            Probe { context in
                try await context.pause(awaiting: "the password") {
                    try await gate.wait()
                    return "secret"
                }
            }
        )
        await gate.arrival()
        #expect(asking.isPaused)
        #expect(!asking.isExecuting)
        let other = try await supervisor.add(Probe { _ in 1 }).value
        #expect(other == 1)
        gate.open()
        #expect(try await asking.value == "secret")
    }

    @Test("A paused operation that is cancelled ends, even in a suspended supervisor of width 0")
    func cancelPaused() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let asking = supervisor.add(
            Probe { context in try await context.pause(awaiting: "x") { try await gate.wait() } }
        )
        await gate.arrival()
        supervisor.isSuspended = true
        supervisor.width = 0
        asking.cancel()
        _ = await asking.result
        #expect(asking.state == .cancelled)
    }

    @Test("A waiting operation that is cancelled ends without starting, and its dependents are cancelled too")
    func cancelWaiting() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let journal = Journal()
        let first = supervisor.add(Probe("a", journal) { _ in })
        let second = supervisor.add(Probe("b", journal) { _ in }, after: [first])
        let third = supervisor.add(Probe("c", journal) { _ in }, after: [second.ending])
        first.cancel()
        #expect(first.state == .cancelled)
        #expect(second.state == .cancelled)
        #expect(third.state == .ready)
        supervisor.isSuspended = false
        try await third.value
        #expect(!journal.all.contains { $0.hasPrefix("a") || $0.hasPrefix("b") })
    }

    @Test("An operation that wasn't cancelled never sees the cancellation of its worker's previous operation")
    func poisonedWorkers() async throws {
        let supervisor = OperationSupervisor(width: 1)
        for _ in 0..<500 {
            let gate = Gate()
            let first = supervisor.add(Probe { _ in try await gate.wait() })
            let second = supervisor.add(Probe { _ in Task.isCancelled })
            await gate.arrival()
            first.cancel()
            #expect(try await second.value == false)
            #expect(first.state == .cancelled)
        }
    }

    @Test("cancelAll ends all operations, and drain waits for that")
    func cancelAll() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let gate = Gate()
        let handles = (0..<100).map { _ in supervisor.add(Probe { _ in try await gate.wait() }) }
        await gate.arrival()
        supervisor.cancelAll()
        try await supervisor.drain()
        #expect(handles.allSatisfy { $0.state == .cancelled })
        #expect(supervisor.operations.isEmpty)
    }

    @Test("Cancelling a waiting task makes its wait throw and doesn't affect the operation")
    func cancelledWaiter() async throws {
        let supervisor = OperationSupervisor()
        let gate = Gate()
        let handle = supervisor.add(
            Probe { _ in
                try await gate.wait()
                return 9
            }
        )
        await gate.arrival()
        let waiter = Task { try await handle.value }
        let drainer = Task { try await supervisor.drain() }
        waiter.cancel()
        drainer.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
        await #expect(throws: CancellationError.self) { try await drainer.value }
        #expect(handle.state == .executing)
        gate.open()
        #expect(try await handle.value == 9)
    }

    @Test("D7: The supervisor's progress never falls while operations are added, and is complete when all have ended")
    func aggregateProgress() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                #expect(supervisor.progress.fractionCompleted == 0)
                var last = 0.0
                for number in 0..<10 {
                    supervisor.add(
                        Probe { context in
                            context.reportProgress(0.5)
                            await Task.yield()
                            if number == 4 { throw ProbeError() }
                        }
                    )
                    await Task.yield()
                    let progress = supervisor.progress
                    #expect(progress.fractionCompleted >= last)
                    last = progress.fractionCompleted
                }
                try await supervisor.drain()
                #expect(
                    supervisor.progress
                        == SupervisorProgress(
                            totalUnitCount: 10,
                            completedUnitCount: 10,
                            fractionCompleted: 1
                        )
                )
            }
        }
    }

    @Test(
        "A released supervisor cancels what would never start: not the children of a running operation",
        arguments: ["suspended", "of width 0"]
    )
    func released(supervisor kind: String) async throws {
        let holdBack: @Sendable (OperationSupervisor) -> Void = { supervisor in
            if kind == "suspended" { supervisor.isSuspended = true } else { supervisor.width = 0 }
        }
        for seed in 0..<20 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (gate, children) = (Gate(), Gate())
                let (parent, fresh): (OperationHandle<Int>, OperationHandle<Void>)
                do {
                    let supervisor = OperationSupervisor(.init(simulation, width: 1))
                    parent = supervisor.add(
                        Probe { context in
                            let all = try (1...3).map { number in try context.addChild(Probe { _ in number }) }
                            children.open()
                            try await gate.wait()
                            var sum = 0
                            for child in all { sum += try await child.value }
                            return sum
                        }
                    )
                    fresh = supervisor.add(Probe { _ in })
                    try await children.wait()
                    holdBack(supervisor)
                }
                gate.open()
                #expect(try await parent.value == 6)
                await #expect(throws: CancellationError.self) { try await fresh.value }

                let (started, end) = (Gate(), Gate())
                let joined: OperationHandle<Int>
                do {
                    let supervisor = OperationSupervisor(.init(simulation))
                    joined = supervisor.add(
                        Probe { _ in
                            started.open()
                            try await end.wait()
                            return 7
                        },
                        options: OperationOptions(coalescingKey: "k")
                    )
                    try await started.wait()
                    holdBack(supervisor)
                }
                end.open()
                #expect(try await joined.value == 7)

                let late: OperationHandle<Void>
                do {
                    let supervisor = OperationSupervisor(.init(simulation))
                    await supervisor.enterBackground(grace: .seconds(30))
                    late = supervisor.add(Probe { _ in })
                }
                await #expect(throws: CancellationError.self) { try await late.value }
            }
        }
    }

    @Test("D8: A chain of 100,000 waiting operations ends without recursion if its head fails or it is released")
    func longChains() async throws {
        let alive = Locked(0)
        actor Link: Operation {
            let former: OperationHandle<Int>?
            let alive: Locked<Int>
            init(_ former: OperationHandle<Int>?, _ alive: Locked<Int>) {
                (self.former, self.alive) = (former, alive)
                alive.withLock { $0 += 1 }
            }
            deinit { alive.withLock { $0 -= 1 } }
            func main(_ context: OperationContext) async throws -> Int { throw ProbeError(name: "head") }
        }
        var last: OperationHandle<Int>?
        var supervisor: OperationSupervisor? = OperationSupervisor(.init(isSuspended: true))
        for _ in 0..<100_000 {
            last = supervisor?.add(Link(last, alive), after: last.map { [$0] } ?? [])
        }
        supervisor?.isSuspended = false
        await #expect(throws: ProbeError(name: "head")) { try await last?.value }
        supervisor?.isSuspended = true
        last = nil
        for _ in 0..<100_000 {
            last = supervisor?.add(Link(last, alive), after: last.map { [$0] } ?? [])
        }
        supervisor = nil
        #expect(last?.state == .cancelled)
        #expect(alive.withLock { $0 } == 0)
    }

    @Test("D6: An operation becomes as urgent as another one whose main awaits its value, also across supervisors")
    func awaitedPriority() async throws {
        for isForeign in [false, true] {
            let supervisor = OperationSupervisor(.init(width: 1, isSuspended: true))
            let other = isForeign ? OperationSupervisor(width: 1) : supervisor
            let journal = Journal()
            let awaited = supervisor.add(
                Probe("awaited", journal) { _ in },
                options: OperationOptions(priority: .veryLow)
            )
            supervisor.add(Probe("usual", journal) { _ in })
            let urgent = other.add(
                Probe { _ in try await awaited.value },
                options: OperationOptions(priority: .veryHigh)
            )
            // A suspended supervisor starts nothing; the other one's operation awaits at once.
            if isForeign { for await event in urgent.events { if case .paused = event { break } } }
            supervisor.isSuspended = false
            try await supervisor.drain()
            #expect(journal.all.filter { $0.hasSuffix("main") } == ["awaited main", "usual main"])
        }
    }
}
