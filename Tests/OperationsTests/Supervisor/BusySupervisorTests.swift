import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Operations that are added to a busy supervisor", .timeLimit(.minutes(60)))
struct BusySupervisorTests {
    @Test("Operations that are added to a busy supervisor are visible at once")
    func looking() async throws {
        let gate = Gate()
        let supervisor = OperationSupervisor(width: 1)
        let running = supervisor.add(Probe { _ in try await gate.wait() })
        let waiting = (0..<100).map { number in supervisor.add(Probe { _ in number }) }
        #expect(waiting.allSatisfy { $0.state == .ready })
        #expect(zip(waiting, waiting.dropFirst()).allSatisfy { $0.id < $1.id })
        #expect(supervisor.operations.map(\.id) == [running.id] + waiting.map(\.id))
        let more = supervisor.add(Probe { _ in })
        more.cancel()
        #expect(more.state == .cancelled)
        _ = supervisor.add(Probe { _ in })
        for waiting in waiting { waiting.cancel() }
        #expect(supervisor.operations.count == 2)
        gate.open()
        try await supervisor.drain()
        #expect(running.state == .finished)
    }

    @Test("A pending drain waits for operations that are added after it")
    func drain() async throws {
        for seed in 0..<200 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 1))
                let gate = Gate()
                let count = Locked(0)
                supervisor.add(Probe { _ in try await gate.wait() })
                let drain = Task(executorPreference: simulation.executor) {
                    try await supervisor.drain()
                    return count.withLock { $0 }
                }
                await gate.arrival()
                for _ in 0..<4 { await Task.yield() }
                // No call inspects the supervisor from here on: only a worker whose operation ends finds them.
                for _ in 0..<3 { supervisor.add(Probe { _ in count.withLock { $0 += 1 } }) }
                gate.open()
                let endedCount = try await drain.value
                #expect(endedCount == 3, "seed \(seed)")
            }
        }
    }

    @Test("Operations of a busy supervisor run before a barrier that is added after them")
    func barrier() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 2))
                let ends = Locked<[Int]>([])
                for number in 0..<5 { supervisor.add(Probe { _ in ends.withLock { $0.append(number) } }) }
                supervisor.addBarrier(Probe { _ in ends.withLock { $0.append(5) } })
                supervisor.add(Probe { _ in ends.withLock { $0.append(6) } })
                try await supervisor.drain()
                #expect(
                    ends.withLock { $0 }.sorted() == ends.withLock { Array($0[..<5]).sorted() + [5, 6] },
                    "seed \(seed)"
                )
            }
        }
    }

    @Test("Added operations start by priority and age, among operations that are already queued")
    func order() async throws {
        let (gate, end) = (Gate(), Gate())
        let order = Locked<[Int]>([])
        let supervisor = OperationSupervisor(width: 1)
        func add(_ number: Int, _ priority: OperationPriority?) {
            supervisor.add(
                Probe { _ in
                    order.withLock { $0.append(number) }
                    if number == 8 { end.open() }
                },
                options: priority.map { OperationOptions(priority: $0) }
            )
        }
        supervisor.add(Probe { _ in try await gate.wait() })
        add(2, nil)
        add(3, .normal)
        add(6, .low)
        add(8, .veryLow)
        add(4, nil)
        add(1, .high)
        add(0, .veryHigh)
        add(5, nil)
        add(7, .low)
        gate.open()
        try await end.wait()
        #expect(order.withLock { $0 } == Array(0...8))
    }

    @Test("Queued operations start as soon as a slot becomes free, for any reason")
    func places() async throws {
        let gate = Gate()
        let supervisor = OperationSupervisor(width: 1)
        let paused = supervisor.add(
            Probe { context in
                let inner = supervisor.add(Probe { _ in 1 })
                return try await context.pause(awaiting: "another one") { try await inner.value }
            }
        )
        #expect(try await paused.value == 1)
        let running = supervisor.add(Probe { _ in try await gate.wait() })
        let second = supervisor.add(Probe { _ in 2 })
        supervisor.width = 2
        #expect(try await second.value == 2)
        supervisor.isSuspended = true
        let third = supervisor.add(Probe { _ in 3 })
        #expect(third.state == .ready)
        supervisor.isSuspended = false
        #expect(try await third.value == 3)
        gate.open()
        try await running.value
    }

    @Test("A supervisor refuses operations from the start of a shutdown")
    func shutdown() async throws {
        let (gate, started, begun) = (Gate(), Gate(), Gate())
        let supervisor = OperationSupervisor(width: 1)
        let running = supervisor.add(
            Probe { _ in
                started.open()
                // It ends long after its cancellation.
                try? await withTaskCancellationHandler {
                    try await Gate().wait()
                } onCancel: {
                    begun.open()
                }
                await Task { try? await gate.wait() }.value
            }
        )
        try await started.wait()
        // No operation is waiting that the shutdown would end.
        #expect(supervisor.operations.map(\.id) == [running.id])
        let shutdown = Task { await supervisor.shutdown(grace: .seconds(600)) }
        try await begun.wait()
        #expect((supervisor.add(Probe { _ in }).error as? OperationError)?.code == .shutDown)
        gate.open()
        #expect(await shutdown.value.isEmpty)
        #expect(running.isEnded)
    }

    @Test("D4: 100,000 operations that many threads add concurrently run once each")
    func threads() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let count = Locked(0)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<12_500 { supervisor.add(Probe { _ in count.withLock { $0 += 1 } }) }
                }
            }
        }
        try await supervisor.drain()
        #expect(count.withLock { $0 } == 100_000)
        #expect(supervisor.operations.isEmpty)
    }
}
