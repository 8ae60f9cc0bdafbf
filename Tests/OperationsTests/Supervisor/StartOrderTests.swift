import OperationsTesting
import TestSupport
import Testing
import ThreadSupport

@testable import Operations

@Suite("The order in which operations start", .timeLimit(.minutes(60)))
struct StartOrderTests {
    @Test("D5: Operations start in the scheduler's order, each once, whatever is added, cancelled or changed meanwhile")
    func programs() async throws {
        for seed in TestDepth.seeds(quick: 150, ci: 250, deep: 100_000) {
            let complaints = try await Simulation.run(seed: seed) { simulation in
                var program = QuietProgram(simulation)
                try await program.run()
                return program.complaints
            }
            guard complaints.isEmpty else {
                Issue.record("seed \(seed): \(complaints.joined(separator: "\n"))")
                return
            }
        }
    }

    @Test("Operations start after older ones that become ready meanwhile")
    func readiness() async throws {
        for seed in TestDepth.seeds(quick: 10, ci: 50, deep: 1_000) {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: 2))
                let (go, hasStarted) = (Gate(), Gate())
                let order = Locked<[String]>([])
                let first = supervisor.add(Probe { _ in try await go.wait() })
                // One dependent takes the slot of the first operation, the other that of the worker that runs the rest.
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

    @Test("An operation sees its own cancellation, and never another operation's")
    func cancellation() async throws {
        for seed in TestDepth.seeds(quick: 10, ci: 50, deep: 1_000) {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation, width: 1))
                let (gate, hasStarted, isCancelled) = (Gate(), Gate(), Gate())
                supervisor.add(Probe { _ in try await gate.wait() })
                for _ in 0..<3 { supervisor.add(Probe { _ in }) }
                let cancelled = supervisor.add(
                    Probe { _ in
                        hasStarted.open()
                        // The operation ignores its cancellation.
                        try? await Gate().wait()
                        await Task { try? await isCancelled.wait() }.value
                    }
                )
                gate.open()
                try await hasStarted.wait()
                cancelled.cancel()
                isCancelled.open()
                // Depending on the seed, its ending phase still runs when the next operation is added.
                for _ in 0..<seed % 12 { await Task.yield() }
                let next = supervisor.add(Probe { _ in #expect(!Task.isCancelled) })
                try await supervisor.drain()
                #expect(cancelled.state == .finished && next.state == .finished)
            }
        }
    }

    @Test("A weight that is negative or huge counts as the nearest valid one")
    func weights() {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        for count in [Int64.max, .max, .min, 3] {
            var options = OperationOptions()
            options.progressUnitCount = count
            supervisor.add(options: options) { _ in }
        }
        #expect(supervisor.progress.totalUnitCount == 2 << 40 + 3)
        supervisor.cancelAll()
        #expect(supervisor.progress.fractionCompleted == 1)
    }

    @Test("Operations count in the supervisor's progress, which starts over only when it has drained")
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

    @Test("D5: Operations wait for a slot after the width has been lowered")
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

    @Test("At width 0, the explanation of an operation that waits to resume says that the one slot is in use")
    func resumingAtWidthZero() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1))
            let (answer, end) = (Gate(), Gate())
            let asking = supervisor.add(
                Probe { context in try await context.pause(awaiting: "an answer") { try await answer.wait() } }
            )
            supervisor.add(Probe { _ in try await end.wait() })
            await end.arrival()
            supervisor.width = 0
            answer.open()
            while "\(asking.explain())".contains("an answer") { await Task.yield() }
            #expect("\(asking.explain())".hasSuffix(": all 1 slots are in use"))
            end.open()
            try await asking.value
        }
    }

    @Test("Operations that are added while others run are all run, and none is left")
    func streaming() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let count = Locked(0)
        var handles: [OperationHandle<Void>] = []
        var traces: [Trace] = []
        let gate = Gate()
        for _ in 0..<2 { supervisor.add(Probe { _ in try await gate.wait() }) }
        for number in 0..<20_000 {
            if number == 10_000 { gate.open() }
            let operation = Probe { _ in count.withLock { $0 += 1 } }
            traces.append(Trace(operation: operation))
            handles.append(supervisor.add(operation))
        }
        try await supervisor.drain()
        // D8: except the operations that the workers still hold.
        #expect(traces.count { $0.operation != nil } < 10)
        #expect(count.withLock { $0 } == 20_000)
        #expect(handles.allSatisfy { $0.state == .finished })
        #expect(supervisor.operations.isEmpty && supervisor.runningCount == 0)
    }

    @Test("An operation that was cancelled before its start can be added again, by its end handler at the earliest")
    func addedAgain() async throws {
        let supervisor = OperationSupervisor()
        supervisor.isSuspended = true
        let operation = Probe { _ in 7 }
        let again = Locked<OperationHandle<Int>?>(nil)
        let first = supervisor.add(operation)
        first.whenEnded { _ in
            let second = supervisor.add(operation)
            again.withLock { $0 = second }
        }
        first.cancel()
        supervisor.isSuspended = false
        #expect(first.state == .cancelled)
        #expect(try await again.withLock { $0 }?.value == 7)
    }
}

private struct Trace {
    weak var operation: Probe<Void>?
}
