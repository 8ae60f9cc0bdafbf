import Metrics
import MetricsTestKit
import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("A supervisor's metrics", .timeLimit(.minutes(60)))
struct MetricsTests {
    private let dimensions = [("supervisor", "photos")]

    /// Creates a supervisor that reports to `metrics`.
    private func supervisor(_ simulation: Simulation, _ metrics: TestMetrics, width: Int = 2) -> OperationSupervisor {
        var configuration = OperationSupervisor.Configuration(simulation, width: width)
        configuration.name = "photos"
        return withMetricsFactory(metrics) { OperationSupervisor(configuration) }
    }

    private func ended(_ outcome: String, in metrics: TestMetrics) throws -> Int64 {
        try metrics.expectCounter("operations.ended", dimensions + [("outcome", outcome)]).totalValue
    }

    @Test("The metrics count each end once, by its outcome, even if several handles share the operation")
    func endings() async throws {
        let metrics = TestMetrics()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = supervisor(simulation, metrics)
            supervisor.isSuspended = true
            let shared = OperationOptions(coalescingKey: "shared")
            for _ in 0..<3 { supervisor.add(Probe { _ in }, options: shared) }
            supervisor.add(Probe { _ in })
            let failed = supervisor.add(Probe { _ in throw ProbeError() })
            supervisor.add(Probe { _ in }, after: [failed])
            supervisor.add(Probe { _ in throw CancellationError() })
            supervisor.add(Probe { _ in }).cancel()
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
        #expect(try ended("finished", in: metrics) == 2)
        #expect(try ended("failed", in: metrics) == 2)
        #expect(try ended("cancelled", in: metrics) == 2)
    }

    @Test("The numbers of waiting and running operations are reported as they change; a paused operation is waiting")
    func counts() async throws {
        let metrics = TestMetrics()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = supervisor(simulation, metrics)
            supervisor.isSuspended = true
            let clock = simulation.clock
            let shared = OperationOptions(coalescingKey: "shared")
            for _ in 0..<2 { supervisor.add(Probe { _ in }, options: shared) }
            for _ in 0..<4 { supervisor.add(Probe { _ in try await clock.sleep(for: .seconds(1)) }) }
            supervisor.add(Probe { try await $0.pause(awaiting: "x") { try await clock.sleep(for: .seconds(9)) } })
            supervisor.isSuspended = false
            try await clock.sleep(for: .seconds(5))
            #expect(try metrics.expectMeter("operations.running", dimensions).lastValue == 0)
            #expect(try metrics.expectMeter("operations.waiting", dimensions).lastValue == 1)
            try await supervisor.drain()
        }
        let running = try metrics.expectMeter("operations.running", dimensions).values
        let waiting = try metrics.expectMeter("operations.waiting", dimensions).values
        #expect(running.max() == 2)
        #expect(running.last == 0)
        #expect(waiting.max() == 6)
        #expect(waiting.last == 0)
        #expect(waiting.allSatisfy { $0 >= 0 })
    }

    @Test("A run's duration includes all its attempts and the waits between them; without a run there is none")
    func durationsAndRetries() async throws {
        let metrics = TestMetrics()
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = supervisor(simulation, metrics)
            let clock = simulation.clock
            let retry = RetryPolicy(maximumAttempts: 3, initialDelay: .seconds(1), multiplier: 2, jitter: 0)
            supervisor.add(
                Probe { context in
                    try await clock.sleep(for: .seconds(10))
                    if context.attempt < 3 { throw ProbeError() }
                },
                options: OperationOptions(retry: retry)
            )
            try await supervisor.drain()
            supervisor.isSuspended = true
            supervisor.add(Probe { _ in }).cancel()
        }
        #expect(try metrics.expectCounter("operations.retried", dimensions).totalValue == 2)
        #expect(try metrics.expectTimer("operations.duration", dimensions).values == [33_000_000_000])
    }

    @Test("Without a metrics factory no metrics are created")
    func withoutCollector() {
        #expect(OperationSupervisor().core.environment.metrics == nil)
        let metrics = TestMetrics()
        #expect(withMetricsFactory(metrics) { OperationSupervisor() }.core.environment.metrics != nil)
    }
}
