import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Endings and cancellations, seen from outside", .timeLimit(.minutes(60)))
struct EndingTests {
    @Test("whenEnded is called once with the result, before or after the end, and then released")
    func results() async throws {
        let journal = Journal()
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let captured = Locked<Journal?>(Journal())
        weak let released = captured.withLock { $0 }
        let number = supervisor.add { _ in 7 }
        number.whenEnded { [journal] result in journal.write("number \((try? result.get()) ?? -1)") }
        let failing = supervisor.add { _ -> Int in throw ProbeError() }
        failing.whenEnded { result in
            if case .failure(let error) = result { journal.write("failing \(error is ProbeError)") }
        }
        let cancelled = supervisor.add { _ in }
        let kept = captured.withLock { $0.take() }
        cancelled.whenEnded { [journal, kept] in
            journal.write("cancelled")
            kept?.write("released")
        }
        #expect(journal.all.isEmpty)
        cancelled.cancel()
        #expect(journal.all == ["cancelled"])
        supervisor.isSuspended = false
        try await supervisor.drain()
        #expect(journal.all.sorted() == ["cancelled", "failing true", "number 7"])
        number.whenEnded { result in journal.write("late \((try? result.get()) ?? -1)") }
        (number as any OperationReference).whenEnded { journal.write("late, without the output") }
        #expect(journal.all.suffix(2) == ["late 7", "late, without the output"])
        _ = consume kept
        #expect(released?.all == nil)
    }

    @Test("In whenEnded, the ending phase is over, and the supervisor can be used")
    func order() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let journal = Journal()
        let gate = Gate()
        let first = supervisor.add(Probe("first", journal) { _ in try await gate.wait() })
        let next = Locked<OperationHandle<Void>?>(nil)
        first.whenEnded {
            journal.write("ended \(first.state)")
            next.withLock { $0 = supervisor.add(after: [first]) { _ in journal.write("next") } }
        }
        gate.open()
        try await supervisor.drain()
        try await next.withLock { $0 }?.value
        #expect(journal.all.suffix(3) == ["first complete over", "ended finished", "next"])
    }

    @Test("A drain waits for an operation that an end handler adds")
    func drainAfterHandler() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                let gate = Gate()
                let next = Locked<OperationHandle<Void>?>(nil)
                let first = supervisor.add { _ in try await gate.wait() }
                first.whenEnded {
                    let handle = supervisor.add { _ in try await simulation.clock.sleep(for: .seconds(1)) }
                    next.withLock { $0 = handle }
                }
                async let drained: Void = supervisor.drain()
                // The clock jumps once the drain waits.
                try await simulation.clock.sleep(for: .seconds(1))
                gate.open()
                try await drained
                #expect(next.withLock { $0 }?.state == .finished)
            }
        }
    }

    @Test("whenEnded is called for joined and for abandoned operations too")
    func joinedAndAbandoned() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let journal = Journal()
        let options = OperationOptions(coalescingKey: "sync")
        let handles = (0..<2).map { _ in supervisor.add(Probe { _ in 3 }, options: options) }
        for (index, handle) in handles.enumerated() {
            handle.whenEnded { result in journal.write("\(index): \((try? result.get()) ?? -1)") }
        }
        handles[0].cancel()
        #expect(journal.all == ["0: -1"])
        supervisor.isSuspended = false
        try await supervisor.drain()
        #expect(journal.all == ["0: -1", "1: 3"])

        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let gate = Gate()
            let stubborn = supervisor.add { _ in await Task.detached { try? await gate.wait() }.value }
            stubborn.whenEnded { journal.write("abandoned \(stubborn.state)") }
            await gate.arrival()
            await supervisor.shutdown(grace: .seconds(1))
            gate.open()
        }
        #expect(journal.all.last == "abandoned failed")
    }

    @Test("The tasks that wait for one operation, or for all, resume in the same order in every run of a seed")
    func resumptionOrder() async throws {
        var orders: Set<[String]> = []
        for _ in 0..<10 {
            let order = try await Simulation.run(seed: 1) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                let (gate, journal) = (Gate(), Journal())
                let operation = supervisor.add { _ in try await gate.wait() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<20 {
                        group.addTask {
                            try await operation.value
                            journal.write("value \(number)")
                        }
                        group.addTask {
                            try await supervisor.drain()
                            journal.write("drain \(number)")
                        }
                    }
                    // The clock jumps once all of them wait.
                    try await simulation.clock.sleep(for: .seconds(1))
                    gate.open()
                    try await group.waitForAll()
                }
                return journal.all
            }
            orders.insert(order)
        }
        #expect(orders.count == 1)
    }

    @Test("A handle that shows the outcome of its coalesced operation keeps it when it is cancelled")
    func cancellingAFinishedHandle() async throws {
        actor Slow: Operation {
            let gate: Gate
            init(_ gate: Gate) { self.gate = gate }
            func main(_ context: OperationContext) async throws {}
            func operationDidComplete(_ output: Void) async { try? await gate.wait() }
        }
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let gate = Gate()
        let options = OperationOptions(coalescingKey: "sync")
        let handles = (0..<2).map { _ in supervisor.add(Slow(gate), options: options) }
        supervisor.isSuspended = false
        await gate.arrival()
        #expect(handles.map(\.state) == [.finished, .finished])
        for handle in handles { handle.cancel() }
        #expect(handles.map(\.state) == [.finished, .finished])
        gate.open()
        for handle in handles { try await handle.value }
        #expect(handles.map(\.isCancellationRequested) == [false, false])
    }

    @Test("A requested cancellation is visible on the handle while the operation still runs")
    func cancellationRequest() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let stubborn = supervisor.add { _ in await Task.detached { try? await gate.wait() }.value }
        await gate.arrival()
        #expect(!stubborn.isCancellationRequested)
        stubborn.cancel()
        #expect(stubborn.isCancellationRequested)
        #expect(!stubborn.isCancelled)
        #expect(stubborn.isExecuting)
        gate.open()
        try await stubborn.value
        #expect(stubborn.state == .finished)
        #expect(stubborn.isCancellationRequested)
        #expect(!stubborn.isCancelled)

        supervisor.isSuspended = true
        let options = OperationOptions(coalescingKey: "sync")
        let handles = (0..<2).map { _ in supervisor.add(Probe { _ in }, options: options) }
        handles[0].cancel()
        #expect(handles.map(\.isCancellationRequested) == [true, false])
        handles[1].cancel()
        #expect(handles.map(\.isCancellationRequested) == [true, true])
    }
}
