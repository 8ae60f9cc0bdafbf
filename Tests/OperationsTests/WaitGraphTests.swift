import Testing

@testable import Operations

@Suite("Who waits for whom")
struct WaitGraphTests {
    @Test("D6: an operation that awaited one that has ended doesn't wait for the next one in its slot, nor lifts it")
    func reusedSlot() {
        var state = SchedulerState(width: 4, isSuspended: false)
        let awaiting = state.add(.init(id: .next()))
        let id = OperationID.next()
        let awaited = Candidate(id, state.add(.init(id: id)))
        _ = state.grant()
        _ = state.grant()
        state.beginAwait(of: awaiting, for: awaited.slot)
        state.pause(awaiting)
        #expect(state.waits(of: awaiting) == [awaited.slot])
        _ = state.end(awaited.slot, succeeded: true)
        let newcomer = state.add(.init(id: .next()))
        #expect(newcomer == awaited.slot)
        #expect(state.waits(of: awaiting).isEmpty, "the newcomer, if it awaited this one, would be refused")
        state.raise(awaiting, to: .veryHigh)
        #expect(state.entries[Int(newcomer)].priority == .normal)
        state.endAwait(of: awaiting, for: awaited)
        #expect(state.relations[awaiting]?.awaited.isEmpty == true)
    }
}
