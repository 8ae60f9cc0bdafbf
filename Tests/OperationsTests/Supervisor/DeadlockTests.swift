import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Waits that would never end are refused", .timeLimit(.minutes(60)))
struct DeadlockTests {
    private func expectDeadlock(_ error: (any Error)?, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect((error as? OperationError)?.code == .wouldDeadlock, sourceLocation: sourceLocation)
    }

    @Test("An operation that awaits another one's value at width 1 releases its slot to it")
    func awaiting() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let value: Int = try await supervisor.add(
            Probe { _ in
                let inner = supervisor.add(Probe { _ in 20 })
                async let more = supervisor.add(Probe { _ in 1 }).value
                return try await inner.value + more
            }
        ).value
        #expect(value == 21)
        #expect(supervisor.runningCount == 0)
    }

    @Test("A task that has outlived its operation can drain the supervisor")
    func drainAfterTheEnd() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let outliving = Locked<Task<Void, any Error>?>(nil)
        let operation = supervisor.add(
            Probe { _ in
                let task = Task {
                    try await gate.wait()
                    try await supervisor.drain()
                }
                outliving.withLock { $0 = task }
            }
        )
        try await operation.value
        gate.open()
        try await outliving.withLock { $0 }?.value
    }

    @Test("An operation that awaits itself or its dependent gets an error that names the cycle")
    func cycles() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let own = Locked<OperationHandle<Void>?>(nil)
        let started = Gate()
        let first = supervisor.add(
            Probe { _ in
                try await started.wait()
                try await own.withLock { $0 }?.value
            },
            options: OperationOptions(name: "narcissus")
        )
        own.withLock { $0 = first }
        started.open()
        let error = await #expect(throws: OperationError.self) { try await first.value }
        expectDeadlock(error)
        #expect(error?.description.contains("narcissus") == true)

        let dependent = Locked<OperationHandle<Void>?>(nil)
        let gate = Gate()
        let second = supervisor.add(
            Probe { _ in
                try await gate.wait()
                try await dependent.withLock { $0 }?.value
            },
            options: OperationOptions(name: "egg")
        )
        let hen = supervisor.add(Probe { _ in }, after: [second], options: OperationOptions(name: "hen"))
        dependent.withLock { $0 = hen }
        gate.open()
        let circle = await #expect(throws: OperationError.self) { try await second.value }
        expectDeadlock(circle)
        #expect(circle?.description.contains("egg") == true && circle?.description.contains("hen") == true)
    }

    @Test("If operations of two supervisors await each other, one wait is refused, and both end")
    func acrossSupervisors() async throws {
        for seed in 0..<50 as Range<UInt64> {
            let errors = try await Simulation.run(seed: seed) { simulation in
                let (here, there) = (
                    OperationSupervisor(.init(simulation, width: 1)), OperationSupervisor(.init(simulation, width: 1))
                )
                let other = Locked<OperationHandle<Int>?>(nil)
                let first = here.add(
                    Probe { _ in
                        while other.withLock({ $0 }) == nil { await Task.yield() }
                        return try await other.withLock { $0 }?.value ?? 0
                    }
                )
                let second = there.add(Probe { _ in try await first.value })
                other.withLock { $0 = second }
                let results = [await first.result, await second.result]
                return results.map { result in
                    guard case .failure(let error) = result else { return "none" }
                    return (error as? OperationError)?.code.description ?? "\(error)"
                }
            }
            #expect(errors.contains("wouldDeadlock"), "seed \(seed): \(errors)")
        }
    }

    @Test("A child can't depend on an operation that waits for its parent: a dependent, a key's next user, a barrier")
    func children() async throws {
        for kind in ["dependent", "key", "barrier"] {
            let supervisor = OperationSupervisor(width: 4)
            let gate = Gate()
            let blocked = Locked<OperationHandle<Void>?>(nil)
            let parent = supervisor.add(
                Probe<Void> { context in
                    try await gate.wait()
                    guard let blocked = blocked.withLock({ $0 }) else { return }
                    _ = try context.addChild(Probe { _ in }, after: [blocked])
                },
                options: OperationOptions(keys: ["k"])
            )
            let waiting =
                switch kind {
                case "dependent": supervisor.add(Probe<Void> { _ in }, after: [parent.ending])
                case "key": supervisor.add(Probe<Void> { _ in }, options: OperationOptions(keys: ["k"]))
                default: supervisor.addBarrier(Probe<Void> { _ in })
                }
            blocked.withLock { $0 = waiting }
            gate.open()
            let error = await #expect(throws: OperationError.self) { try await parent.value }
            expectDeadlock(error)
            try await supervisor.drain()
        }
    }

    @Test("An ending phase and an operation that await each other: one wait is refused, and both end")
    func endingPhase() async throws {
        for seed in 0..<50 as Range<UInt64> {
            let code = try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 2))
                let (second, refusal) = (Locked<OperationHandle<Void>?>(nil), Locked<(any Error)?>(nil))
                @Sendable func noting(_ body: @Sendable () async throws -> Void) async {
                    do { try await body() } catch { refusal.withLock { $0 = $0 ?? error } }
                }
                let gate = Gate()
                let first = supervisor.add(
                    Ending {
                        try? await gate.wait()
                        await noting { try await second.withLock { $0 }?.value }
                    }
                )
                let other = supervisor.add(Probe<Void> { _ in await noting { try await first.value } })
                second.withLock { $0 = other }
                gate.open()
                try await first.value
                try await other.value
                return (refusal.withLock { $0 } as? OperationError)?.code
            }
            #expect(code == .wouldDeadlock, "seed \(seed)")
        }
    }

    @Test("An operation can't wait for its own supervisor to drain")
    func draining() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let error = await #expect(throws: OperationError.self) {
            try await supervisor.add(Probe { _ in try await supervisor.drain() }).value
        }
        expectDeadlock(error)
    }

    @Test(
        "At width 1, an ending phase can await another operation, and an operation can drain another supervisor"
    )
    func places() async throws {
        let supervisor = OperationSupervisor(.init(width: 1, isSuspended: true))
        let waiting = Locked<OperationHandle<Int>?>(nil)
        let late = Locked(0)
        let first = supervisor.add(
            Ending {
                let value = try? await waiting.withLock { $0 }?.value
                late.withLock { $0 = value ?? -1 }
            }
        )
        waiting.withLock { $0 = supervisor.add(Probe { _ in 7 }) }
        supervisor.isSuspended = false
        try await first.value
        #expect(late.withLock { $0 } == 7)
        #expect(first.state == .finished)

        let other = OperationSupervisor(width: 1)
        let draining = supervisor.add(
            Probe { _ in
                other.add(Probe { _ in try await supervisor.add(Probe { _ in 1 }).value })
                try await other.drain()
            }
        )
        try await draining.value
        #expect(supervisor.runningCount == 0)
    }

    private actor Ending: Operation {
        let phase: @Sendable () async -> Void
        init(_ phase: @escaping @Sendable () async -> Void) { self.phase = phase }

        func main(_ context: OperationContext) async {}
        func operationDidComplete(_ output: Void) async { await phase() }
    }
}
