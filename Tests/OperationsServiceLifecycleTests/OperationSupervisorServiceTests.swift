import Logging
import Operations
import OperationsServiceLifecycle
import OperationsTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

/// Runs until it's cancelled.
private actor Obedient: OperationActor {
    func main(_ context: OperationContext) async throws {
        try await context.clock.sleep(for: .seconds(1_000_000))
    }
}

/// Doesn't hear of cancellation until it's let go.
private actor Deaf: OperationActor {
    private let released: AsyncStream<Void>
    private let release: AsyncStream<Void>.Continuation
    init() { (released, release) = AsyncStream.makeStream(of: Void.self) }

    nonisolated func letGo() { release.finish() }

    func main(_ context: OperationContext) async throws {
        let released = released
        // An unstructured task isn't cancelled with the one that waits for it.
        await Task(executorPreference: context.executorOfTests) { for await _ in released {} }.value
    }
}

extension OperationContext {
    fileprivate var executorOfTests: (any TaskExecutor)? { userInfo["executor"] as? any TaskExecutor }
}

/// Runs until it's shut down gracefully, and tells when it begins.
private struct Neighbour: Service {
    let begins: AsyncStream<Void>.Continuation

    func run() async throws {
        begins.yield()
        try await gracefulShutdown()
    }
}

@Suite("A supervisor as a service", .timeLimit(.minutes(60)))
struct OperationSupervisorServiceTests {
    /// A supervisor in a simulation, and the options with which operations find their way back into it.
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

    @Test("it runs until a graceful shutdown, and returns when everything has ended")
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
                #expect(elapsed(in: simulation) == .seconds(60), "nobody needed the grace")
                let late = supervisor.add(Obedient(), options: options)
                #expect((late.error as? OperationError)?.code == .shutDown)
            }
        }
    }

    @Test("the grace bounds it, also with an operation that ignores its cancellation")
    func grace() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (supervisor, options) = supervisor(in: simulation)
                let deaf = Deaf()
                let (first, second) = (supervisor.add(deaf, options: options), supervisor.add(Obedient()))
                try await testGracefulShutdown { trigger in
                    async let run: Void = OperationSupervisorService(supervisor, grace: .seconds(5)).run()
                    try await simulation.clock.sleep(for: .seconds(1))
                    trigger.triggerGracefulShutdown()
                    try await run
                }
                #expect(elapsed(in: simulation) == .seconds(6))
                #expect((first.error as? OperationError)?.code == .abandoned)
                #expect(second.state == .cancelled)
                deaf.letGo()
            }
        }
    }

    @Test("cancelling its task ends the operations too, in the grace, and isn't swallowed")
    func cancellation() async throws {
        for seed in 0..<50 as Range<UInt64> {
            try await Simulation.run(seed: seed) { simulation in
                let (supervisor, options) = supervisor(in: simulation)
                let deaf = Deaf()
                let (first, second) = (supervisor.add(deaf, options: options), supervisor.add(Obedient()))
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
                deaf.letGo()
            }
        }
    }

    @Test("a shutdown that was triggered before it runs ends it at once")
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

    @Test("a task that was cancelled before it runs ends it at once")
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

    @Test("in a group it goes with the others")
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
