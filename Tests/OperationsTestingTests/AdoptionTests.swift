import Testing
import ThreadSupport

@testable import OperationsTesting

/// An actor with a custom executor.
private actor Separate {
    private let executor: any SerialExecutor
    private var order: [Int] = []

    init(_ executor: any SerialExecutor) {
        self.executor = executor
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    func write(_ number: Int) -> [Int] {
        preconditionIsolated()
        order.append(number)
        return order
    }
}

private actor Counter {
    private(set) var count = 0

    func increment() async {
        await Task.yield()
        count += 1
    }

    func incrementLater() async throws {
        try await Task.sleep(for: .seconds(60))
        count += 1
    }
}

@MainActor
private final class Screen {
    nonisolated init() {}

    var lines: [String] = []

    func show(_ line: String) async {
        MainActor.preconditionIsolated()
        await Task.yield()
        lines.append(line)
    }
}

@Suite("Simulations adopt the work that a scenario starts", .timeLimit(.minutes(60)))
struct AdoptionTests {
    /// Runs a scenario under some seeds; every run must depend on its seed alone.
    private func explore(
        _ seeds: Range<UInt64> = 0..<50,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws -> Exploration {
        let exploration = try await Simulation.explore(seeds: seeds, scenario)
        #expect(exploration.escapes.isEmpty, "\(exploration)")
        return exploration
    }

    @Test("Simulations have no limitations, except on Apple platforms, whose runtime can't simulate sleep")
    func capabilities() {
        #if canImport(Darwin)
        #expect(SimulationCapabilities.current.limitations.map { $0.prefix(10) } == ["Task.sleep"])
        #else
        #expect(SimulationCapabilities.current.limitations == [])
        #endif
    }

    @Test("Task {} and Task.detached are adopted and run in any order")
    func unstructuredTasks() async throws {
        let orders = Locked<Set<[Int]>>([])
        _ = try await explore { _ in
            let order = Locked<[Int]>([])
            let tasks = Array(0..<3).map { number in
                number == 0
                    ? Task { order.withLock { $0.append(number) } }
                    : Task.detached { order.withLock { $0.append(number) } }
            }
            for task in tasks { await task.value }
            orders.withLock { _ = $0.insert(order.withLock { $0 }) }
        }
        #expect(orders.withLock { $0.count } == 6)
    }

    @Test("Task {} in an actor, and tasks that are never awaited, are adopted")
    func withoutWaiter() async throws {
        _ = try await explore { _ in
            let counter = Counter()
            Task { await counter.increment() }
            Task.detached { Task { await counter.increment() } }
            while await counter.count < 2 { await Task.yield() }
        }
    }

    @Test("@MainActor code is adopted, and its jobs keep their order")
    func mainActor() async throws {
        let exploration = try await explore { _ in
            let screen = Screen()
            let first = Task { @MainActor in screen.lines.append("a") }
            let second = Task { @MainActor in screen.lines.append("b") }
            async let third: Void = screen.show("c")
            await third
            await first.value
            await second.value
            let lines = await screen.lines
            #expect(lines.sorted() == ["a", "b", "c"])
            #expect(lines.firstIndex(of: "a") ?? 9 < lines.firstIndex(of: "b") ?? 0)
            await MainActor.run { MainActor.preconditionIsolated() }
        }
        #expect(exploration.distinctOrders > 1)
    }

    @Test("Task.sleep is simulated wherever it is called: hours take no time, and shorter sleeps end first")
    func sleep() async throws {
        let begin = ContinuousClock.now
        _ = try await explore { simulation in
            let order = Locked<[String]>([])
            let counter = Counter()
            async let hour: Void = {
                try await Task.sleep(for: .seconds(3600))
                order.withLock { $0.append("hour") }
            }()
            async let minute: Void = {
                try await Task.sleep(nanoseconds: 60_000_000_000)
                order.withLock { $0.append("minute") }
            }()
            let detached = Task.detached {
                try await counter.incrementLater()
                try await Task.sleep(for: .seconds(30), clock: .suspending)
                order.withLock { $0.append("90 seconds") }
            }
            let main = Task { @MainActor in
                try await Task.sleep(for: .milliseconds(1500))
                order.withLock { $0.append("main") }
            }
            _ = try await (hour, minute, detached.value, main.value)
            #expect(order.withLock { $0 } == ["main", "minute", "90 seconds", "hour"])
            #expect(simulation.clock.now == SimulatedClock().now.advanced(by: .seconds(3600)))
        }
        // Less than one simulated hour, however busy the machine is.
        #expect(ContinuousClock.now - begin < .seconds(3000))
    }

    @Test("A cancelled sleep ends at once")
    func cancelledSleep() async throws {
        _ = try await explore { simulation in
            let task = Task { try await Task.sleep(for: .seconds(1_000_000)) }
            await Task.yield()
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(simulation.clock.now == SimulatedClock().now)
        }
    }

    @Test("async let, task groups, streams and cancellation handlers are simulated")
    func structuredConcurrency() async throws {
        let orders = Locked<Set<[Int]>>([])
        _ = try await explore(0..<200) { _ in
            let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
            async let sum = stream.reduce(0, +)
            var order: [Int] = []
            await withTaskGroup { group in
                for number in 1...3 {
                    group.addTask {
                        continuation.yield(number)
                        return number
                    }
                }
                for await number in group { order.append(number) }
            }
            continuation.finish()
            #expect(await sum == 6)
            orders.withLock { [order] in _ = $0.insert(order) }

            let wasCancelled = Locked(false)
            let waiting = Task {
                let (silence, _) = AsyncStream.makeStream(of: Int.self)
                await withTaskCancellationHandler {
                    for await _ in silence {}
                } onCancel: {
                    wasCancelled.withLock { $0 = true }
                }
            }
            await Task.yield()
            waiting.cancel()
            await waiting.value
            #expect(wasCancelled.withLock { $0 })
        }
        #expect(orders.withLock { $0.count } == 6)
    }

    @Test("Actors with a custom executor are simulated, and it keeps the order of its jobs")
    func serialExecutors() async throws {
        _ = try await explore { simulation in
            let separate = Separate(simulation.executor.makeSerialExecutor())
            let order = await withTaskGroup { group in
                for number in 0..<4 { group.addTask { await separate.write(number) } }
                return await group.reduce([]) { $0.count > $1.count ? $0 : $1 }
            }
            #expect(order.sorted() == [0, 1, 2, 3])
            let main = await Task { @MainActor in await separate.write(4) }.value
            #expect(main.count == 5)
        }
    }

    @Test("Executors that are driven manually, several at a time on different threads, don't affect each other")
    func byHand() async throws {
        @Sendable func trace(_ seed: UInt64) -> SimulationTrace {
            let executor = SimulatedExecutor(seed: seed)
            let order = Locked<[Int]>([])
            for number in 0..<3 {
                Task(executorPreference: executor) {
                    await Task { @MainActor in await Task.yield() }.value
                    try await Task.detached { try await Task.sleep(for: .seconds(10 * number)) }.value
                    try await executor.clock.sleep(for: .seconds(1))
                    order.withLock { $0.append(number) }
                }
            }
            executor.runUntilIdle()
            #expect(order.withLock { $0.count } == 3)
            return executor.trace
        }
        let traces = (0..<8).map { trace($0) }
        try await withThrowingTaskGroup { group in
            for turn in 0..<200 as Range<UInt64> {
                group.addTask {
                    let again = try await runBlocking { trace(turn % 8) }
                    #expect(again == traces[Int(turn % 8)])
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("A real delay is taken for the roundest number that it can mean")
    func roundest() {
        func meant(_ lower: Double, _ upper: Double) -> Duration {
            .roundest(from: .nanoseconds(Int64(lower * 1e9)), to: .nanoseconds(Int64(upper * 1e9)))
        }
        #expect(meant(0.999_97, 1.000_2) == .seconds(1))
        #expect(meant(0.014_98, 0.019) == .milliseconds(15))
        #expect(meant(0.000_009, 0.000_015) == .microseconds(10))
        #expect(meant(1.499_999_9, 1.6) == .milliseconds(1500))
        #expect(meant(86_399.999, 86_400.001) == .seconds(86_400))
        #expect(meant(-3, 5) == .zero)
        #expect(Duration.roundest(from: .seconds(Int64.max), to: .seconds(Int64.max)) > .seconds(1_000_000))
    }

    @Test("Code that runs concurrently with simulations stays outside: its tasks, main actor and sleep are real")
    func outside() async throws {
        async let simulations: Void = {
            for _ in 0..<20 {
                _ = try await explore { _ in
                    try await Task { try await Task.sleep(for: .seconds(60)) }.value
                }
            }
        }()
        for _ in 0..<20 {
            let begin = ContinuousClock.now
            try await Task.detached { try await Task.sleep(for: .milliseconds(2)) }.value
            #expect(ContinuousClock.now - begin >= .milliseconds(2))
            await MainActor.run { MainActor.preconditionIsolated() }
            #expect(await Task { 5 }.value == 5)
        }
        try await simulations
    }
}
