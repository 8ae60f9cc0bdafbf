import Testing

@testable import Operations

@Suite("The lifecycle of an operation, as a value")
struct OperationLifecycleTests {
    @Test("P12 P20 P21: The public state shows waiting, ready, executing, paused and the outcome as they happen")
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

    @Test("Cancelling waiting work withdraws it once")
    func cancelWaiting() {
        var life = OperationLifecycle()
        #expect(life.cancel() == .withdraw)
        #expect(life.cancel() == .nothing)
        life.end(.cancelled)
        #expect(life.publicState(isReady: false) == .cancelled)
    }

    @Test("Cancelling running or paused work interrupts it once")
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

    @Test("D1: Work that finishes in spite of a late cancellation is finished")
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

    @Test("A second pause within a pause has no effect")
    func nestedPause() {
        var life = OperationLifecycle()
        life.begin()
        #expect(life.pause() == true)
        #expect(life.pause() == false)
    }

    @Test("F16, P5: Ending twice traps")
    func endingTwice() async {
        await #expect(processExitsWith: .failure) {
            var life = OperationLifecycle()
            life.end(.cancelled)
            life.end(.finished)
        }
    }
}

@Suite("The lifecycle of an operation, shared by its run and the scheduler", .timeLimit(.minutes(60)))
struct LifecycleCellTests {
    private typealias Change = @Sendable (inout OperationLifecycle) -> Void

    private static let disturbances: [Change] = [
        { _ = $0.cancel() }, { _ = $0.pause() }, { $0.hasExtras = true }, { _ = $0.abandon() },
    ]

    @Test("The run sets the outcome of an undisturbed operation itself")
    func undisturbed() {
        let cell = LifecycleCell()
        cell.update { $0.begin() }
        let isFinished = cell.finishIfUndisturbed()
        #expect(isFinished)
        var life = cell.value
        #expect(life.publicState(isReady: false) == .finished)
        #expect(life.cancel() == .nothing)
        life.end(.finished)
        #expect(life.finalOutcome == .finished)
    }

    @Test(
        "The run doesn't set the outcome of an operation that is cancelled, paused, abandoned or has extras",
        arguments: disturbances.indices
    )
    func disturbed(index: Int) {
        let cell = LifecycleCell()
        cell.update { $0.begin() }
        cell.update(Self.disturbances[index])
        let former = cell.value.rawValue
        let isFinished = cell.finishIfUndisturbed()
        let current = cell.value.rawValue
        #expect(!isFinished)
        #expect(current == former)
    }

    @Test("Of a cancellation and the end of main at the same time, exactly one is first")
    func race() async {
        final class Shared: Sendable { let cell = LifecycleCell() }
        for _ in 0..<2_000 {
            let shared = Shared()
            shared.cell.update { $0.begin() }
            let cancellation = Task.detached { shared.cell.update { $0.cancel() } }
            let isFinished = shared.cell.finishIfUndisturbed()
            #expect(await cancellation.value == (isFinished ? .nothing : .interrupt))
        }
    }

    @Test("Every state keeps its meaning as a raw value")
    func rawValues() {
        let lives = (UInt8.min...UInt8.max).compactMap { raw in OperationLifecycle(rawValue: raw).map { (raw, $0) } }
        #expect(!lives.isEmpty)
        for (raw, life) in lives { #expect(life.rawValue == raw & 0x7F) }
        #expect(OperationLifecycle(rawValue: 5) == nil)
        #expect(OperationLifecycle(rawValue: 3 << 3) == nil)
    }
}

@Suite("The progress mailbox, as a value")
struct ProgressMailboxTests {
    @Test("The progress mailbox holds the latest value, and starts one pump for several reports")
    func latest() {
        var mailbox = ProgressMailbox()
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.1)) == .startPump)
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.2)) == .nothing)
        #expect(mailbox.take()?.fractionCompleted == 0.2)
        #expect(mailbox.take() == nil)
        #expect(mailbox.report(OperationProgress(fractionCompleted: 0.3)) == .startPump)
    }

    @Test(
        "D7: A progress value that falls, exceeds one or isn't a number is never shown",
        arguments: [-1, 0.2, 1, 7, .infinity, .nan]
    )
    func odd(fraction: Double) {
        var mailbox = ProgressMailbox()
        _ = mailbox.report(OperationProgress(fractionCompleted: 0.5))
        _ = mailbox.report(OperationProgress(fractionCompleted: fraction))
        #expect(mailbox.current.fractionCompleted >= 0.5)
        #expect(mailbox.current.fractionCompleted < 1)
    }

    @Test("A closed progress mailbox accepts nothing, and shows completion only for finished work")
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
