import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Retries, deadlines and failure limits, in virtual time", .timeLimit(.minutes(60)))
struct RetryTests {
    @Test("F23 D9 D11: A failed main is called again on the same actor, after growing waits; phases come once")
    func retries() async throws {
        let journal = Journal()
        let times = Locked<[Duration]>([])
        let attempts = Locked<[Int]>([])
        let output = try await Simulation.run(seed: 7) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1))
            let start = simulation.clock.now
            let retry = RetryPolicy(maximumAttempts: 4, initialDelay: .seconds(1), jitter: 0)
            let handle = supervisor.add(
                Probe("a", journal) { context in
                    times.withLock { $0.append(start.duration(to: simulation.clock.now)) }
                    attempts.withLock { $0.append(context.attempt) }
                    context.reportProgress(0.8 / Double(context.attempt))
                    if context.attempt < 4 { throw ProbeError() }
                    return 5
                },
                options: OperationOptions(retry: retry)
            )
            // The slot is free during the waits.
            let other = supervisor.add(Probe { _ in simulation.clock.now })
            #expect(start.duration(to: try await other.value) < .seconds(1))
            return try await handle.value
        }
        #expect(output == 5)
        #expect(attempts.withLock { $0 } == [1, 2, 3, 4])
        #expect(times.withLock { $0 } == [.seconds(0), .seconds(1), .seconds(3), .seconds(7)])
        #expect(
            journal.all.filter { $0 == "a start" || $0 == "a complete" || $0 == "a fail" } == ["a start", "a complete"]
        )
        let progress = journal.all.filter { $0.hasPrefix("a progress") && !$0.hasSuffix("over") }
        #expect(Set(progress) == ["a progress 0.8"], "D7: progress fell during retries")
    }

    @Test("The last error counts when all attempts have failed; a permanent error isn't retried")
    func givingUp() async throws {
        let counts = Locked((transient: 0, permanent: 0))
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let policy = RetryPolicy(maximumAttempts: 3) { ($0 as? ProbeError)?.name == "transient" }
            let transient = supervisor.add(
                Probe<Void> { _ in
                    counts.withLock { $0.transient += 1 }
                    throw ProbeError(name: "transient")
                },
                options: OperationOptions(retry: policy)
            )
            let permanent = supervisor.add(
                Probe<Void> { _ in
                    counts.withLock { $0.permanent += 1 }
                    throw ProbeError(name: "permanent")
                },
                options: OperationOptions(retry: policy)
            )
            await #expect(throws: ProbeError(name: "transient")) { try await transient.value }
            await #expect(throws: ProbeError(name: "permanent")) { try await permanent.value }
        }
        #expect(counts.withLock { $0 } == (3, 1))
    }

    @Test("An operation keeps its keys between attempts, and ends at once as cancelled if it's cancelled then")
    func cancelDuringBackoff() async throws {
        try await Simulation.run(seed: 3) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let failing = supervisor.add(
                Probe<Void> { _ in throw ProbeError() },
                options: OperationOptions(keys: ["k"], retry: RetryPolicy(initialDelay: .seconds(3600)))
            )
            let next = supervisor.add(Probe { _ in simulation.clock.now }, options: OperationOptions(keys: ["k"]))
            for await event in failing.events { if case .paused = event { break } }
            #expect(next.state == .waiting)
            #expect("\(failing.explain())".contains("attempt 2"))
            failing.cancel()
            _ = try await next.value
            #expect(failing.state == .cancelled)
        }
    }

    @Test("A factory creates a new actor for each attempt")
    func factory() async throws {
        let made = Locked(0)
        let value = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            return try await supervisor.add(options: OperationOptions(retry: RetryPolicy(maximumAttempts: 5))) {
                let number = made.withLock { made in
                    made += 1
                    return made
                }
                if number == 1 { throw ProbeError(name: "the making") }
                return Probe { _ in
                    if number < 4 { throw ProbeError() }
                    return number
                }
            }.value
        }
        #expect(value == 4)
    }

    @Test("A factory that returns the same actor for each attempt has its main called again, and its phases come once")
    func factoryOfOneActor() async throws {
        let journal = Journal()
        let value = try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let probe = Probe("a", journal) { context in
                if context.attempt < 3 { throw ProbeError() }
                return context.attempt
            }
            let options = OperationOptions(retry: RetryPolicy(maximumAttempts: 3))
            return try await supervisor.add { _ in }.then(options: options) { _ in probe }.value
        }
        #expect(value == 3)
        #expect(journal.all.filter { $0 == "a start" || $0 == "a complete" } == ["a start", "a complete"])
    }

    @Test("Waits grow up to the maximum, and jitter subtracts at most its part")
    func delays() {
        let policy = RetryPolicy(initialDelay: .seconds(1), multiplier: 2, maximumDelay: .seconds(10), jitter: 0.5)
        #expect((1...6).map { policy.delay(after: $0, random: 0) } == [1, 2, 4, 8, 10, 10].map { .seconds($0) })
        #expect(policy.delay(after: 1_000_000, random: 0) == .seconds(10))
        #expect(policy.delay(after: 1, random: 0.999_999) > .milliseconds(500))
        #expect(RetryPolicy(jitter: .nan).delay(after: 1, random: 0.5) == .seconds(1))
    }

    @Test("A sleep whose end a clock can't represent lasts a hundred years")
    func longestSleep() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
            let start = simulation.clock.now
            let options = OperationOptions(deadline: .seconds(Int64.max))
            let handle = supervisor.add(Probe { _ in }, options: options)
            _ = await handle.result
            #expect(start.duration(to: simulation.clock.now) == .seconds(100 * 365 * 86_400))
        }
    }

    @Test("A deadline cancels, waits for main, and fails the operation unless it finishes in spite of that")
    func deadline() async throws {
        try await Simulation.run(seed: 5) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1))
            let options = OperationOptions(deadline: .seconds(10))
            let slow = supervisor.add(
                Probe { _ in try await simulation.clock.sleep(for: .seconds(60)) },
                options: options
            )
            let waiting = supervisor.add(Probe { _ in }, options: OperationOptions(deadline: .seconds(5)))
            let uncooperative = OperationSupervisor(.init(simulation)).add(
                Probe { _ in
                    await Task(executorPreference: simulation.executor) {
                        try? await simulation.clock.sleep(for: .seconds(60))
                    }.value
                },
                options: options
            )
            let slowError = await #expect(throws: OperationError.self) { try await slow.value }
            #expect(slowError?.code == .deadlineExceeded)
            #expect(slow.state == .failed)
            let waitingError = await #expect(throws: OperationError.self) { try await waiting.value }
            #expect(waitingError?.code == .deadlineExceeded)
            try await uncooperative.value
            #expect(uncooperative.state == .finished)
        }
    }

    @Test(
        "An operation without progress stalls, and is cancelled if the policy says so; a pause is no stall"
    )
    func stalling() async throws {
        try await Simulation.run(seed: 5) { simulation in
            var configuration = OperationSupervisor.Configuration(simulation)
            configuration.stallTimeout = .seconds(10)
            configuration.stallPolicy = .cancel
            let supervisor = OperationSupervisor(configuration)
            let clock = simulation.clock
            let stuck = supervisor.add(Probe { _ in try await clock.sleep(for: .seconds(3600)) })
            let lively = supervisor.add(
                Probe { context in
                    for step in 0..<20 {
                        try await clock.sleep(for: .seconds(5))
                        context.reportProgress(Double(step) / 20)
                    }
                }
            )
            let paused = supervisor.add(
                Probe { context in
                    try await context.pause(awaiting: "a person") { try await clock.sleep(for: .seconds(100)) }
                }
            )
            let error = await #expect(throws: OperationError.self) { try await stuck.value }
            #expect(error?.code == .stalled)
            try await lively.value
            try await paused.value
        }
    }

    @Test("A stall timeout that isn't positive has no effect", arguments: [.zero, .seconds(-1)] as [Duration])
    func stallTimeoutThatIsNotPositive(timeout: Duration) async throws {
        try await Simulation.run(seed: 1) { simulation in
            let clock = simulation.clock
            let options = OperationOptions(stallTimeout: timeout)
            let supervisor = OperationSupervisor(.init(simulation))
            let events = supervisor.add(options: options) { _ in try await clock.sleep(for: .seconds(60)) }.events
            #expect(await !events.reduce(into: []) { $0.append($1) }.contains(.stalled))
        }
    }

    @Test("D9: More failures than tolerated in the period suspend the supervisor, and drain throws")
    func restartIntensity() async throws {
        try await Simulation.run(seed: 2) { simulation in
            var configuration = OperationSupervisor.Configuration(simulation, width: 1)
            configuration.restartIntensity = RestartIntensity(maximumFailures: 3, period: .seconds(10))
            let supervisor = OperationSupervisor(configuration)
            for _ in 0..<3 { supervisor.add(Probe<Void> { _ in throw ProbeError() }) }
            try await supervisor.drain()
            try await simulation.clock.sleep(for: .seconds(11))
            // The earlier failures are too old to count; cancelled operations don't count.
            for _ in 0..<10 { supervisor.add(Probe<Void> { _ in throw CancellationError() }) }
            for _ in 0..<10 { supervisor.add(Probe<Void> { _ in throw ProbeError() }) }
            let error = await #expect(throws: OperationError.self) { try await supervisor.drain() }
            #expect(error?.code == .suspended)
            #expect(supervisor.isSuspended)
            #expect(supervisor.operations.count { $0.isReady } == 6)
            let again = await #expect(throws: OperationError.self) { try await supervisor.drain() }
            #expect(again?.code == .suspended)
            supervisor.cancelAll()
            supervisor.isSuspended = false
            try await supervisor.drain()
        }
    }

    @Test("Progress reaches the operation of its own attempt, even if the progress phase of a former one was slow")
    func progressOfAttempts() async throws {
        /// Fails in its first attempt, while its progress phase still runs.
        actor Slow: Operation {
            let number: Int
            let seen: Locked<[String]>
            init(_ number: Int, _ seen: Locked<[String]>) { (self.number, self.seen) = (number, seen) }

            func main(_ context: OperationContext) async throws {
                context.reportProgress(Double(number) / 10)
                try await context.clock.sleep(for: .seconds(1))
                if number == 1 { throw ProbeError() }
            }
            func operationDidMakeProgress(_ progress: OperationProgress) async {
                seen.withLock { $0.append("\(number): \(progress.fractionCompleted)") }
                try? await Task.sleep(for: .seconds(100))
            }
        }
        let seen = Locked<[String]>([])
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(OperationSupervisor.Configuration(simulation))
            let attempts = Locked(0)
            let options = OperationOptions(retry: RetryPolicy(maximumAttempts: 2, initialDelay: .seconds(1)))
            try await supervisor.add(options: options) {
                Slow(
                    attempts.withLock {
                        $0 += 1; return $0
                    },
                    seen
                )
            }.value
        }
        #expect(seen.withLock { $0 } == ["1: 0.1", "2: 0.2"])
    }
}
