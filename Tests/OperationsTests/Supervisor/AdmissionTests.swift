import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Admission, joining, fan-in and shutdown", .timeLimit(.minutes(60)))
struct AdmissionTests {
    @Test("A full supervisor refuses an operation at once")
    func refusal() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true, capacity: 2))
        let taken = supervisor.add([Probe { _ in 1 }, Probe { _ in 2 }])
        let refused = supervisor.add(Probe { _ in 3 })
        #expect(refused.state == .failed)
        #expect((refused.error as? OperationError)?.code == .noRoom)
        let dependent = supervisor.add(Probe { _ in }, after: [refused])
        #expect(dependent.state == .failed)
        supervisor.isSuspended = false
        #expect(try await taken[1].value == 2)
        try await supervisor.drain()
        #expect(try await supervisor.add(Probe { _ in 3 }).value == 3)
    }

    @Test("addWhenRoom waits, first come, first served; the wait can be cancelled")
    func waitingForRoom() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                var configuration = OperationSupervisor.Configuration(simulation, width: 1)
                configuration.capacity = 2
                let supervisor = OperationSupervisor(configuration)
                let most = Locked(0)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<8 {
                        group.addTask {
                            let handle = try await supervisor.addWhenRoom(Probe { _ in await Task.yield() })
                            let count = supervisor.operations.count
                            most.withLock { $0 = max($0, count) }
                            if number.isMultiple(of: 3) { handle.cancel() }
                        }
                    }
                    try await group.waitForAll()
                }
                try await supervisor.drain()
                #expect(most.withLock { $0 } <= 2, "seed \(seed)")
                // No reserved room is left over.
                _ = supervisor.add([Probe { _ in }, Probe { _ in }])
                try await supervisor.drain()
            }
        }
    }

    @Test(
        "A capacity below 1 counts as 1: an operation fits, and the caller that waits for room gets it",
        arguments: [0, -3]
    )
    func leastCapacity(capacity: Int) async throws {
        let supervisor = OperationSupervisor(.init(width: 1, isSuspended: true, capacity: capacity))
        let first = supervisor.add(Probe { _ in 1 })
        #expect(!first.isEnded)
        #expect((supervisor.add(Probe { _ in 2 }).error as? OperationError)?.code == .noRoom)
        supervisor.isSuspended = false
        #expect(try await first.value == 1)
        #expect(try await supervisor.addWhenRoom(Probe { _ in 3 }).value == 3)
    }

    @Test("addWhenRoom releases the calling operation's slot; it throws if all operations wait for room")
    func roomInside() async throws {
        let supervisor = OperationSupervisor(.init(width: 1, capacity: 2))
        let inner = supervisor.add(Probe { _ in try await supervisor.addWhenRoom(Probe { _ in 4 }).value })
        #expect(try await inner.value == 4)
        let small = OperationSupervisor(.init(width: 1, capacity: 1))
        let error = await #expect(throws: OperationError.self) {
            try await small.add(Probe { _ in try await small.addWhenRoom(Probe { _ in 4 }).value }).value
        }
        #expect(error?.code == .wouldDeadlock)
    }

    @Test("An operation joins a waiting one with the same key; each handle cancels itself, the last one the operation")
    func joining() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let runs = Locked(0)
        let options = OperationOptions(coalescingKey: "refresh")
        func add() -> OperationHandle<Int> {
            supervisor.add(
                Probe { _ in
                    runs.withLock { runs in
                        runs += 1
                        return runs
                    }
                },
                options: options
            )
        }
        let handles = (0..<4).map { _ in add() }
        #expect(supervisor.progress.totalUnitCount == 1)
        handles[0].cancel()
        #expect(handles.map(\.state) == [.cancelled, .ready, .ready, .ready])
        supervisor.isSuspended = false
        for handle in handles.dropFirst() { #expect(try await handle.value == 1) }
        try await supervisor.drain()
        // An operation that has started can't be joined any more.
        #expect(try await add().value == 2)
        supervisor.isSuspended = true
        let others = (0..<3).map { _ in add() }
        for other in others { other.cancel() }
        supervisor.isSuspended = false
        try await supervisor.drain()
        #expect(others.map(\.state) == [.cancelled, .cancelled, .cancelled])
        #expect(runs.withLock { $0 } == 2)
    }

    /// How an operation ends whose handles are inspected later.
    enum Ending: CaseIterable {
        case finished, failed, cancelled
        /// It finishes in spite of the cancellation.
        case cancelledInVain
        /// Only the first handle is cancelled.
        case handleCancelled
    }

    @Test(
        "A handle shows progress, priority and a requested cancellation after the end, however many handles there are",
        arguments: [nil, "upload"],
        Ending.allCases
    )
    func handlesAfterTheEnd(key: String?, ending: Ending) async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let gate = Gate()
        let work = Probe { context in
            context.reportProgress(OperationProgress(completedUnitCount: 3, totalUnitCount: 4, phase: "uploading"))
            try await gate.wait()
            switch ending {
            case .finished, .handleCancelled: return
            case .failed: throw ProbeError()
            case .cancelled, .cancelledInVain: context.operation.cancel()
            }
            if ending == .cancelled { try Task.checkCancellation() }
        }
        let options = OperationOptions(priority: .high, coalescingKey: key)
        let handle = supervisor.add(work, options: options)
        let other = key.map { _ in supervisor.add(Probe { _ in }, options: options) }
        supervisor.isSuspended = false
        await gate.arrival()
        if ending == .handleCancelled { handle.cancel() } else { gate.open() }
        _ = await handle.result
        if let other {
            #expect(ending != .handleCancelled || other.state == .executing && !other.isCancellationRequested)
            gate.open()
            _ = await other.result
            #expect(ending != .handleCancelled || other.state == .finished && !other.isCancellationRequested)
        }
        let shown = ending == .handleCancelled ? [handle] : [handle, other].compactMap { $0 }
        for handle in shown {
            let isFinished = ending == .finished || ending == .cancelledInVain
            #expect(handle.state == (isFinished ? .finished : ending == .failed ? .failed : .cancelled))
            #expect(handle.progress.fractionCompleted == (isFinished ? 1 : 0.75))
            #expect(handle.progress.completedUnitCount == (isFinished ? 4 : 3))
            #expect(handle.progress.phase == "uploading")
            #expect(handle.priority == .high)
            #expect(handle.isCancellationRequested == (ending != .finished && ending != .failed))
        }
    }

    @Test("An operation doesn't join another that lacks its dependencies or its keys, or comes before a barrier")
    func notJoining() async throws {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let runs = Locked(0)
        let dependency = supervisor.add(Probe { _ in })
        func add(after: [any OperationReference] = [], keys: Set<ExclusionKey> = []) {
            supervisor.add(
                Probe { _ in runs.withLock { $0 += 1 } },
                after: after,
                options: OperationOptions(keys: keys, coalescingKey: "k")
            )
        }
        add()
        add(after: [dependency])  // The first doesn't wait for it.
        add(after: [dependency])  // Joins the second.
        add(after: [dependency.ending])  // The second's failure would be its own.
        add(keys: ["x"])
        supervisor.addBarrier(Probe { _ in })
        add()
        supervisor.isSuspended = false
        try await supervisor.drain()
        #expect(runs.withLock { $0 } == 5)
    }

    @Test("combine creates an operation from several outputs, and fails with the first failure")
    func fanIn() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let (number, text) = (supervisor.add(Probe { _ in 3 }), supervisor.add(Probe { _ in "ab" }))
        let both = supervisor.combine(number, text) { number, text in
            Probe { _ in String(repeating: text, count: number) }
        }
        #expect(try await both.value == "ababab")
        let failing: OperationHandle<Int> = supervisor.add(Probe { _ in throw ProbeError() })
        let none = supervisor.combine(number, failing) { _, _ in Probe { _ in } }
        await #expect(throws: ProbeError.self) { try await none.value }
    }

    @Test(
        "D9: Shutdown is bounded by its grace, with an operation that ignores cancellation; its late result is dropped"
    )
    func shutdown() async throws {
        let journal = Journal()
        try await Simulation.run(seed: 4) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 2))
            let clock = simulation.clock
            let start = clock.now
            let begun = Gate()
            let uncooperative = supervisor.add(
                Probe("uncooperative", journal) { context in
                    _ = try await context.temporaryDirectory()
                    begun.open()
                    await Task(executorPreference: simulation.executor) { try? await clock.sleep(for: .seconds(3600)) }
                        .value
                    return 5
                },
                options: OperationOptions(keys: ["k"])
            )
            let polite = supervisor.add(Probe("polite", journal) { _ in try await clock.sleep(for: .seconds(3600)) })
            let waiting = supervisor.add(Probe("waiting", journal) { _ in })
            let dependent = supervisor.add(Probe { _ in }, after: [uncooperative.ending])
            try await begun.wait()
            let abandoned = await supervisor.shutdown(grace: .seconds(30))
            #expect(abandoned.map(\.id) == [uncooperative.id])
            #expect(start.duration(to: clock.now) == .seconds(30))
            #expect(
                [uncooperative.state, polite.state, waiting.state, dependent.state] == [
                    .failed, .cancelled, .cancelled, .cancelled,
                ]
            )
            #expect((uncooperative.error as? OperationError)?.code == .abandoned)
            let late = supervisor.add(Probe { _ in })
            #expect((late.error as? OperationError)?.code == .shutDown)
            #expect(await supervisor.shutdown(grace: .seconds(1)).map(\.id) == [uncooperative.id])
            try await supervisor.drain()
            // Finally main returns: no phase is called, the state stays, and the temporary directory is removed.
            try await clock.sleep(for: .seconds(3600))
            #expect(uncooperative.state == .failed)
        }
        #expect(
            journal.all.filter { $0.hasPrefix("uncooperative") } == [
                "uncooperative start", "uncooperative start over", "uncooperative main",
            ]
        )
    }

    @Test("An operation that is abandoned before it is created is never created, and its slot and keys become free")
    func abandonedBeforeCreation() async throws {
        var abandoned = 0
        for seed in 0..<50 as Range<UInt64> {
            abandoned += try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation))
                let created = Locked(false)
                let handle = supervisor.add { () -> Probe<Void> in
                    created.withLock { $0 = true }
                    return Probe { _ in }
                }
                let left = await supervisor.shutdown(grace: .zero)
                let wasCreated = created.withLock { $0 }
                try await simulation.clock.sleep(for: .seconds(1))
                #expect(handle.state.isEnded && supervisor.runningCount == 0, "seed \(seed)")
                #expect(left.isEmpty || created.withLock { $0 } == wasCreated, "seed \(seed)")
                return left.count
            }
        }
        #expect(abandoned > 0)
    }

    @Test("An operation that is abandoned before its start phase gets no phase at all")
    func abandonedBeforeItsStart() async throws {
        var abandoned = 0
        for seed in 0..<50 as Range<UInt64> {
            abandoned += try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation))
                let journal = Journal()
                supervisor.add(Probe("a", journal) { _ in })
                let left = await supervisor.shutdown(grace: .zero)
                let hadStarted = !journal.all.isEmpty
                try await simulation.clock.sleep(for: .seconds(1))
                guard !left.isEmpty, !hadStarted else { return 0 }
                #expect(journal.all.isEmpty, "seed \(seed)")
                return 1
            }
        }
        #expect(abandoned > 0)
    }
}
