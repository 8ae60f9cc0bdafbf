import Testing

@testable import Operations

@Suite("The graph of waits")
struct WaitGraphTests {
    @Test("D6: When an awaited operation has ended, the next operation in its slot is neither awaited nor raised")
    func reusedSlot() {
        var state = SchedulerState(width: 4, isSuspended: false)
        let awaiting = state.add(.init(id: .next()))
        let id = OperationID.next()
        let awaited = QueueEntry(id, state.add(.init(id: id)))
        _ = state.grant()
        _ = state.grant()
        state.beginAwait(of: awaiting, for: awaited.position)
        state.pause(awaiting)
        #expect(state.waits(of: awaiting) == [awaited.position])
        _ = state.end(awaited.position, succeeded: true)
        let added = state.add(.init(id: .next()))
        #expect(added == awaited.position)
        #expect(state.waits(of: awaiting).isEmpty, "the new operation would be refused if it awaited this one")
        state.raise(awaiting, to: .veryHigh)
        #expect(state.entries[Int(added)].priority == .normal)
        state.endAwait(of: awaiting, for: awaited)
        #expect(state.relations[awaiting]?.awaited.isEmpty == true)
    }
}
