import Testing

@testable import Operations

@Suite("The scheduler's rules, as a value")
struct SchedulerStateTests {
    private func scheduler(width: Int, isSuspended: Bool = false) -> SchedulerState {
        SchedulerState(width: width, isSuspended: isSuspended)
    }

    @discardableResult
    private func add(
        to scheduler: inout SchedulerState,
        _ priority: OperationPriority = .normal,
        traits: SchedulerState.Traits = [],
        after dependencies: [SchedulerState.Position] = [],
        keys: [ExclusionKey] = [],
        parent: SchedulerState.Position? = nil
    ) -> SchedulerState.Position {
        var addition = SchedulerState.Addition(id: .next())
        addition.priority = priority
        addition.traits = traits
        addition.dependencies = dependencies.map { ($0, .mustSucceed) }
        addition.keys = keys
        addition.parent = parent
        return scheduler.add(addition)
    }

    private func fresh(_ position: SchedulerState.Position) -> SchedulerState.Grant {
        SchedulerState.Grant(position: position, isResumption: false)
    }

    private func resumed(_ position: SchedulerState.Position) -> SchedulerState.Grant {
        SchedulerState.Grant(position: position, isResumption: true)
    }

    private func end(_ position: SchedulerState.Position, of scheduler: inout SchedulerState) {
        _ = scheduler.end(position, succeeded: true)
    }

    @Test("Slots are granted by priority, then by age, and never more than the width")
    func order() {
        var state = scheduler(width: 2)
        let first = add(to: &state)
        let low = add(to: &state, .low)
        let urgent = add(to: &state, .veryHigh)
        let second = add(to: &state)
        #expect(state.grant() == fresh(urgent))
        #expect(state.grant() == fresh(first))
        #expect(state.grant() == nil)
        end(urgent, of: &state)
        #expect(state.grant() == fresh(second))
        end(first, of: &state)
        end(second, of: &state)
        #expect(state.grant() == fresh(low))
        #expect(state.runningCount == 1)
    }

    @Test("An operation is ready when the last of its dependencies has ended")
    func dependencies() {
        var state = scheduler(width: 4)
        let (first, second) = (add(to: &state), add(to: &state))
        let third = add(to: &state, after: [first, second])
        _ = state.grant()
        _ = state.grant()
        #expect(state.grant() == nil)
        end(first, of: &state)
        #expect(state.grant() == nil)
        #expect(state.phase(of: third) == .waiting)
        end(second, of: &state)
        #expect(state.phase(of: third) == .ready)
        #expect(state.grant() == fresh(third))
    }

    @Test("F15: A pause releases the slot, and a resuming operation goes before operations that haven't started")
    func pausing() {
        var state = scheduler(width: 1)
        let positions = (0..<3).map { _ in add(to: &state) }
        #expect(state.grant() == fresh(positions[0]))
        state.pause(positions[0])
        #expect(state.grant() == fresh(positions[1]))
        #expect(state.resume(positions[0]) == true)
        #expect(state.grant() == nil)
        end(positions[1], of: &state)
        #expect(state.grant() == resumed(positions[0]))
        end(positions[0], of: &state)
        #expect(state.grant() == fresh(positions[2]))
    }

    @Test("Suspension and width 0 hold back operations that haven't started, but neither resuming ones nor children")
    func suspension() {
        var state = scheduler(width: 1)
        let first = add(to: &state)
        let second = add(to: &state)
        _ = state.grant()
        state.pause(first)
        state.isSuspended = true
        state.setWidth(0)
        #expect(state.grant() == nil)
        let child = add(to: &state, parent: first)
        #expect(state.grant() == fresh(child))
        end(child, of: &state)
        #expect(state.resume(first) == true)
        #expect(state.grant() == resumed(first))
        end(first, of: &state)
        #expect(state.grant() == nil)
        state.setWidth(3)
        #expect(state.grant() == nil)
        state.isSuspended = false
        #expect(state.grant() == fresh(second))
    }

    @Test("P28: In the background only operations that may continue there are granted")
    func background() {
        var state = scheduler(width: 4)
        let other = add(to: &state, .veryHigh)
        let continuing = add(to: &state, traits: .mayContinueInBackground)
        state.isInBackground = true
        #expect(state.grant() == fresh(continuing))
        #expect(state.grant() == nil)
        state.isInBackground = false
        #expect(state.grant() == fresh(other))
    }

    @Test("The more urgent operation is granted first, whether or not it may continue in the background")
    func backgroundOrder() {
        var state = scheduler(width: 1)
        let continuing = add(to: &state, traits: .mayContinueInBackground)
        let urgent = add(to: &state, .high)
        #expect(state.grant() == fresh(urgent))
        end(urgent, of: &state)
        #expect(state.grant() == fresh(continuing))
    }

    @Test("A withdrawn operation is skipped")
    func withdrawing() {
        var state = scheduler(width: 1)
        let positions = (0..<3).map { _ in add(to: &state) }
        #expect(state.grant() == fresh(positions[0]))
        end(positions[1], of: &state)
        end(positions[0], of: &state)
        #expect(state.grant() == fresh(positions[2]))
    }

