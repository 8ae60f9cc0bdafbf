import Logging
import Operations
import OperationsServiceLifecycle
import OperationsTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

/// An operation that runs until it's cancelled.
private actor Obedient: OperationActor {
    func main(_ context: OperationContext) async throws {
        try await context.clock.sleep(for: .seconds(1_000_000))
    }
}

/// An operation that ignores cancellation until `letGo()` is called.
private actor Uncooperative: OperationActor {
    private let released: AsyncStream<Void>
    private let release: AsyncStream<Void>.Continuation
    init() { (released, release) = AsyncStream.makeStream(of: Void.self) }

    nonisolated func letGo() { release.finish() }

    func main(_ context: OperationContext) async throws {
        let released = released
        // An unstructured task isn't cancelled with the task that waits for it.
        await Task(executorPreference: context.executorOfTests) { for await _ in released {} }.value
    }
}

extension OperationContext {
    fileprivate var executorOfTests: (any TaskExecutor)? { userInfo["executor"] as? any TaskExecutor }
}

/// A service that runs until it's shut down gracefully, and reports when it starts.
private struct Neighbour: Service {
    let begins: AsyncStream<Void>.Continuation

    func run() async throws {
        begins.yield()
        try await gracefulShutdown()
    }
}

@Suite("A supervisor as a service", .timeLimit(.minutes(60)))
struct OperationSupervisorServiceTests {
    /// A supervisor in a simulation, and options that give operations the simulation's executor.
    private func supervisor(in simulation: Simulation) -> (OperationSupervisor, OperationOptions) {
        let configuration = OperationSupervisor.Configuration(
            clock: simulation.clock,
            executor: simulation.executor,
            blockingExecutor: simulation.executor
        )
        return (OperationSupervisor(configuration), OperationOptions(userInfo: ["executor": simulation.executor]))
    }

    private func elapsed(in simulation: Simulation) -> Duration {
        SimulatedClock().now.duration(to: simulation.clock.now)
    }

    @Test("A supervisor's service runs until a graceful shutdown, and returns when all operations have ended")
    func gracefulShutdown() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (supervisor, options) = supervisor(in: simulation)
                let handle = supervisor.add(Obedient(), options: options)
                try await testGracefulShutdown { trigger in
                    async let run: Void = OperationSupervisorService(supervisor, grace: .seconds(5)).run()
                    try await simulation.clock.sleep(for: .seconds(60))
                    #expect(handle.state == .executing)
                    trigger.triggerGracefulShutdown()
                    try await run
                }
                #expect(handle.state == .cancelled)
                #expect(elapsed(in: simulation) == .seconds(60), "no operation needed the grace period")
                let late = supervisor.add(Obedient(), options: options)
                #expect((late.error as? OperationError)?.code == .shutDown)
            }
        }
    }

    @Test("The service's grace period bounds the shutdown, even if an operation ignores its cancellation")
    func grace() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (supervisor, options) = supervisor(in: simulation)
                let uncooperative = Uncooperative()
                let (first, second) = (supervisor.add(uncooperative, options: options), supervisor.add(Obedient()))
                try await testGracefulShutdown { trigger in
                    async let run: Void = OperationSupervisorService(supervisor, grace: .seconds(5)).run()
                    try await simulation.clock.sleep(for: .seconds(1))
                    trigger.triggerGracefulShutdown()
                    try await run
                }
                #expect(elapsed(in: simulation) == .seconds(6))
                #expect((first.error as? OperationError)?.code == .abandoned)
                #expect(second.state == .cancelled)
                uncooperative.letGo()
            }
        }
    }

    @Test("Cancelling the service's task ends the operations within the grace period, and throws CancellationError")
    func cancellation() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (supervisor, options) = supervisor(in: simulation)
                let uncooperative = Uncooperative()
                let (first, second) = (supervisor.add(uncooperative, options: options), supervisor.add(Obedient()))
                await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await OperationSupervisorService(supervisor, grace: .seconds(5)).run() }
                    try? await simulation.clock.sleep(for: .seconds(1))
                    group.cancelAll()
                    let result = await group.nextResult()
                    #expect(throws: CancellationError.self) { try result?.get() }
                }
                #expect(elapsed(in: simulation) == .seconds(6))
                #expect((first.error as? OperationError)?.code == .abandoned)
                #expect(second.state == .cancelled)
                uncooperative.letGo()
            }
        }
    }

    @Test("A shutdown that was triggered before the service runs ends it at once")
    func stopBeforeStart() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let (supervisor, options) = supervisor(in: simulation)
            let handle = supervisor.add(Obedient(), options: options)
            try await testGracefulShutdown { trigger in
                trigger.triggerGracefulShutdown()
                try await OperationSupervisorService(supervisor).run()
            }
            #expect(handle.state == .cancelled)
            #expect(elapsed(in: simulation) == .zero)
        }
    }

    @Test("A task that was cancelled before the service runs ends it at once")
    func cancelBeforeStart() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let (supervisor, options) = supervisor(in: simulation)
            let handle = supervisor.add(Obedient(), options: options)
            await withThrowingTaskGroup(of: Void.self) { group in
                group.cancelAll()
                group.addTask { try await OperationSupervisorService(supervisor).run() }
                let result = await group.nextResult()
                #expect(throws: CancellationError.self) { try result?.get() }
            }
            #expect(handle.state == .cancelled)
        }
    }

    @Test("A supervisor's service shuts down with the other services of its group")
    func group() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let handle = supervisor.add(Obedient())
        let (begun, begins) = AsyncStream.makeStream(of: Void.self)
        let group = ServiceGroup(
            services: [OperationSupervisorService(supervisor), Neighbour(begins: begins)],
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        async let run: Void = group.run()
        for await _ in begun { break }
        await group.triggerGracefulShutdown()
        try await run
        #expect(handle.state == .cancelled)
    }
}
