import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Dependencies that change after adding", .timeLimit(.minutes(60)))
struct DependenciesLaterTests {
    /// A supervisor that holds its operations back, and another one of which it may depend.
    private let here = OperationSupervisor(.init(width: 1, isSuspended: true))
    private let there = OperationSupervisor(.init(width: 1, isSuspended: true))
    private let journal = Journal()

    @discardableResult
    private func write(_ name: String, _ supervisor: OperationSupervisor? = nil, keys: Set<ExclusionKey> = [])
        -> OperationHandle<Void>
    {
        let options = OperationOptions(name: name, keys: keys)
        return (supervisor ?? here).add(options: options) { [journal] _ in journal.write(name) }
    }

    private func expectRefusal(
        of dependent: OperationHandle<Void>,
        after other: any OperationReference,
        naming names: [String],
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: OperationError.self, sourceLocation: sourceLocation) {
            try dependent.addDependency(other)
        }
        #expect(error?.code == .wouldDeadlock, sourceLocation: sourceLocation)
        for name in names {
            #expect(error?.description.contains(name) == true, "\(error as Any)", sourceLocation: sourceLocation)
        }
    }

    @Test("A dependency on an operation that was added later holds an operation back until that one has ended")
    func newer() async throws {
        let (first, second) = (write("first"), write("second"))
        try first.addDependency(second)
        #expect(first.state == .waiting)
        #expect(first.dependencies.map(\.id) == [second.id])
        #expect("\(first.explain())".contains("it waits for second"))
        here.isSuspended = false
        try await first.value
        #expect(journal.all == ["second", "first"])
        #expect(first.dependencies.isEmpty)
    }

    @Test("A dependency that is removed holds nothing back, whatever its policy and supervisor")
    func removal() async throws {
        let (first, second, foreign) = (write("first"), write("second"), write("foreign", there))
        let dependent = here.add(after: [first, first.ending, second.ending, foreign]) { [journal] _ in
            journal.write("dependent")
        }
        #expect(dependent.dependencies.map(\.id) == [first.id, first.id, second.id, foreign.id])
        #expect(dependent.dependencies.contains { $0.policy == .ending })
        dependent.removeDependency(first)
        dependent.removeDependency(foreign)
        #expect(dependent.dependencies.map(\.id) == [second.id])
        // Removing a dependency that doesn't exist changes nothing.
        dependent.removeDependency(first)
        second.removeDependency(dependent)
        #expect(dependent.state == .waiting)
        dependent.removeDependency(second)
        #expect(dependent.state == .ready)
        here.isSuspended = false
        try await dependent.value
        #expect(!journal.all.contains("foreign"))
        there.isSuspended = false
        try await foreign.value
        // It is too late now.
        dependent.removeDependency(second)
    }

    @Test("The operations whose outputs an operation needs remain its dependencies")
    func inputs() async throws {
        let (number, foreign) = (here.add { _ in 1 }, there.add { _ in 2 })
        let next = number.then { number, _ in number + 1 }
        let sum = here.combine(number, foreign) { one, other in Probe { _ in one + other } }
        next.removeDependency(number)
        sum.removeDependency(number)
        sum.removeDependency(foreign)
        #expect(next.dependencies.map(\.id) == [number.id])
        #expect(sum.dependencies.map(\.id) == [number.id, foreign.id])
        here.isSuspended = false
        there.isSuspended = false
        #expect(try await next.value == 2)
        #expect(try await sum.value == 3)
    }

    @Test("An operation of another supervisor can become a dependency, be removed, and be added again")
    func acrossSupervisors() async throws {
        let (first, foreign) = (write("first"), write("foreign", there))
        try first.addDependency(foreign)
        first.removeDependency(foreign)
        #expect(first.state == .ready)
        try first.addDependency(foreign.ending)
        try first.addDependency(foreign)
        here.isSuspended = false
        #expect(first.state == .waiting)
        there.isSuspended = false
        try await first.value
        #expect(journal.all == ["foreign", "first"])
    }

    @Test(
        "A dependency that has failed or was cancelled ends the operation as after: does, unless only its end matters"
    )
    func endedDependencies() async throws {
        for supervisor in [here, there] {
            supervisor.isSuspended = false
            let failed = supervisor.add { _ in throw ProbeError(name: "root cause") }
            _ = await failed.result
            let cancelled = supervisor.add { _ in throw CancellationError() }
            _ = await cancelled.result
            let finished = supervisor.add { _ in }
            try await finished.value
            here.isSuspended = true
            let handles = (0..<4).map { write("\($0)") }
            try handles[0].addDependency(failed)
            try handles[1].addDependency(cancelled)
            for ending in [failed.ending, cancelled.ending, finished.dependency] {
                try handles[2].addDependency(ending)
            }
            try handles[3].addDependency(handles[0].ending)
            #expect(handles.map(\.state) == [.failed, .cancelled, .ready, .ready])
            #expect(handles[0].error as? ProbeError == ProbeError(name: "root cause"))
        }
    }

    @Test("An operation that has started or ended accepts no dependencies, and its handle says so")
    func started() async throws {
        let gate = Gate()
        let running = here.add { _ in try await gate.wait() }
        let other = write("other", there)
        here.isSuspended = false
        await gate.arrival()
        for _ in 0..<2 {
            let error = #expect(throws: OperationError.self) { try running.addDependency(other) }
            #expect(error?.code == .alreadyStarted)
            gate.open()
            try await running.value
        }
    }

    @Test(
        "A cycle is refused, and the error names its operations: through dependencies, keys, barriers and supervisors"
    )
    func cycles() throws {
        let (egg, hen) = (write("egg"), write("hen"))
        expectRefusal(of: egg, after: egg, naming: ["egg"])
        try hen.addDependency(egg)
        expectRefusal(of: egg, after: hen, naming: ["egg", "hen"])
        expectRefusal(of: egg, after: hen.ending, naming: ["egg", "hen"])

        let (foreign, farm) = (write("foreign", there), write("farm", there))
        try foreign.addDependency(hen)
        try farm.addDependency(foreign.ending)
        expectRefusal(of: egg, after: farm, naming: ["egg", "hen", "foreign", "farm"])

        let (first, second) = (write("first", keys: ["k"]), write("second", keys: ["k"]))
        expectRefusal(of: first, after: second, naming: ["first", "second"])
        here.addBarrier(options: OperationOptions(name: "barrier")) { _ in }
        expectRefusal(of: hen, after: write("late"), naming: ["hen", "barrier", "late"])

        // A removed dependency closes no cycle.
        hen.removeDependency(egg)
        try egg.addDependency(hen)
        here.cancelAll()
        there.cancelAll()
    }

    @Test("cancelAll starts no operation that waits for the end of a newer one")
    func cancelledTogether() async throws {
        let foreign = write("foreign", there)
        let (older, newer) = (write("older"), write("newer"))
        try newer.addDependency(foreign)
        try older.addDependency(newer.ending)
        here.isSuspended = false
        let events = older.events
        here.cancelAll()
        try await here.drain()
        for await event in events {
            if case .started = event { Issue.record("it was started") }
        }
        #expect(older.state == .cancelled && newer.state == .cancelled)
        // The supervisor starts what is added later.
        try await write("later").value
        there.cancelAll()
        #expect(journal.all == ["later"])
    }

    @Test("An operation can't depend on one whose main awaits it")
    func awaited() async throws {
        here.width = 2
        let target = write("target")
        let awaiting = there.add { _ in try await target.value }
        there.isSuspended = false
        for await event in awaiting.events { if case .paused = event { break } }
        expectRefusal(of: target, after: awaiting, naming: ["target"])
        here.isSuspended = false
        try await awaiting.value
    }

    @Test("A later dependency becomes as urgent as its dependent, also in another supervisor")
    func priority() async throws {
        write("usual")
        write("usual there", there)
        let low = here.add(options: OperationOptions(priority: .low)) { [journal] _ in journal.write("low") }
        let foreign = there.add(options: OperationOptions(priority: .low)) { [journal] _ in journal.write("foreign") }
        let urgent = here.add(options: OperationOptions(priority: .high)) { _ in }
        try urgent.addDependency(low)
        try urgent.addDependency(foreign)
        there.isSuspended = false
        try await there.drain()
        #expect(journal.all == ["foreign", "usual there"])
        here.isSuspended = false
        try await here.drain()
        #expect(journal.all == ["foreign", "usual there", "low", "usual"])
    }

    @Test("Operations that coalescing made one have their dependencies in common")
    func joined() async throws {
        let options = OperationOptions(coalescingKey: "sync")
        let handles = (0..<2).map { _ in here.add(Probe("sync", journal) { _ in }, options: options) }
        let other = write("other")
        try handles[1].addDependency(other)
        #expect(handles.map { $0.dependencies.map(\.id) } == [[other.id], [other.id]])
        #expect(handles[0].state == .waiting)
        expectRefusal(of: other, after: handles[0], naming: ["other"])
        handles[0].removeDependency(other)
        #expect(handles[1].state == .ready)
        try handles[0].addDependency(other)
        here.isSuspended = false
        try await here.drain()
        #expect(journal.all.first == "other")
        #expect(handles.map(\.state) == [.finished, .finished])
    }

    @Test("A chain of 10,000 operations is linked in either direction without a search at each link")
    func chains() async throws {
        let handles = (0..<10_000).map { _ in here.add { _ in } }
        for (former, next) in zip(handles, handles.dropFirst()) { try next.addDependency(former) }
        expectRefusal(of: handles[0], after: handles[9_999], naming: [])
        let reversed = (0..<10_000).map { _ in here.add { _ in } }
        for (former, next) in zip(reversed, reversed.dropFirst()) { try former.addDependency(next) }
        expectRefusal(of: reversed[9_999], after: reversed[0], naming: [])
        here.isSuspended = false
        try await here.drain()
        #expect((handles + reversed).allSatisfy { $0.state == .finished })
    }
}
