import Dispatch
import Operations
import OperationsTesting
import Testing
import ThreadSupport

typealias Operation = Operations.Operation

/// An operation that runs a given closure.
actor Work<Output: Sendable>: Operation {
    private let body: @Sendable (OperationContext) async throws -> Output

    init(_ body: @escaping @Sendable (OperationContext) async throws -> Output) {
        self.body = body
    }

    func main(_ context: OperationContext) async throws -> Output { try await body(context) }
}

@Suite("Stuck simulations, and work that leaves them", .timeLimit(.minutes(60)))
struct StuckTests {
    /// Returns the error with which a scenario fails.
    private func failure(
        limits: Simulation.Limits = .init(),
        of scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async -> SimulationError? {
        do {
            try await Simulation.explore(seeds: 3..<4, limits: limits, scenario)
            return nil
        } catch {
            return error as? SimulationError
        }
    }

    @Test("A grace period may be of any length")
    func endlessGrace() async throws {
        let limits = Simulation.Limits(grace: .seconds(Int64.max))
        try await Simulation.run(seed: 1, limits: limits) { _ in
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async { continuation.resume() }
            }
        }
    }

    @Test("The error for a deadlock names each wait and the operation that waits")
    func deadlock() async throws {
        let error = await failure(limits: brief) { simulation in
            let supervisor = OperationSupervisor(.init(simulation: simulation, width: 1, isSuspended: true))
            let first = supervisor.add(Work { _ in }, options: OperationOptions(name: "first"))
            let other = OperationSupervisor(.init(simulation: simulation))
            let second = other.add(Work { _ in try await first.value }, options: OperationOptions(name: "second"))
            try await second.value
        }
        let report = try #require(error)
        #expect(report.code == .deadlock, "\(report)")
        #expect(report.waits.contains { $0.hasPrefix("the scenario waits for the end of operation") })
        #expect(report.waits.contains { $0.hasSuffix("(first)") && $0.contains("(second) waits for the end of") })
        #expect(report.description.contains("SIMULATION_SEED=3"), "\(report)")
        #expect(report.description.contains("--filter 'OperationsTestingTests.*"), "\(report)")
    }

    @Test("The error for a deadlock names an unanswered pause and a pending drain")
    func pauseAndDrain() async throws {
        let waiting = Locked<CheckedContinuation<Void, any Error>?>(nil)
        let error = await failure(limits: brief) { simulation in
            let supervisor = OperationSupervisor(.init(simulation: simulation))
            supervisor.add(
                Work { context in
                    try await context.pause(awaiting: "the password") {
                        try await waitCancellably(for: "a key") { continuation in
                            waiting.withLock { $0 = continuation }
                            return true
                        } remove: {
                            waiting.withLock { $0.take() }
                        }
                    }
                }
            )
            try await supervisor.drain()
        }
        let report = try #require(error)
        #expect(report.code == .deadlock, "\(report)")
        #expect(report.waits.contains { $0.contains("waits for the password") })
        #expect(report.waits.contains { $0.contains("waits for a key") })
        #expect(report.waits.contains { $0.contains("the scenario waits for the end of every operation") })
        // The waits of a stuck run are cancelled when it ends.
        #expect(waiting.withLock { $0 == nil })
    }

    @Test("A wait for something that isn't simulated is distinguished from a deadlock")
    func waitingOutside() async throws {
        let continuation = Locked<CheckedContinuation<Void, Never>?>(nil)
        let bare = await failure(limits: brief) { _ in
            await withCheckedContinuation { waiting in continuation.withLock { $0 = waiting } }
        }
        #expect(bare?.code == .waitingOutside)
        continuation.withLock { $0.take() }?.resume()

        let inOperation = await failure(limits: brief) { simulation in
            let supervisor = OperationSupervisor(.init(simulation: simulation))
            let handle = supervisor.add(
                Work { _ in await withCheckedContinuation { waiting in continuation.withLock { $0 = waiting } } },
                options: OperationOptions(name: "outsider")
            )
            try await handle.value
        }
        let report = try #require(inOperation)
        #expect(report.code == .waitingOutside)
        #expect(report.message.contains("(outsider)"), "\(report)")
        #expect(!report.message.contains("the scenario"), "\(report)")
        continuation.withLock { $0.take() }?.resume()
    }

    /// A short grace period, for waits that nothing outside the simulation ends.
    private let brief = Simulation.Limits(grace: .milliseconds(500))
    /// A long grace period, because work on a real thread may come back late on a busy machine.
    private let patient = Simulation.Limits(grace: .seconds(60))

    @Test("Work that left and comes back is reported as an escape with its step, and the run continues")
    func escape() async throws {
        let exploration = try await Simulation.explore(seeds: 0..<3, limits: patient) { _ in
            let waiting = Locked<CheckedContinuation<Void, Never>?>(nil)
            // Another job finds the continuation only after the job that created it is over and so waits for it.
            async let resumption: Void = {
                while true {
                    if let continuation = waiting.withLock({ $0.take() }) {
                        return DispatchQueue.global().async { continuation.resume() }
                    }
                    await Task.yield()
                }
            }()
            await withCheckedContinuation { continuation in waiting.withLock { $0 = continuation } }
            await resumption
        }
        #expect(exploration.runs == 3)
        #expect(exploration.escapes.count == 3)
        #expect(exploration.escapes[0]?.step ?? 0 > 0)
        #expect(exploration.description.contains("can't be replayed: with seed 0"))
    }

    @Test("Work on an executor that isn't simulated is an escape too")
    func otherExecutor() async throws {
        let exploration = try await Simulation.explore(seeds: 0..<1, limits: patient) { _ in
            _ = try await runBlocking(on: BlockingExecutor.shared) { 5 }
        }
        #expect(exploration.escapes.count == 1)
    }

    @Test("A scenario that never ends is stopped")
    func tooManySteps() async {
        let error = await failure(limits: Simulation.Limits(steps: 500)) { _ in
            while !Task.isCancelled { await Task.yield() }
        }
        #expect(error?.code == .tooManySteps)
        #expect(error?.step == 500)
    }

    @Test("Tasks that a run leaves behind end with it, however long they would sleep")
    func leftovers() async throws {
        let ended = Locked(0)
        try await Simulation.explore(seeds: 0..<10) { simulation in
            Task {
                try? await simulation.clock.sleep(for: .seconds(3600))
                ended.withLock { $0 += 1 }
            }
            Task {
                try? await Task.sleep(for: .seconds(3600))
                ended.withLock { $0 += 1 }
            }
        }
        #expect(ended.withLock { $0 } == 20)
    }
}
