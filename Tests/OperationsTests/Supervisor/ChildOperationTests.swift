import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Child operations", .timeLimit(.minutes(60)))
struct ChildOperationTests {
    @Test("A parent ends after its children, which run at width 1, while suspended, and beyond the capacity")
    func structured() async throws {
        let supervisor = OperationSupervisor(.init(width: 1, capacity: 1))
        let journal = Journal()
        let parent = supervisor.add(
            Probe("parent", journal) { context in
                supervisor.isSuspended = true
                for name in ["a", "b"] { try context.addChild(Probe(name, journal) { _ in await Task.yield() }) }
            }
        )
        try await parent.value
        #expect(journal.all.last == "parent complete over")
        #expect(journal.all.contains("a complete over") && journal.all.contains("b complete over"))
    }

    @Test("Cancelling an operation cancels its children and their children")
    func cancellation() async throws {
        let supervisor = OperationSupervisor(width: 4)
        let gate = Gate()
        let (grandchild, children) = (Locked<OperationHandle<Void>?>(nil), Locked<OperationHandle<Void>?>(nil))
        let parent = supervisor.add(
            Probe { context in
                let child = try context.addChild(
                    Probe { context in
                        let handle = try context.addChild(Probe { _ in try await gate.wait() })
                        grandchild.withLock { $0 = handle }
                    }
                )
                children.withLock { $0 = child }
            }
        )
        await gate.arrival()
        parent.cancel()
        try await supervisor.drain()
        #expect(children.withLock { $0 }?.state == .finished || children.withLock { $0 }?.state == .cancelled)
        #expect(grandchild.withLock { $0 }?.state == .cancelled)
        #expect(parent.state == .finished || parent.state == .cancelled)
    }

    @Test("A failed main cancels its children; a failed child doesn't fail its parent")
    func failures() async throws {
        let supervisor = OperationSupervisor(width: 4)
        let handles = Locked<[OperationHandle<Void>]>([])
        let failing = supervisor.add(
            Probe { context in
                let child = try context.addChild(Probe { _ in try await Gate().wait() })
                handles.withLock { $0.append(child) }
                throw ProbeError()
            }
        )
        await #expect(throws: ProbeError.self) { try await failing.value as Void }
        #expect(handles.withLock { $0.map(\.state) } == [.cancelled])
        let tolerant = supervisor.add(
            Probe { context in _ = try context.addChild(Probe<Void> { _ in throw ProbeError() }) }
        )
        try await tolerant.value
    }

    @Test("A retry cancels the children of the failed attempt, and waits for their end before the next one")
    func retry() async throws {
        let statesAtRetry = Locked<[OperationState]>([])
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let child = Locked<OperationHandle<Void>?>(nil)
            try await supervisor.add(
                Probe { context in
                    guard context.attempt == 1 else {
                        return statesAtRetry.withLock { $0 = child.withLock { $0.map { [$0.state] } ?? [] } }
                    }
                    let added = try context.addChild(
                        Probe { context in try await context.clock.sleep(for: .seconds(3600)) }
                    )
                    child.withLock { $0 = added }
                    throw ProbeError()
                },
                options: OperationOptions(retry: RetryPolicy(maximumAttempts: 2, initialDelay: .seconds(1)))
            ).value
        }
        #expect(statesAtRetry.withLock { $0 } == [.cancelled])
    }

    @Test("No children are accepted once main has returned")
    func late() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let leaked = Locked<OperationContext?>(nil)
        try await supervisor.add(Probe { context in leaked.withLock { $0 = context } }).value
        let error = #expect(throws: OperationError.self) {
            try leaked.withLock { $0 }?.addChild(Probe { _ in })
        }
        #expect(error?.code == .parentEnded)
    }

    @Test("A child is at least as urgent as its parent and starts before other operations")
    func order() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let journal = Journal()
        let parent = supervisor.add(
            Probe("parent", journal) { context in
                supervisor.add(Probe("urgent", journal) { _ in }, options: OperationOptions(priority: .veryHigh))
                try context.addChild(Probe("child", journal) { _ in }, options: OperationOptions(priority: .veryLow))
            }
        )
        try await parent.value
        try await supervisor.drain()
        #expect(journal.all.filter { $0.hasSuffix("main") } == ["parent main", "child main", "urgent main"])
    }
}