    @Test("A withdrawn operation's slot is reused by a later operation, which keeps its own position in the queue")
    func reusedSlot() {
        var state = scheduler(width: 1, isSuspended: true)
        let positions = (0..<3).map { _ in add(to: &state) }
        end(positions[0], of: &state)
        let late = add(to: &state)
        #expect(late == positions[0])
        state.isSuspended = false
        #expect(state.grant() == fresh(positions[1]))
        end(positions[1], of: &state)
        #expect(state.grant() == fresh(positions[2]))
        end(positions[2], of: &state)
        #expect(state.grant() == fresh(late))
    }

    @Test("Every 32nd grant takes the oldest operation, however urgent the others are")
    func ageing() {
        var state = scheduler(width: 1)
        let old = add(to: &state, .veryLow)
        for grant in 1...SchedulerState.ageingInterval {
            let urgent = add(to: &state, .veryHigh)
            let expected = grant == SchedulerState.ageingInterval ? old : urgent
            #expect(state.grant() == fresh(expected))
            end(expected, of: &state)
        }
    }

    @Test("D6: Operations that an urgent one waits for become as urgent, through dependencies and keys")
    func inheritance() {
        var state = scheduler(width: 1, isSuspended: true)
        let rival = add(to: &state)
        let key = add(to: &state, .low, keys: ["document"])
        let dependency = add(to: &state, .veryLow)
        let middle = add(to: &state, .low, after: [dependency])
        let urgent = add(to: &state, .high, after: [middle], keys: ["document"])
        state.isSuspended = false
        for expected in [key, dependency, middle, urgent, rival] {
            #expect(state.grant() == fresh(expected))
            end(expected, of: &state)
        }
    }

    @Test("Operations with a key in common run one at a time, in the order in which they were added")
    func keys() {
        var state = scheduler(width: 4)
        let gate = add(to: &state)
        let first = add(to: &state, after: [gate], keys: ["a"])
        let second = add(to: &state, .veryHigh, keys: ["a", "b"])
        let other = add(to: &state, keys: ["c"])
        // `second` waits for `first`, which keeps its position while it waits for something else.
        #expect(state.grant() == fresh(gate))
        #expect(state.grant() == fresh(other))
        #expect(state.grant() == nil)
        end(gate, of: &state)
        #expect(state.grant() == fresh(first))
        state.pause(first)
        #expect(state.grant() == nil)
        end(first, of: &state)
        #expect(state.grant() == fresh(second))
    }

    @Test("D2: A parent lends its keys to its children while it waits, and resumes when it has them back")
    func lentKeys() {
        var state = scheduler(width: 4)
        let parent = add(to: &state, keys: ["a"])
        let stranger = add(to: &state, keys: ["a"])
        _ = state.grant()
        let child = add(to: &state, keys: ["a"], parent: parent)
        #expect(state.grant() == nil)
        state.pause(parent)
        #expect(state.grant() == fresh(child))
        #expect(state.resume(parent) == true)
        #expect(state.grant() == nil)
        end(child, of: &state)
        #expect(state.grant() == resumed(parent))
        end(parent, of: &state)
        #expect(state.grant() == fresh(stranger))
    }

    @Test("A barrier runs alone: after all earlier operations, before all later ones")
    func barrier() {
        var state = scheduler(width: 4)
        let (first, second) = (add(to: &state), add(to: &state))
        let barrier = add(to: &state, .veryHigh, traits: .isBarrier)
        let after = add(to: &state, .veryHigh)
        let secondBarrier = add(to: &state, traits: .isBarrier)
        let last = add(to: &state)
        #expect(state.grant() == fresh(first))
        #expect(state.grant() == fresh(second))
        #expect(state.grant() == nil)
        end(first, of: &state)
        state.pause(second)
        #expect(state.grant() == nil)
        end(second, of: &state)
        #expect(state.grant() == fresh(barrier))
        #expect(state.grant() == nil)
        end(barrier, of: &state)
        #expect(state.grant() == fresh(after))
        #expect(state.grant() == nil)
        end(after, of: &state)
        #expect(state.grant() == fresh(secondBarrier))
        end(secondBarrier, of: &state)
        #expect(state.grant() == fresh(last))
    }

    @Test("A withdrawn barrier holds nothing up, and a later barrier still waits for all earlier operations")
    func withdrawnBarrier() {
        var state = scheduler(width: 4)
        let first = add(to: &state)
        let barrier = add(to: &state, traits: .isBarrier)
        let second = add(to: &state)
        let laterBarrier = add(to: &state, traits: .isBarrier)
        #expect(state.grant() == fresh(first))
        #expect(state.grant() == nil)
        end(barrier, of: &state)
        #expect(state.grant() == fresh(second))
        end(second, of: &state)
        #expect(state.grant() == nil)
        end(first, of: &state)
        #expect(state.grant() == fresh(laterBarrier))
    }

    @Test("An abandoned operation releases its slot, and keeps its keys until it ends")
    func abandoning() {
        var state = scheduler(width: 1)
        let uncooperative = add(to: &state, keys: ["a"])
        let next = add(to: &state, keys: ["a"])
        _ = state.grant()
        _ = state.abandon(uncooperative)
        #expect(state.runningCount == 0)
        #expect(state.count == 1)
        #expect(state.grant() == nil)
        state.release(uncooperative)
        #expect(state.grant() == fresh(next))
    }
}
