import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Awaiting an operation as a child task", .timeLimit(.minutes(60)))
struct StructuredValueTests {
    @Test("A cancelled wait cancels the operation, and is over when nothing of the operation runs any more")
    func cancelled() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                let (gate, journal) = (Gate(), Journal())
                let handle = supervisor.add(Probe("work", journal) { _ in try await gate.wait() })
                let task = Task { try await handle.structuredValue }
                for _ in 0..<seed % 8 { await Task.yield() }
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
                #expect(handle.isCancelled)
                #expect(handle.error is CancellationError)
                #expect(journal.all.isEmpty || journal.all.last == "work cancel over")
            }
        }
    }

    @Test("A wait that isn't cancelled returns the output, or throws the error that the operation failed with")
    func outcomes() async throws {
        try await Simulation.run(seed: 0) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let finished = supervisor.add(Probe { _ in 7 })
            let first = try await finished.structuredValue
            let second = try await finished.structuredValue
            #expect(first == 7 && second == 7)
            let failed = supervisor.add(Probe<Void> { _ in throw ProbeError() })
            await #expect(throws: ProbeError.self) { try await failed.structuredValue }
        }
    }

    @Test("An operation of a supervisor of width 1 may await another one, which ends before it when it's cancelled")
    func inAnOperation() async throws {
        for seed in 0..<100 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 1))
                let (gate, journal) = (Gate(), Journal())
                let outer = supervisor.add(
                    Probe("outer", journal) { _ in
                        let inner = supervisor.add(Probe("inner", journal) { _ in try await gate.wait() })
                        try await inner.structuredValue
                    }
                )
                await gate.arrival()
                outer.cancel()
                await #expect(throws: CancellationError.self) { try await outer.value }
                #expect(
                    journal.all.suffix(4) == ["inner cancel", "inner cancel over", "outer cancel", "outer cancel over"]
                )
                try await supervisor.drain()
            }
        }
    }

    @Test("A wait that would never end is refused")
    func deadlock() async throws {
        try await Simulation.run(seed: 0) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let own = Locked<OperationHandle<Void>?>(nil)
            let gate = Gate()
            let operation = supervisor.add(
                Probe { _ in
                    try await gate.wait()
                    try await own.withLock { $0 }?.structuredValue
                }
            )
            own.withLock { $0 = operation }
            gate.open()
            let error = await #expect(throws: OperationError.self) { try await operation.value }
            #expect(error?.code == .wouldDeadlock)
        }
    }
}
