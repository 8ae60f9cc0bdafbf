import Foundation
import Operations
import OperationsTesting
import Testing
import ThreadSupport

/// A scenario with a mixture of features whose order could depend on more than the seed.
private enum Mixture {
    static func explore() async throws -> Exploration {
        try await Simulation.explore(seeds: 0..<60) { simulation in
            let supervisor = OperationSupervisor(.init(simulation: simulation, width: 2))
            let handles = (0..<4).map { number in
                supervisor.add(
                    Work { context in
                        context.reportProgress(0.5)
                        // Far apart, because the delay is derived from a real clock.
                        try await Task.sleep(for: .seconds([0, 3, 10, 50][number]))
                        return number
                    }
                )
            }
            let unstructured = Task { @MainActor in
                await Task.detached { await Task.yield() }.value
                return 4
            }
            let sum = try await withThrowingTaskGroup { group in
                for handle in handles { group.addTask { try await handle.value } }
                group.addTask { await unstructured.value }
                return try await group.reduce(0, +)
            }
            try #require(sum == 10)
            try await supervisor.drain()
        }
    }
}

@Suite("Replaying simulations", .timeLimit(.minutes(60)))
struct ReplayTests {
    @Test("The same seed gives the same trace, another seed a different one")
    func sameSeed() async throws {
        func trace(_ seed: UInt64) async throws -> SimulationTrace {
            try await Simulation.run(seed: seed) { simulation in
                await withTaskGroup { group in
                    for _ in 0..<5 { group.addTask { await Task.yield() } }
                }
                return simulation.executor.trace
            }
        }
        let first = try await trace(1)
        #expect(try await trace(1) == first)
        #expect(try await trace(2) != first)
        #expect(first.count > 5)
    }

    @Test("Other processes run the same orders, whatever their hash seed")
    func otherProcess() async throws {
        let here = try await Mixture.explore()
        #expect(here.escapes.isEmpty)
        #expect(here.distinctOrders > 50)
        for _ in 0..<2 {
            let result = try await #require(
                processExitsWith: .success,
                observing: [\.standardOutputContent]
            ) {
                print("fingerprint \(try await Mixture.explore().fingerprint)")
            }
            let output = String(decoding: result.standardOutputContent, as: UTF8.self)
            #expect(output.contains("fingerprint \(here.fingerprint)\n"), "\(output)")
        }
    }

    @Test("The seed in the environment overrides the test's own seeds")
    func seedVariable() async throws {
        try await #require(processExitsWith: .success) {
            setenv(Simulation.seedVariable, "7", 1)
            let seeds = Locked<[UInt64]>([])
            let exploration = try await Simulation.explore(seeds: 0..<100) { simulation in
                seeds.withLock { $0.append(simulation.seed) }
            }
            precondition(exploration.runs == 1)
            precondition(seeds.withLock { $0 } == [7])
        }
    }

    @Test("A seed in the environment that isn't a number ends the process, and the message says so")
    func invalidSeedVariable() async throws {
        let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            setenv(Simulation.seedVariable, "seven", 1)
            try await Simulation.explore(seeds: 0..<1) { _ in }
        }
        let message = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(message.contains("SIMULATION_SEED is \"seven\", which isn't a seed"), "\(message)")
    }

    @Test("The seed decides how long retries wait, and supervisors of a simulation don't wait equally long")
    func retries() async throws {
        func waits(_ seed: UInt64) async throws -> [Duration] {
            try await Simulation.run(seed: seed) { simulation in
                var waits: [Duration] = []
                for _ in 0..<2 {
                    let supervisor = OperationSupervisor(.init(simulation: simulation))
                    let begin = simulation.clock.now
                    let work = Work { _ in throw CocoaError(.fileReadUnknown) }
                    _ = try? await supervisor.add(work, options: .init(retry: RetryPolicy(maximumAttempts: 2))).value
                    waits.append(begin.duration(to: simulation.clock.now))
                }
                return waits
            }
        }
        let first = try await waits(1)
        #expect(try await waits(1) == first)
        #expect(try await waits(2) != first)
        #expect(first[0] != first[1])
    }

    @Test("A run can be cancelled at each of its points")
    func cancellationPoints() async throws {
        var endings: [String] = []
        for step in 0... {
            let point = CancellationPoint(step: step)
            let ending = try await Simulation.run(seed: 3, cancellingAt: point) { simulation in
                let task = Task {
                    for _ in 0..<3 { try await simulation.clock.sleep(for: .seconds(1)) }
                }
                point.arm { task.cancel() }
                let result = await task.result
                point.disarm()
                return (try? result.get()) == nil ? "cancelled" : "done"
            }
            guard point.wasReached else {
                #expect(ending == "done")
                break
            }
            endings.append(ending)
        }
        #expect(endings.count { $0 == "cancelled" } > 5, "\(endings)")
    }
}
