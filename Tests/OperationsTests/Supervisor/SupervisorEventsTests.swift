import Observation
import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

// DOC: adapter
@MainActor @Observable final class Activity {
    private(set) var states: [OperationID: OperationState] = [:]
    private(set) var isSuspended = false

    func follow(_ supervisor: OperationSupervisor) async {
        for await event in supervisor.events {
            if case .suspended(let isSuspended) = event { self.isSuspended = isSuspended }
            guard case .operation(let operation, let state) = event else { continue }
            states[operation.id] = state.isEnded ? nil : state
        }
    }
}
// DOC: end

@Suite("A supervisor's events and progress", .timeLimit(.minutes(60)))
struct SupervisorEventsTests {
    /// Returns the events in words until the supervisor is released, which has to happen meanwhile.
    private func words(_ events: AsyncStream<SupervisorEvent>) async -> [String] {
        var words: [String] = []
        for await event in events {
            switch event {
            case .count(let count): words.append("count \(count)")
            case .suspended(let isSuspended): words.append("suspended \(isSuspended)")
            case .width(let width): words.append("width \(width)")
            case .operation(let operation, let state): words.append("\(operation.name) \(state)")
            }
        }
        return words
    }

    private func named(_ name: String) -> OperationOptions { OperationOptions(name: name) }

