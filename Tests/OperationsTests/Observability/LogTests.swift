import InMemoryLogging
import Logging
import OperationsTesting
import ServiceContextModule
import Testing
import ThreadSupport

@testable import Operations

@Suite("A supervisor's log", .timeLimit(.minutes(60)))
struct LogTests {
    private let handler = {
        var handler = InMemoryLogHandler()
        handler.logLevel = .debug
        return handler
    }()

    private func configuration(_ simulation: Simulation, level: Logger.Level = .debug)
        -> OperationSupervisor.Configuration
    {
        var configuration = OperationSupervisor.Configuration(simulation)
        configuration.name = "photos"
        configuration.logger = Logger(label: "test") { [handler] _ in handler }
        configuration.logger.logLevel = level
        return configuration
    }

    private func entries(_ message: String) -> [InMemoryLogHandler.Entry] {
        handler.entries.filter { "\($0.message)".hasPrefix(message) }
    }

    private func named(_ name: String) -> OperationOptions { OperationOptions(name: name) }

    @Test("A start and an end are logged with identifier, name, outcome, duration and error")
    func startAndEnd() async throws {
        var ids: [String] = []
        ids = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(configuration(simulation))
            let clock = simulation.clock
            let good = supervisor.add(Probe { _ in try await clock.sleep(for: .seconds(3)) }, options: named("good"))
            _ = await good.result
            let bad = supervisor.add(Probe { _ in throw ProbeError() }, options: named("bad"))
            _ = await bad.result
            supervisor.isSuspended = true
            let unborn = supervisor.add(Probe { _ in }, options: named("unborn"))
            unborn.cancel()
            return [good, bad, unborn].map { "\($0.id)" }
        }
        let (starts, ends) = (entries("operation started"), entries("operation ended"))
        #expect(
            starts.map(\.metadata) == [
                ["operation.id": "\(ids[0])", "operation.name": "good", "supervisor.name": "photos"],
                ["operation.id": "\(ids[1])", "operation.name": "bad", "supervisor.name": "photos"],
            ]
        )
        #expect(
            ends.map(\.metadata) == [
                [
                    "operation.id": "\(ids[0])", "operation.name": "good", "operation.outcome": "finished",
                    "supervisor.name": "photos",
                    "operation.duration": "\(Duration.seconds(3))",
                ],
                [
                    "operation.id": "\(ids[1])", "operation.name": "bad", "operation.outcome": "failed",
                    "supervisor.name": "photos",
                    "operation.duration": "\(Duration.zero)",
                ],
                [
                    "operation.id": "\(ids[2])", "operation.name": "unborn", "operation.outcome": "cancelled",
                    "supervisor.name": "photos",
                ],
            ]
        )
        #expect(ends.map { $0.error is ProbeError } == [false, true, false])
        #expect(ends[2].error is CancellationError)
        #expect(handler.entries.allSatisfy { $0.level == .debug })
    }

    @Test("P25: Messages about an operation, and those of the operation itself, carry the client's identifier")
    func client() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(configuration(simulation))
            let options = OperationOptions(clientIdentifier: "phone")
            try await supervisor.add(Probe { $0.logger.info("copying") }, options: options).value
        }
        for message in ["operation started", "copying", "operation ended"] {
            #expect(entries(message).map { $0.metadata["operation.client"] } == ["phone"], "\(message)")
        }
    }

    @Test("P25: The explanation of an operation names the client")
    func clientInExplanation() {
        let supervisor = OperationSupervisor(.init(isSuspended: true))
        let handle = supervisor.add(Probe { _ in }, options: OperationOptions(clientIdentifier: "phone"))
        #expect(handle.explain().clientIdentifier == "phone")
        #expect(
            "\(handle.explain())" == "ready in \"operations\" on behalf of client phone: the supervisor is suspended"
        )
        handle.cancel()
        #expect("\(handle.explain())" == "cancelled in \"operations\" on behalf of client phone")
        let other = supervisor.add(Probe { _ in })
        #expect(other.explain().clientIdentifier == nil)
        #expect("\(other.explain())" == "ready in \"operations\": the supervisor is suspended")
    }

    @Test("An operation that several handles share is logged once")
    func joined() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(configuration(simulation))
            supervisor.isSuspended = true
            for _ in 0..<3 { supervisor.add(Probe { _ in }, options: OperationOptions(coalescingKey: "x")) }
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
        #expect(entries("operation started").count == 1)
        #expect(entries("operation ended").count == 1)
    }

    @Test("A retry is logged with the error of the previous attempt")
    func retry() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(configuration(simulation))
            let retry = RetryPolicy(maximumAttempts: 2, initialDelay: .seconds(4), jitter: 0)
            supervisor.add(Probe { _ in throw ProbeError() }, options: OperationOptions(name: "a", retry: retry))
            try await supervisor.drain()
        }
        let retries = entries("operation will be retried")
        #expect(retries.count == 1)
        #expect(retries.first?.error is ProbeError)
        #expect(retries.first?.metadata["operation.name"] == "a")
        #expect(retries.first?.metadata["operation.attempt"] == "2")
        #expect(retries.first?.metadata["operation.delay"] == "\(Duration.seconds(4))")
    }

    @Test("A stall is a warning, by the supervisor's or the operation's timeout; the cancel policy fails the operation")
    func stall() async throws {
        try await Simulation.run(seed: 1) { simulation in
            var configuration = configuration(simulation)
            configuration.stallTimeout = .seconds(10)
            configuration.stallPolicy = .cancel
            let supervisor = OperationSupervisor(configuration)
            let clock = simulation.clock
            let still = supervisor.add(
                Probe { _ in try await clock.sleep(for: .seconds(100)) },
                options: named("still")
            )
            let busy = supervisor.add(
                Probe { context in
                    for step in 1...50 {
                        try await clock.sleep(for: .seconds(2))
                        context.reportProgress(Double(step) / 50)
                    }
                }
            )
            let slow = supervisor.add(
                Probe { _ in try await clock.sleep(for: .seconds(100)) },
                options: OperationOptions(name: "slow", stallTimeout: .seconds(200))
            )
            try await supervisor.drain()
            #expect((still.error as? OperationError)?.code == .stalled)
            #expect(busy.state == .finished)
            #expect(slow.state == .finished)
        }
        let warnings = handler.entries.filter { $0.level > .debug }
        #expect(warnings.map(\.level) == [.warning])
        #expect(warnings.first?.metadata["operation.name"] == "still")
        #expect(warnings.first?.metadata["operation.stallTimeout"] == "\(Duration.seconds(10))")
    }

    @Test("A supervisor that suspends itself logs an error")
    func suspension() async throws {
        try await Simulation.run(seed: 1) { simulation in
            var configuration = configuration(simulation)
            configuration.restartIntensity = RestartIntensity(maximumFailures: 1, period: .seconds(60))
            let supervisor = OperationSupervisor(configuration)
            let handles = supervisor.add((0..<2).map { _ in Probe { _ in throw ProbeError() } })
            for handle in handles { _ = await handle.result }
            #expect(supervisor.isSuspended)
        }
        let errors = handler.entries.filter { $0.level == .error }
        #expect(errors.count == 1)
        #expect(errors.first?.metadata["supervisor.name"] == "photos")
        #expect(errors.first?.metadata["supervisor.maximumFailures"] == "1")
    }

    @Test("An abandoned operation is logged as a warning, and nothing else is above debug")
    func abandoned() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(configuration(simulation, level: .info))
            let clock = simulation.clock
            supervisor.add(
                Probe { _ in
                    // An unstructured task isn't cancelled with the operation.
                    try await Task(executorPreference: simulation.executor) {
                        try await clock.sleep(for: .seconds(100))
                    }.value
                },
                options: named("uncooperative")
            )
            supervisor.add(Probe { _ in throw ProbeError() })
            try await clock.sleep(for: .seconds(1))
            await supervisor.shutdown(grace: .seconds(1))
            try await clock.sleep(for: .seconds(200))
        }
        #expect(handler.entries.map { "\($0.message)" } == ["operation abandoned"])
        #expect(handler.entries.first?.level == .warning)
        #expect(handler.entries.first?.metadata["operation.name"] == "uncooperative")
    }

    @Test("An operation is logged by its own supervisor, also if another supervisor's operation lets it start")
    func severalSupervisors() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let other = OperationSupervisor(.init(simulation))
            let supervisor = OperationSupervisor(configuration(simulation))
            let clock = simulation.clock
            let first = other.add(Probe { _ in try await clock.sleep(for: .seconds(1)) }, options: named("first"))
            try await supervisor.add(Probe { _ in }, after: [first], options: named("second")).value
        }
        #expect(entries("operation").compactMap { $0.metadata["operation.name"] } == ["second", "second"])
    }

    @Test("A log handler may add a dependency, also when a child is added")
    func dependencyInLogHandler() async throws {
        let dependent = Locked<(any OperationReference)?>(nil)
        try await Simulation.run(seed: 1) { simulation in
            let other = OperationSupervisor(.init(simulation, isSuspended: true))
            let first = other.add { _ in }
            var configuration = configuration(simulation)
            configuration.logger = Logger(label: "test") { [handler] _ in
                var handler = handler
                handler.metadataProvider = Logger.MetadataProvider {
                    try? dependent.withLock { $0.take() }?.addDependency(first)
                    return [:]
                }
                return handler
            }
            let supervisor = OperationSupervisor(configuration)
            let second = other.add { _ in }
            try await supervisor.add { context in
                dependent.withLock { $0 = second }
                try context.addChild { _ in }
            }.value
            #expect(second.dependencies.map(\.id) == [first.id])
            other.isSuspended = false
            try await other.drain()
        }
    }

    @Test("start and end are logged in the service context in which the operation was added")
    func serviceContext() async throws {
        try await Simulation.run(seed: 1) { simulation in
            var configuration = configuration(simulation)
            configuration.logger = Logger(
                label: "test",
                factory: { [handler] _ in
                    var handler = handler
                    handler.metadataProvider = Logger.MetadataProvider {
                        ["name": "\(ServiceContext.current?[ServiceNameKey.self] ?? "none")"]
                    }
                    return handler
                }
            )
            configuration.logger.logLevel = .debug
            let supervisor = OperationSupervisor(configuration)
            var context = ServiceContext.topLevel
            context[ServiceNameKey.self] = "photos"
            let handle = ServiceContext.withValue(context) { supervisor.add(Probe { _ in }) }
            try await handle.value
        }
        let logged = handler.entries.map { "\($0.message) \($0.metadata["name"] ?? "without")" }
        #expect(logged == ["operation started photos", "operation ended photos"])
    }
}

private enum ServiceNameKey: ServiceContextKey {
    typealias Value = String
}
