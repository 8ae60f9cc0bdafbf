import Testing

@testable import Operations

@Suite("The scheduler's rules, as a value")
struct SchedulerStateTests {
    private let ids = (0..<8).map { _ in OperationID.next() }

    private func scheduler(width: Int, isSuspended: Bool = false) -> SchedulerState {
        SchedulerState(width: width, isSuspended: isSuspended)
    }

    private func add(
        _ id: OperationID,
        to scheduler: inout SchedulerState,
        _ priority: OperationPriority = .normal,
        inBackground: Bool = false,
        after dependencies: [OperationID] = []
    ) {
        _ = scheduler.add(
            id,
            priority: priority,
            mayContinueInBackground: inBackground,
            dependencies: dependencies.map { ($0, .mustSucceed) },
            outstanding: 0
        )
    }

    @Test("grants by priority, then by age, and never more than the width")
    func order() {
        var state = scheduler(width: 2)
        add(ids[0], to: &state)
        add(ids[1], to: &state, .low)
        add(ids[2], to: &state, .veryHigh)
        add(ids[3], to: &state)
        #expect(state.grant() == .fresh(ids[2]))
        #expect(state.grant() == .fresh(ids[0]))
        #expect(state.grant() == nil)
        _ = state.end(ids[2])
        #expect(state.grant() == .fresh(ids[3]))
        _ = state.end(ids[0])
        _ = state.end(ids[3])
        #expect(state.grant() == .fresh(ids[1]))
        #expect(state.runningCount == 1)
    }

    @Test("an operation is ready when the last of its dependencies has ended")
    func dependencies() {
        var state = scheduler(width: 4)
        add(ids[0], to: &state)
        add(ids[1], to: &state)
        add(ids[2], to: &state, after: [ids[0], ids[1]])
        _ = state.grant()
        _ = state.grant()
        #expect(state.grant() == nil)
        #expect(state.end(ids[0]).map(\.id) == [ids[2]])
        #expect(state.dependencyEnded(of: ids[2]) == false)
        #expect(state.end(ids[1]).map(\.id) == [ids[2]])
        #expect(state.dependencyEnded(of: ids[2]) == true)
        #expect(state.grant() == .fresh(ids[2]))
    }

    @Test("F15: a pause gives the place away, and who comes back is served before fresh work")
    func pausing() {
        var state = scheduler(width: 1)
        for id in ids[0...2] { add(id, to: &state) }
        #expect(state.grant() == .fresh(ids[0]))
        state.pause(ids[0])
        #expect(state.grant() == .fresh(ids[1]))
        #expect(state.resume(ids[0]) == true)
        #expect(state.grant() == nil)
        _ = state.end(ids[1])
        #expect(state.grant() == .resumed(ids[0]))
        _ = state.end(ids[0])
        #expect(state.grant() == .fresh(ids[2]))
    }

    @Test("suspension and a width of zero hold fresh work back, not what comes back from a pause")
    func suspension() {
        var state = scheduler(width: 1)
        add(ids[0], to: &state)
        add(ids[1], to: &state)
        _ = state.grant()
        state.pause(ids[0])
        state.isSuspended = true
        state.setWidth(0)
        #expect(state.grant() == nil)
        #expect(state.resume(ids[0]) == true)
        #expect(state.grant() == .resumed(ids[0]))
        _ = state.end(ids[0])
        #expect(state.grant() == nil)
        state.setWidth(3)
        #expect(state.grant() == nil)
        state.isSuspended = false
        #expect(state.grant() == .fresh(ids[1]))
    }

    @Test("P28: in the background only operations that may continue there are granted")
    func background() {
        var state = scheduler(width: 4)
        add(ids[0], to: &state, .veryHigh)
        add(ids[1], to: &state, inBackground: true)
        state.isInBackground = true
        #expect(state.grant() == .fresh(ids[1]))
        #expect(state.grant() == nil)
        state.isInBackground = false
        #expect(state.grant() == .fresh(ids[0]))
    }

    @Test("of both kinds the more urgent is granted first")
    func backgroundOrder() {
        var state = scheduler(width: 1)
        add(ids[0], to: &state, inBackground: true)
        add(ids[1], to: &state, .high)
        #expect(state.grant() == .fresh(ids[1]))
        _ = state.end(ids[1])
        #expect(state.grant() == .fresh(ids[0]))
    }

    @Test("what was withdrawn is passed over; what runs can't be withdrawn")
    func withdrawing() {
        var state = scheduler(width: 1)
        for id in ids[0...2] { add(id, to: &state) }
        #expect(state.grant() == .fresh(ids[0]))
        #expect(state.withdraw(ids[0]) == false)
        #expect(state.withdraw(ids[1]) == true)
        _ = state.end(ids[1])
        _ = state.end(ids[0])
        #expect(state.grant() == .fresh(ids[2]))
    }
}
