import Testing

@testable import Operations

@Suite("The lifecycle of an operation, as a value")
struct OperationLifecycleTests {
    @Test("P12 P20 P21: the public state shows waiting, ready, executing, paused and the outcome as they happen")
    func theWholeWay() {
        var life = OperationLifecycle()
        #expect(life.publicState(isReady: false) == .waiting)
        #expect(life.publicState(isReady: true) == .ready)
        life.begin()
        #expect(life.publicState(isReady: false) == .executing)
        #expect(life.pause() == true)
        #expect(life.publicState(isReady: false) == .paused)
        #expect(life.resume() == true)
        #expect(life.resume() == false)
        #expect(life.publicState(isReady: false) == .executing)
        life.beginEnding(.finished)
        #expect(life.publicState(isReady: false) == .finished)
        #expect(life.finalOutcome == nil)
        life.end(.finished)
        #expect(life.finalOutcome == .finished)
    }

    @Test("cancelling waiting work withdraws it once")
    func cancelWaiting() {
        var life = OperationLifecycle()
        #expect(life.cancel() == .withdraw)
        #expect(life.cancel() == .nothing)
        life.end(.cancelled)
        #expect(life.publicState(isReady: false) == .cancelled)
    }

    @Test("cancelling running or paused work interrupts it once")
    func cancelRunning() {
        var life = OperationLifecycle()
        life.begin()
        #expect(life.cancel() == .interrupt)
        #expect(life.cancel() == .nothing)
        #expect(life.pause() == true)
        life.beginEnding(.cancelled)
        life.end(.cancelled)
        #expect(life.publicState(isReady: false) == .cancelled)
    }

    @Test("D1: work that finishes in spite of a late cancellation is finished")
    func lateCancel() {
        var life = OperationLifecycle()
        life.begin()
        _ = life.cancel()
        life.beginEnding(.finished)
        #expect(life.cancel() == .nothing)
        life.end(.finished)
        #expect(life.publicState(isReady: false) == .finished)
        #expect(life.cancel() == .nothing)
    }

    @Test("a second pause within a pause has no effect")
    func nestedPause() {
        var life = OperationLifecycle()
        life.begin()
        #expect(life.pause() == true)
        #expect(life.pause() == false)
    }

    @Test("P5: ending twice traps with a message that names both states")
    func endingTwice() async {
        await #expect(processExitsWith: .failure) {
            var life = OperationLifecycle()
            life.end(.cancelled)
            life.end(.finished)
        }
    }
}

@Suite("The progress mailbox, as a value")
struct ProgressMailboxTests {
    @Test("holds the latest value and asks for one pump")
    func latest() {
        var mailbox = ProgressMailbox()
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.1)) == .startPump)
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.2)) == .nothing)
        #expect(mailbox.take()?.fractionCompleted == 0.2)
        #expect(mailbox.take() == nil)
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.3)) == .startPump)
    }

    @Test(
        "D7: a value that falls, exceeds one or isn't a number is never shown",
        arguments: [-1, 0.2, 1, 7, .infinity, .nan]
    )
    func odd(fraction: Double) {
        var mailbox = ProgressMailbox()
        _ = mailbox.report(OperationProgress(fractionCompleted: 0.5))
        _ = mailbox.report(OperationProgress(fractionCompleted: fraction))
        #expect(mailbox.current.fractionCompleted >= 0.5)
        #expect(mailbox.current.fractionCompleted < 1)
    }

    @Test("accepts nothing once it's closed, and shows completion only for finished work")
    func closed() {
        var mailbox = ProgressMailbox()
        _ = mailbox.report(OperationProgress(completedUnitCount: 3, totalUnitCount: 4))
        mailbox.close()
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.9)) == .drop)
        #expect(mailbox.current.fractionCompleted == 0.75)
        mailbox.complete()
        #expect(mailbox.current.fractionCompleted == 1)
        #expect(mailbox.current.completedUnitCount == 4)
    }
}
