import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Corner cases of the supervisor", .timeLimit(.minutes(60)))
struct SupervisorCornersTests {
    /// Runs `body` to its end even if the current task is cancelled.
    private static func ignoringCancellation(_ simulation: Simulation, _ body: @escaping @Sendable () async -> Void)
        async
    {
        await Task.detached(executorPreference: simulation.executor, operation: body).value
    }

    @Test("An operation without options ends after its children too")
    func childrenOfPlainParent() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                let journal = Journal()
                let parent = Probe("parent", journal) { context in
                    _ = try context.addChild(
                        Probe("child", journal) { _ in
                            for _ in 0..<10 { await Task.yield() }
                        }
                    )
                }
                try await supervisor.add(parent).value
                #expect(journal.all.last == "parent complete over")
                #expect(journal.all.contains("child complete over"))
            }
        }
    }

    @Test("A parent that is abandoned while it waits for a child that ignores cancellation is released after both end")
    func writtenOffParent() async throws {
        let traces = Traces()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let (started, gate) = (Gate(), Gate())
            let uncooperative = Probe { _ in
                started.open()
                await Self.ignoringCancellation(simulation) { try? await gate.wait() }
            }
            traces.follow(uncooperative)
            let mother = Probe { context in _ = try context.addChild(uncooperative) }
            traces.follow(mother)
            supervisor.add(mother)
            try await started.wait()
            let abandoned = await supervisor.shutdown(grace: .seconds(1))
            #expect(abandoned.map(\.state) == [.failed, .failed])
            gate.open()
        }
        #expect(traces.left.isEmpty)
    }

    @Test("D9: Failures after the supervisor was released don't suspend it, because no caller could resume it")
    func failuresAfterRelease() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let gate = Gate()
            let next: OperationHandle<Int>
            do {
                var configuration = OperationSupervisor.Configuration(simulation, width: 1)
                configuration.restartIntensity = RestartIntensity(maximumFailures: 0, period: .seconds(10))
                let supervisor = OperationSupervisor(configuration)
                supervisor.add(
                    Probe<Void> { _ in
                        try await gate.wait()
                        throw ProbeError()
                    }
                )
                next = supervisor.add(Probe { _ in 7 })
                await gate.arrival()
            }
            gate.open()
            let value = try await next.value
            #expect(value == 7)
        }
    }

    /// How a supervisor holds operations back.
    enum Hold: CaseIterable {
        case suspension, width, background
    }

    @Test("What is added with `then` after the release fails at once if it would never start", arguments: Hold.allCases)
    func thenAfterRelease(hold: Hold) async throws {
        try await Simulation.run(seed: 1) { simulation in
            let gate = Gate()
            let running: OperationHandle<Int>
            do {
                let supervisor = OperationSupervisor(.init(simulation))
                running = supervisor.add(
                    Probe { _ in
                        try await gate.wait()
                        return 7
                    }
                )
                await gate.arrival()
                switch hold {
                case .suspension: supervisor.isSuspended = true
                case .width: supervisor.width = 0
                case .background: await supervisor.enterBackground(grace: .seconds(30))
                }
            }
            let next = running.then { number in Probe { _ in number } }
            let options = OperationOptions(mayContinueInBackground: true)
            let continuing = running.then(options: options) { number in Probe { _ in number } }
            #expect((next.error as? OperationError)?.code == .shutDown)
            gate.open()
            let value = try await running.value
            #expect(value == 7)
            guard hold != .background else {
                #expect(try await continuing.value == 7)
                return
            }
            #expect((continuing.error as? OperationError)?.code == .shutDown)
        }
    }

    @Test("D9: Failures during a shutdown don't cut its grace period short")
    func failuresInShutdown() async throws {
        try await Simulation.run(seed: 1) { simulation in
            var configuration = OperationSupervisor.Configuration(simulation)
            configuration.restartIntensity = RestartIntensity(maximumFailures: 0, period: .seconds(10))
            let supervisor = OperationSupervisor(configuration)
            let clock = simulation.clock
            let (fails, slow) = (Gate(), Gate())
            supervisor.add(
                Probe<Void> { _ in
                    fails.open()
                    try? await clock.sleep(for: .seconds(100))
                    throw ProbeError()
                }
            )
            supervisor.add(
                Probe {
                    _ in
                    slow.open()
                    await Self.ignoringCancellation(simulation) { try? await clock.sleep(for: .seconds(1)) }
                }
            )
            try await fails.wait()
            try await slow.wait()
            let abandoned = await supervisor.shutdown(grace: .seconds(10))
            #expect(abandoned.isEmpty)
        }
    }

    @Test("A shutdown lists a coalesced operation that ignores cancellation, and the handle that has joined it")
    func abandonedCoalesced() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let (started, gate) = (Gate(), Gate())
            let id = Locked<OperationID?>(nil)
            let handle = supervisor.add(
                Probe { context in
                    id.withLock { $0 = context.id }
                    started.open()
                    await Self.ignoringCancellation(simulation) { try? await gate.wait() }
                },
                options: OperationOptions(coalescingKey: "sync")
            )
            try await started.wait()
            let abandoned = await supervisor.shutdown(grace: .seconds(1))
            #expect(abandoned.map(\.id) == [id.withLock { $0 }, handle.id])
            #expect((handle.error as? OperationError)?.code == .abandoned)
            gate.open()
        }
    }

    @Test("D5: When an operation ends as it is added, its room goes to the next caller that waits")
    func roomOfWhatNeverRan() async throws {
        try await Simulation.run(seed: 1) { simulation in
            var configuration = OperationSupervisor.Configuration(simulation)
            configuration.capacity = 1
            let supervisor = OperationSupervisor(configuration)
            let failed = supervisor.add(Probe<Void> { _ in throw ProbeError() })
            _ = await failed.result
            let gate = Gate()
            supervisor.add(Probe { _ in try await gate.wait() })
            async let first = supervisor.addWhenRoom(Probe { _ in }, after: [failed])
            for _ in 0..<20 { await Task.yield() }
            async let second = supervisor.addWhenRoom(Probe { _ in 2 })
            for _ in 0..<20 { await Task.yield() }
            gate.open()
            let state = try await first.state
            #expect(state == .failed)
            let value = try await second.value
            #expect(value == 2)
        }
    }

    @Test("When one of two operations of the same coalescing key starts, the other can still be joined")
    func joiningTheLater() async throws {
        let supervisor = OperationSupervisor(.init(width: 1, isSuspended: true))
        let runs = Locked(0)
        let started = Gate()
        let gate = Gate()
        let add = {
            supervisor.add(
                Probe { _ in
                    runs.withLock { $0 += 1 }
                    started.open()
                    try await gate.wait()
                },
                options: OperationOptions(coalescingKey: "sync")
            )
        }
        _ = add()
        supervisor.addBarrier(Probe { _ in })
        // It can't join the first operation, because of the barrier between them.
        _ = add()
        supervisor.isSuspended = false
        try await started.wait()
        _ = add()
        gate.open()
        try await supervisor.drain()
        #expect(runs.withLock { $0 } == 2)
    }

    private final class Token: Sendable {}
    @TaskLocal private static var token: Token?

    @Test("A child that is refused leaves no task of its own behind")
    func refusedChild() async throws {
        let traces = Traces()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let parent = supervisor.add(
                Probe { context in
                    let mark = Token()
                    traces.follow(mark)
                    Self.$token.withValue(mark) {
                        let options = OperationOptions(keys: ["other"], inheritsTaskLocals: true)
                        #expect(throws: OperationError.self) { try context.addChild(Probe { _ in }, options: options) }
                    }
                }
            )
            try await parent.value
        }
        #expect(traces.left.isEmpty)
    }

    @Test("An operation with a coalescing key inherits the caller's task-local values too, if its options say so")
    func taskLocalsOfJoined() async throws {
        let traces = Traces()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
            let mark = Token()
            traces.follow(mark)
            let options = OperationOptions(coalescingKey: "sync", inheritsTaskLocals: true)
            let handles = Self.$token.withValue(mark) {
                (0..<2).map { _ in supervisor.add(Probe { _ in Self.token != nil }, options: options) }
            }
            supervisor.isSuspended = false
            for handle in handles {
                let seesToken = try await handle.value
                #expect(seesToken)
            }
        }
        #expect(traces.left.isEmpty)
    }

    @Test(
        "cancelAll and shutdown start no operation that only waited for the end of a cancelled one",
        arguments: [false, true]
    )
    func cancellingAll(shutsDown: Bool) async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let journal = Journal()
            let started = Gate()
            supervisor.add(
                Probe { _ in
                    started.open()
                    try await Gate().wait()
                },
                options: OperationOptions(keys: ["a"])
            )
            let waiting = supervisor.add(Probe { _ in }, options: OperationOptions(keys: ["a"]))
            supervisor.add(Probe("dependent", journal) { _ in }, after: [waiting.ending])
            try await started.wait()
            if shutsDown { await supervisor.shutdown(grace: .seconds(1)) } else { supervisor.cancelAll() }
            try await supervisor.drain()
            #expect(journal.all.isEmpty)
        }
    }

    @Test("D6: Raising an operation raises the operation of another supervisor that it awaits")
    func liftingAwaitedForeigner() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let here = OperationSupervisor(.init(simulation))
            let there = OperationSupervisor(.init(simulation, isSuspended: true))
            let awaited = there.add(Probe { _ in })
            let awaiting = here.add(Probe { _ in try await awaited.value })
            while !awaiting.isPaused { await Task.yield() }
            here.add(Probe { _ in }, after: [awaiting], options: OperationOptions(priority: .veryHigh))
            let record = awaited.record
            #expect(record.core.withBoard { $0.scheduler.entries[Int(record.position)].priority } == .veryHigh)
            there.isSuspended = false
            try await here.drain()
        }
    }

    @Test("D5: A task that outlives main and waits for the operation's slot resumes when the operation has ended")
    func outlivingTask() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, width: 1))
                let (answer, other) = (Gate(), Gate())
                let outliving = Locked<Task<Void, any Error>?>(nil)
                let first = supervisor.add(
                    Probe { context in
                        let task = Task(executorPreference: simulation.executor) {
                            try await context.pause(awaiting: "an answer") { try await answer.wait() }
                        }
                        outliving.withLock { $0 = task }
                        await answer.arrival()
                        answer.open()
                        for _ in 0..<50 { await Task.yield() }
                    }
                )
                supervisor.add(Probe { _ in try await other.wait() })
                try await first.value
                try await outliving.withLock { $0 }?.value
                other.open()
                try await supervisor.drain()
            }
        }
    }

    @Test("A waiting operation is cancelled instead of abandoned, and doesn't count as abandoned")
    func writtenOffWhileWaiting() async {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let handle = supervisor.add(Probe { _ in })
        let isAbandoned = handle.record.core.withBoard { $0.abandon(handle.record) }
        #expect(!isAbandoned && handle.state == .cancelled)
        _ = await handle.result
    }

    @Test("Cancelling the last joined handle cancels the operation before another one can join it")
    func cancellingTheLastJoined() {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let handle = supervisor.add(Probe { _ in }, options: OperationOptions(coalescingKey: "sync"))
        let isCancelled = handle.record.core.withBoard { board in
            let target = handle.record.extras?.target
            board.cancel(handle.record, because: nil)
            return target?.lifecycle.isCancellationRequested
        }
        #expect(isCancelled == true)
        #expect(handle.state == .cancelled)
    }

    @Test("An operation that is refused releases its factory closure, while its handle still exists")
    func refusedFactory() {
        let traces = Traces()
        var configuration = OperationSupervisor.Configuration()
        (configuration.capacity, configuration.isSuspended) = (1, true)
        let supervisor = OperationSupervisor(configuration)
        supervisor.add(Probe { _ in })
        let add = {
            let mark = Token()
            traces.follow(mark)
            return supervisor.add { Probe { _ in withExtendedLifetime(mark) {} } }
        }
        let handle = add()
        #expect(handle.state == .failed)
        #expect(traces.left.isEmpty)
    }

    @Test("D7: Progress doesn't fall when an operation ends, with any outcome", arguments: [false, true])
    func progressAfterTheEnd(fails: Bool) async throws {
        let supervisor = OperationSupervisor()
        let handle = supervisor.add(
            Probe { context in
                context.reportProgress(OperationProgress(completedUnitCount: 3, totalUnitCount: 4, phase: "copying"))
                if fails { throw ProbeError() }
            }
        )
        _ = await handle.result
        #expect(handle.progress.fractionCompleted == (fails ? 0.75 : 1))
        #expect(handle.progress.completedUnitCount == (fails ? 3 : 4))
        #expect(handle.progress.phase == "copying")
    }
}
