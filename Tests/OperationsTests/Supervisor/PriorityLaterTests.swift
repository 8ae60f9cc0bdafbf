import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Priorities that change after adding", .timeLimit(.minutes(60)))
struct PriorityLaterTests {
    private let supervisor = OperationSupervisor(.init(width: 1, isSuspended: true))
    private let journal = Journal()

    @discardableResult
    private func add(_ name: String, _ priority: OperationPriority = .normal, after: [any OperationReference] = [])
        -> OperationHandle<Void>
    {
        supervisor.add(after: after, options: OperationOptions(name: name, priority: priority)) { [journal] _ in
            journal.write(name)
        }
    }

    private func order() async throws -> [String] {
        supervisor.isSuspended = false
        try await supervisor.drain()
        return journal.all
    }

    @Test("An operation whose priority is changed while it waits starts by its new priority")
    func changes() async throws {
        let (first, second, third) = (add("first"), add("second"), add("third"))
        first.priority = .low
        third.priority = .high
        #expect([first, second, third].map(\.priority) == [.low, .normal, .high])
        // Back and forth: only the last priority counts.
        let reference: any OperationReference = second
        for priority in [OperationPriority.veryHigh, .veryLow, .high, .veryLow] { reference.priority = priority }
        #expect(try await order() == ["third", "first", "second"])
        // It is too late now, and does no harm.
        first.priority = .high
        #expect(first.priority == .high)
    }

    @Test(
        "An operation for which an urgent one waits stays urgent, whatever its own priority, until it is needed no more"
    )
    func inherited() async throws {
        let needed = add("needed")
        add("usual")
        let urgent = add("urgent", .high, after: [needed])
        needed.priority = .veryLow
        #expect(needed.priority == .veryLow)
        #expect(supervisor.core.withBoard { $0.scheduler.entries[Int(needed.record.position)].priority } == .high)
        urgent.removeDependency(needed)
        // Inherited priorities stay until the priority is set again.
        needed.priority = .veryLow
        #expect(try await order() == ["urgent", "usual", "needed"])
    }

    @Test("What an operation waits for becomes as urgent with it, also in another supervisor, and stays so")
    func dependencies() async throws {
        let other = OperationSupervisor(.init(width: 1, isSuspended: true))
        other.add { [journal] _ in journal.write("other usual") }
        let foreign = other.add { [journal] _ in journal.write("foreign") }
        add("usual")
        let needed = add("needed")
        let dependent = add("dependent", after: [needed, foreign])
        dependent.priority = .veryHigh
        dependent.priority = .low
        foreign.priority = .veryLow
        needed.priority = .high
        other.isSuspended = false
        try await other.drain()
        #expect(try await order() == ["foreign", "other usual", "needed", "usual", "dependent"])
    }

    @Test("A coalesced operation is as urgent as its most urgent handle, and any handle changes it")
    func coalesced() async throws {
        func join(_ priority: OperationPriority) -> OperationHandle<Void> {
            let options = OperationOptions(priority: priority, coalescingKey: "sync")
            return supervisor.add(Probe("sync", journal) { _ in }, options: options)
        }
        let handles = [join(.low), join(.veryLow)]
        #expect(handles.map(\.priority) == [.low, .low])
        let usual = add("usual")
        #expect(join(.high).priority == .high)
        handles[1].priority = .low
        #expect(handles[0].priority == .low)
        #expect(try await order().first == "usual")
        #expect(usual.state == .finished)
    }
}
