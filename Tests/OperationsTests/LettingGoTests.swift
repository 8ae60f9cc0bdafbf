import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

/// An object in an operation's user info, to see whether the record is kept alive.
private final class Payload: Sendable {}

/// The numbers of objects that a record keeps for others.
extension OperationHandle {
    fileprivate var listenerCount: Int { record.core.withBoard { _ in record.extras?.listeners.count ?? 0 } }
    fileprivate var foreignDependentCount: Int {
        record.core.withBoard { _ in record.extras?.foreignDependents.count ?? 0 }
    }
    fileprivate var foreignDependencyCount: Int {
        record.core.withBoard { _ in record.extras?.foreignDependencies.count ?? 0 }
    }
}

@Suite("A running operation keeps nothing for former listeners and dependents", .timeLimit(.minutes(60)))
struct LettingGoTests {
    /// Runs `body` with an operation that runs until `body` returns.
    private func withRunningOperation(
        seed: UInt64 = 0,
        _ body: @escaping @Sendable (Simulation, OperationSupervisor, OperationHandle<Void>) async throws -> Void
    ) async throws {
        try await Simulation.run(seed: seed) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let gate = Gate()
            let running = supervisor.add(
                Probe { context in
                    context.reportProgress(0.5)
                    try await gate.wait()
                }
            )
            await gate.arrival()
            try await body(simulation, supervisor, running)
            gate.open()
            try await running.value
        }
    }

    // MARK: Events

    @Test("A loop over events that breaks releases its listener")
    func breaking() async throws {
        try await withRunningOperation { _, _, running in
            for _ in 0..<10 {
                for await event in running.events {
                    #expect(event == .started)
                    #expect(running.listenerCount == 1)
                    break
                }
            }
            #expect(running.listenerCount == 0)
        }
    }

    @Test("A cancelled task that reads events releases its listener")
    func cancelledReader() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await withRunningOperation(seed: seed) { _, _, running in
                let reader = Task {
                    for await _ in running.events {}
                }
                await Task.yield()
                reader.cancel()
                await reader.value
                #expect(running.listenerCount == 0)
            }
        }
    }

    @Test("Releasing unread events releases their listener, and other listeners get the end")
    func dropped() async throws {
        let events = Locked<AsyncStream<OperationEvent>?>(nil)
        try await withRunningOperation { _, _, running in
            let kept = running.events
            events.withLock { $0 = kept }
            do {
                var iterator = running.events.makeAsyncIterator()
                #expect(await iterator.next() == .started)
                #expect(running.listenerCount == 2)
            }
            _ = running.events
            #expect(running.listenerCount == 1)
        }
        let kept = try #require(events.withLock { $0 })
        #expect(await kept.reduce(into: []) { $0.append($1) } == [.started, .ended(.finished)])
    }

    @Test("Reading events to the end releases their listener")
    func readToTheEnd() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let handle = OperationSupervisor(.init(simulation)).add(Probe { _ in await Task.yield() })
                for await _ in handle.events {}
                #expect(handle.listenerCount == 0)
            }
        }
    }

    @Test("The events of a joined handle release their listener in the handle and in the operation")
    func joinedEvents() async throws {
        try await Simulation.run(seed: 0) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
            let options = OperationOptions(coalescingKey: "same")
            let first = supervisor.add(Probe { _ in }, options: options)
            let second = supervisor.add(Probe { _ in }, options: options)
            let target = try #require(first.record.extras?.target)
            let count = { target.core.withBoard { _ in target.extras?.listeners.count ?? 0 } }
            let events = first.events
            do { _ = second.events }
            #expect(second.listenerCount == 0)
            #expect(count() == 1)
            // The cancelled handle gets its own end, and the operation forgets its listener.
            first.cancel()
            #expect(await events.reduce(into: []) { $0.append($1) } == [.ended(.cancelled)])
            #expect(count() == 0)
            supervisor.isSuspended = false
            try await second.value
        }
    }

    // MARK: Dependents in other supervisors

    @Test("Dependents in another supervisor that are cancelled are forgotten", arguments: [false, true])
    func cancelledDependents(newestFirst: Bool) async throws {
        try await withRunningOperation { simulation, _, running in
            let other = OperationSupervisor(.init(simulation))
            var references: [() -> Payload?] = []
            for _ in 0..<10 {
                let payload = Payload()
                references.append { [weak payload] in payload }
                other.add(
                    Probe { _ in },
                    after: [running, running.ending],
                    options: OperationOptions(userInfo: ["payload": payload])
                )
            }
            #expect(references.allSatisfy { $0() != nil })
            if newestFirst {
                other.cancelAll()
            } else {
                for operation in other.operations { operation.cancel() }
            }
            try await other.drain()
            #expect(running.foreignDependentCount == 0)
            #expect(references.allSatisfy { $0() == nil })
        }
    }

    @Test("Dependents that end with their suspended supervisor are forgotten")
    func releasedSupervisor() async throws {
        try await withRunningOperation { simulation, _, running in
            do {
                let other = OperationSupervisor(.init(simulation, isSuspended: true))
                for _ in 0..<10 { other.add(Probe { _ in }, after: [running]) }
                #expect(running.foreignDependentCount == 10)
            }
            #expect(running.foreignDependentCount == 0)
        }
    }

    @Test("A dependent that fails with one dependency is forgotten by the others")
    func failedDependent() async throws {
        try await withRunningOperation { simulation, supervisor, running in
            let failing = supervisor.add(Probe { _ in throw ProbeError() })
            let dependent = OperationSupervisor(.init(simulation)).add(Probe { _ in }, after: [running, failing])
            await #expect(throws: ProbeError.self) { try await dependent.value }
            #expect(running.foreignDependentCount == 0)
        }
    }

    @Test("A dependent that is cancelled while it is added is forgotten")
    func cancelledWhileAdded() async throws {
        // Real threads, because a simulation can't run anything between the two supervisors' locks.
        let (gate, supervisor, other) = (Gate(), OperationSupervisor(), OperationSupervisor())
        let running = supervisor.add(Probe { _ in try await gate.wait() })
        await gate.arrival()
        await withTaskGroup { group in
            for _ in 0..<2 {
                group.addTask(executorPreference: BlockingExecutor.shared) {
                    for _ in 0..<2000 {
                        other.add(Probe { _ in }, after: [running])
                        other.cancelAll()
                    }
                }
            }
        }
        #expect(running.foreignDependentCount == 0)
        #expect(supervisor.operations.count == 1, "the operation still runs")
        gate.open()
        try await running.value
    }

    @Test("A dependent that still waits releases dependencies that have ended, and its explanation omits them")
    func endedDependencies() async throws {
        try await withRunningOperation { simulation, supervisor, running in
            let other = OperationSupervisor(.init(simulation))
            let short = supervisor.add(Probe { _ in })
            let dependent = other.add(Probe { _ in }, after: [short, short.ending, running])
            #expect(dependent.foreignDependencyCount == 3)
            try await supervisor.add(Probe { _ in }, after: [short]).value
            #expect(dependent.foreignDependencyCount == 1)
            #expect(dependent.explain().reasons.count == 1)
            dependent.cancel()
        }
    }
}