    @Test("Events begin with the current values, and follow every state, the count, the suspension and the width")
    func sequence() async throws {
        let words = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1, isSuspended: true))
            let first = supervisor.add(options: named("first")) { context in
                try await context.pause(awaiting: "an answer") { await Task.yield() }
            }
            let events = supervisor.events
            let second = supervisor.add(after: [first], options: named("second")) { _ in }
            let third = supervisor.add(options: named("third")) { _ in }
            try third.addDependency(second)
            third.cancel()
            supervisor.width = 2
            supervisor.isSuspended = false
            try await supervisor.drain()
            return events
        }
        #expect(
            await self.words(words) == [
                "count 1", "suspended true", "width 1", "first ready", "second waiting", "count 2", "third ready",
                "count 3",
                "third waiting", "third cancelled", "count 2", "width 2", "suspended false", "first executing",
                "first paused", "first executing", "first finished", "second ready", "count 1", "second executing",
                "second finished", "count 0",
            ]
        )
    }

    @Test("Every operation's states come in order and end once, whatever threads add, run and cancel")
    func order() async throws {
        let supervisor = OperationSupervisor(width: 4)
        let events = supervisor.events
        let total = 4 * 250
        async let complaints = Task.detached {
            var last: [OperationID: OperationState] = [:]
            var (ended, complaints) = (0, [String]())
            func rank(_ state: OperationState) -> Int {
                switch state {
                case .waiting: 0
                case .ready: 1
                case .executing: 2
                case .paused, .finished, .failed, .cancelled: 3
                }
            }
            for await case .operation(let operation, let state) in events {
                if let former = last[operation.id], former.isEnded || rank(state) < rank(former) {
                    complaints.append("\(operation.id): \(state) after \(former)")
                }
                last[operation.id] = state
                if state.isEnded { ended += 1 }
                if ended == total { break }
            }
            return complaints
        }.value
        await withTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    for number in 0..<250 {
                        let handle = supervisor.add { _ in }
                        if number % 7 == 0 { handle.cancel() }
                    }
                }
            }
        }
        #expect(await complaints == [])
    }

    @Test("An operation with several handles tells the states of all of them")
    func joined() async throws {
        let words = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
            let events = supervisor.events
            let options = OperationOptions(name: "sync", coalescingKey: "sync")
            let handles = (0..<2).map { _ in supervisor.add(Probe { _ in }, options: options) }
            supervisor.isSuspended = false
            try await supervisor.drain()
            #expect(handles.allSatisfy { $0.state == .finished })
            return events
        }
        let told = await self.words(words)
        // The operation itself, and its two handles.
        for state in ["ready", "executing", "finished"] {
            #expect(told.count { $0 == "sync \(state)" } == 3, "\(told)")
        }
        #expect(told.filter { $0.hasPrefix("count") } == ["count 0", "count 1", "count 0"])
    }

    @Test("An operation in its ending phase is told as ended only when that is over")
    func endingPhase() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let handle = supervisor.add(SlowEnding(gate))
        await gate.arrival()
        #expect(handle.state == .finished)
        var states = supervisor.events.compactMap { event -> OperationState? in
            guard case .operation(_, let state) = event else { return nil }
            return state
        }.makeAsyncIterator()
        #expect(await states.next() == .executing)
        gate.open()
        #expect(await states.next() == .finished)
    }

    private actor SlowEnding: Operation {
        let gate: Gate
        let fails: Bool
        init(_ gate: Gate, fails: Bool = false) { (self.gate, self.fails) = (gate, fails) }
        func main(_ context: OperationContext) throws {
            guard fails else { return }
            context.reportProgress(0.5)
            throw ProbeError()
        }
        func operationDidComplete(_ output: Void) async { try? await gate.wait() }
        func operationDidFail(_ error: any Error) async { try? await gate.wait() }
    }

    @Test("An operation in its ending phase counts by its own progress", arguments: [false, true])
    func progressInEndingPhase(fails: Bool) async throws {
        let supervisor = OperationSupervisor(width: 1)
        let gate = Gate()
        let handle = supervisor.add(SlowEnding(gate, fails: fails))
        await gate.arrival()
        #expect(handle.progress.fractionCompleted == (fails ? 0.5 : 1))
        #expect(
            supervisor.progress
                == SupervisorProgress(totalUnitCount: 1, completedUnitCount: 0, fractionCompleted: fails ? 0.5 : 1)
        )
        gate.open()
        _ = await handle.result
        #expect(supervisor.progress.fractionCompleted == 1)
    }

    @Test("The supervisor that suspends itself tells so")
    func restartIntensity() async throws {
        var configuration = OperationSupervisor.Configuration()
        configuration.restartIntensity = RestartIntensity(maximumFailures: 0, period: .seconds(60))
        let supervisor = OperationSupervisor(configuration)
        let events = supervisor.events
        supervisor.add { _ in throw ProbeError() }
        for await event in events { if case .suspended(true) = event { break } }
        #expect(supervisor.isSuspended)
    }

    @Test("Progress begins with the current value, never falls, and ends complete, also for a slow reader")
    func progress() async throws {
        for seed in 0..<50 as Range<UInt64> {
            let fractions = try await Simulation.run(seed: seed) { simulation -> [Double] in
                let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
                for number in 0..<5 {
                    supervisor.add { context in
                        context.reportProgress(Double(number) / 5)
                        await Task.yield()
                    }
                }
                let updates = supervisor.progressUpdates
                let reader = Task {
                    var fractions: [Double] = []
                    for await progress in updates {
                        if fractions.isEmpty { supervisor.isSuspended = false }
                        fractions.append(progress.fractionCompleted)
                        if progress.completedUnitCount == 5 { break }
                        if seed.isMultiple(of: 2) { await Task.yield() }
                    }
                    return fractions
                }
                return await reader.value
            }
            #expect(fractions.first == 0, "seed \(seed)")
            #expect(fractions == fractions.sorted(), "seed \(seed)")
            #expect(fractions.last == 1, "seed \(seed)")
        }
    }

    @Test("The progress is told when only the ending phase of an operation remains")
    func progressToldBeforeEnding() async throws {
        actor LongEnding: Operation {
            let clock: any Clock<Duration>
            init(_ clock: any Clock<Duration>) { self.clock = clock }
            func main(_ context: OperationContext) async throws {
                context.reportProgress(0.5)
                try await clock.sleep(for: .seconds(1))
            }
            func operationDidComplete(_ output: Void) async { try? await clock.sleep(for: .seconds(10)) }
        }
        let time = try await Simulation.run(seed: 1) { simulation -> Duration? in
            let supervisor = OperationSupervisor(.init(simulation))
            let updates = supervisor.progressUpdates
            supervisor.add(LongEnding(simulation.clock))
            var time: Duration?
            for await progress in updates where progress.fractionCompleted == 1 {
                time = supervisor.now
                break
            }
            try await supervisor.drain()
            return time
        }
        #expect(time == .seconds(1))
    }

    @Test("The events and the progress end with the supervisor, and a released sequence isn't written to any more")
    func lifetime() async throws {
        var supervisor: OperationSupervisor? = OperationSupervisor(width: 1)
        weak let core = supervisor?.core
        let (events, updates) = (supervisor?.events, supervisor?.progressUpdates)
        try await supervisor?.add { _ in }.value
        do {
            let released = (supervisor?.events, supervisor?.progressUpdates)
            #expect(core?.withBoard { $0.listeners.events.count } == 2)
            extendLifetime(released)
        }
        #expect(core?.withBoard { $0.listeners.events.count } == 1)
        #expect(core?.withBoard { $0.listeners.progress.count } == 1)
        supervisor = nil
        // The unread events keep the scheduler alive, and yet the sequences end.
        let last = await updates?.reduce(into: [SupervisorProgress]()) { $0.append($1) }.last
        #expect(last?.fractionCompleted == 1)
        let told = await words(try #require(events))
        #expect(told.last == "count 0")
    }

    @Test("Ten lines make a model that a view can observe")
    @MainActor func adapter() async throws {
        var supervisor: OperationSupervisor? = OperationSupervisor(.init(isSuspended: true))
        let gate = Gate()
        let handle = try #require(supervisor?.add { _ in try await gate.wait() })
        let activity = Activity()
        let changes = AsyncStream.makeStream(of: Void.self)
        @MainActor func observe() {
            withObservationTracking {
                _ = (activity.states, activity.isSuspended)
            } onChange: {
                changes.continuation.yield()
            }
        }
        var iterator = changes.stream.makeAsyncIterator()
        observe()
        let following = Task { [weak supervisor] in if let supervisor { await activity.follow(supervisor) } }
        while activity.states[handle.id] != .ready {
            await iterator.next()
            observe()
        }
        #expect(activity.isSuspended)
        supervisor?.isSuspended = false
        while activity.states[handle.id] != .executing {
            await iterator.next()
            observe()
        }
        #expect(!activity.isSuspended)
        gate.open()
        while !activity.states.isEmpty {
            await iterator.next()
            observe()
        }
        #expect(handle.isEnded)
        following.cancel()
        await following.value
        supervisor = nil
    }
}
