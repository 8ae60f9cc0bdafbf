import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Operations while the app is in the background", .timeLimit(.minutes(60)))
struct BackgroundTests {
    /// Hands out assertions and counts them, as UIApplication would.
    final class Provider: BackgroundActivityProvider {
        let held = Locked<Set<Int>>([])
        let taken = Locked(0)
        let expire = Locked<(@Sendable () -> Void)?>(nil)
        /// Opens with the first assertion that is released.
        let release = Gate()
        /// The gate at which a request for an assertion waits.
        let grant: Gate?

        init(grant: Gate? = nil) { self.grant = grant }

        func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int? {
            expire.withLock { $0 = expired }
            let identifier = taken.withLock { count in
                count += 1
                return count
            }
            held.withLock { _ = $0.insert(identifier) }
            await Task.yield()
            if let grant { try? await grant.wait() }
            return identifier
        }

        func endActivity(_ identifier: Int) async {
            let wasHeld = held.withLock { $0.remove(identifier) != nil }
            #expect(wasHeld, "an assertion was released twice")
            #expect(!Task.isCancelled, "an assertion was released in a cancelled task")
            release.open()
        }
    }

    @Test("P27 P28: Only operations that may continue start in the background, under one assertion")
    func background() async throws {
        for seed in 0..<200 as Range<UInt64> {
            let provider = Provider()
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
                let ordinary = supervisor.add(Probe { _ in })
                let upload = supervisor.add(
                    Probe { context in
                        #expect(provider.held.withLock { $0.count } == 1)
                        return context.mayContinueInBackground
                    },
                    options: OperationOptions(mayContinueInBackground: true)
                )
                await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                supervisor.isSuspended = false
                #expect(try await upload.value)
                #expect(ordinary.state == .ready)
                await supervisor.enterForeground()
                try await ordinary.value
            }
            #expect(provider.held.withLock { $0.isEmpty })
        }
    }

    @Test("P27: When the grace period or the assertion expires, operations are cancelled and the assertion is released")
    func expiry() async throws {
        for systemLosesPatience in [true, false] {
            let provider = Provider()
            try await Simulation.run(seed: 3) { simulation in
                let start = simulation.clock.now
                let supervisor = OperationSupervisor(.init(simulation))
                let gate = Gate()
                let upload = supervisor.add(
                    Probe { _ in try await gate.wait() },
                    options: OperationOptions(mayContinueInBackground: true)
                )
                await gate.arrival()
                await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                if systemLosesPatience { provider.expire.withLock { $0 }?() }
                _ = await upload.result
                #expect(upload.state == .cancelled)
                #expect(start.duration(to: simulation.clock.now) == (systemLosesPatience ? .zero : .seconds(30)))
            }
            #expect(provider.held.withLock { $0.isEmpty })
        }
    }

    @Test("P27: The end of the grace period starts no operation that only waited for the end of a cancelled one")
    func expiryStartsNothing() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let journal = Journal()
            let options = OperationOptions(mayContinueInBackground: true, keys: ["a"])
            supervisor.add(Probe { _ in try await Gate().wait() }, options: options)
            let waiting = supervisor.add(Probe { _ in }, options: options)
            let dependentOptions = OperationOptions(mayContinueInBackground: true)
            supervisor.add(Probe("dependent", journal) { _ in }, after: [waiting.ending], options: dependentOptions)
            // An older operation may begin to wait for the end of a newer one, too.
            let elsewhere = OperationSupervisor(.init(simulation, isSuspended: true))
            let never = elsewhere.add(Probe { _ in })
            let older = supervisor.add(
                Probe("older", journal) { _ in },
                after: [never.ending],
                options: dependentOptions
            )
            let newer = supervisor.add(Probe { _ in }, after: [never], options: dependentOptions)
            try older.addDependency(newer.ending)
            older.removeDependency(never.ending)
            await supervisor.enterBackground(grace: .seconds(1))
            try await supervisor.drain()
            #expect(journal.all.isEmpty)
        }
    }

    // MARK: The end of the work

    private static let mayContinue = OperationOptions(mayContinueInBackground: true)

    /// Runs `body` in the orders of so many seeds: it takes one assertion, which is released at once when it's needed no more.
    private func explore(
        seeds: Range<UInt64> = 0..<50,
        isGrantedLate: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: @escaping @Sendable (Simulation, OperationSupervisor, Provider) async throws -> Void
    ) async throws {
        for seed in seeds {
            let provider = Provider(grant: isGrantedLate ? Gate() : nil)
            try await Simulation.run(seed: seed) { simulation in
                let start = simulation.clock.now
                try await body(simulation, OperationSupervisor(.init(simulation)), provider)
                let duration = start.duration(to: simulation.clock.now)
                #expect(duration == .zero, "seed \(seed)", sourceLocation: sourceLocation)
            }
            let (held, taken) = (provider.held.withLock { $0 }, provider.taken.withLock { $0 })
            #expect(held.isEmpty && taken == 1, "seed \(seed)", sourceLocation: sourceLocation)
        }
    }

    @Test("P27: The assertion is released once, when the last operation in the background has ended")
    func release() async throws {
        try await explore(seeds: 0..<200) { simulation, supervisor, provider in
            let gates = [Gate(), Gate()]
            let ordinary = supervisor.add(Probe { _ in try await gates[0].wait() })
            let upload = supervisor.add(Probe { _ in try await gates[1].wait() }, options: Self.mayContinue)
            for gate in gates { await gate.arrival() }
            let held = supervisor.add(Probe { _ in })
            await supervisor.enterBackground(grace: .seconds(30), provider: provider)
            gates[simulation.seed.isMultiple(of: 2) ? 0 : 1].open()
            _ = simulation.seed.isMultiple(of: 2) ? try await ordinary.value : try await upload.value
            #expect(provider.held.withLock { $0.count } == 1)
            for gate in gates { gate.open() }
            try await provider.release.wait()
            #expect(upload.state == .finished)
            #expect(held.state == .ready)
            await supervisor.enterForeground()
            try await held.value
        }
    }

    @Test("F22, P27: The assertion is released when the last operation in the background fails")
    func failure() async throws {
        try await explore { _, supervisor, provider in
            let gate = Gate()
            let upload = supervisor.add(
                Probe { _ in
                    try await gate.wait()
                    throw ProbeError()
                },
                options: Self.mayContinue
            )
            let dependent = supervisor.add(Probe { _ in }, after: [upload], options: Self.mayContinue)
            await gate.arrival()
            await supervisor.enterBackground(grace: .seconds(30), provider: provider)
            gate.open()
            await #expect(throws: ProbeError.self) { try await upload.value }
            try await provider.release.wait()
            #expect(dependent.error as? ProbeError == ProbeError(), "nothing continues after the failure")
        }
    }

    @Test("P27: An assertion that is granted after the last operation has ended is released at once")
    func lateGrant() async throws {
        try await explore(seeds: 0..<200, isGrantedLate: true) { _, supervisor, provider in
            let grant = try #require(provider.grant)
            let gate = Gate()
            let upload = supervisor.add(Probe { _ in try await gate.wait() }, options: Self.mayContinue)
            async let entry: Void = supervisor.enterBackground(grace: .seconds(30), provider: provider)
            await grant.arrival()
            gate.open()
            try await upload.value
            grant.open()
            await entry
            try await provider.release.wait()
        }
    }

    @Test("P27: An assertion that expires while it is being taken is released at once")
    func expiryWhileTaken() async throws {
        try await explore(isGrantedLate: true) { _, supervisor, provider in
            let grant = try #require(provider.grant)
            let upload = supervisor.add(Probe { _ in try await Gate().wait() }, options: Self.mayContinue)
            async let entry: Void = supervisor.enterBackground(grace: .seconds(30), provider: provider)
            await grant.arrival()
            provider.expire.withLock { $0 }?()
            _ = await upload.result
            #expect(upload.state == .cancelled)
            grant.open()
            await entry
            try await provider.release.wait()
        }
    }

    @Test("P27: Without operations that may continue no assertion is taken")
    func noWork() async throws {
        let provider = Provider()
        try await Simulation.run(seed: 0) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
            supervisor.add(Probe { _ in })
            await supervisor.enterBackground(grace: .seconds(30), provider: provider)
        }
        #expect(provider.taken.withLock { $0 } == 0)
    }

    @Test("P27: Operations added while the assertion is held keep it; operations added later run without one")
    func workAddedInBackground() async throws {
        try await explore { _, supervisor, provider in
            let gate = Gate()
            let first = supervisor.add(Probe { _ in try await gate.wait() }, options: Self.mayContinue)
            await supervisor.enterBackground(grace: .seconds(30), provider: provider)
            let second = supervisor.add(
                Probe { _ in #expect(provider.held.withLock { $0.count } == 1) },
                after: [first],
                options: Self.mayContinue
            )
            gate.open()
            try await second.value
            try await provider.release.wait()
            let late = supervisor.add(Probe { _ in }, options: Self.mayContinue)
            try await late.value
        }
    }

    @Test("P27: The assertion is held until the last operation's ending phase is over")
    func endingPhase() async throws {
        actor Slow: Operation {
            let gate: Gate
            init(_ gate: Gate) { self.gate = gate }
            func main(_ context: OperationContext) async throws {}
            func operationDidComplete(_ output: Void) async { try? await gate.wait() }
        }
        try await explore { _, supervisor, provider in
            let gate = Gate()
            supervisor.add(Slow(gate))
            await gate.arrival()
            await supervisor.enterBackground(grace: .seconds(30), provider: provider)
            #expect(provider.held.withLock { $0.count } == 1)
            gate.open()
            try await provider.release.wait()
        }
    }

    @Test("P27: The assertion is released even if the supervisor was released before", arguments: [false, true])
    func droppedSupervisor(runsUntilGrace: Bool) async throws {
        for seed in 0..<50 as Range<UInt64> {
            let provider = Provider()
            try await Simulation.run(seed: seed) { simulation in
                let start = simulation.clock.now
                let gate = Gate()
                let upload: OperationHandle<Void>
                do {
                    let supervisor = OperationSupervisor(.init(simulation))
                    upload = supervisor.add(Probe { _ in try await gate.wait() }, options: Self.mayContinue)
                    await gate.arrival()
                    await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                }
                if !runsUntilGrace { gate.open() }
                _ = await upload.result
                #expect(upload.state == (runsUntilGrace ? .cancelled : .finished))
                try await provider.release.wait()
                #expect(start.duration(to: simulation.clock.now) == (runsUntilGrace ? .seconds(30) : .zero))
            }
            #expect(provider.held.withLock { $0.isEmpty })
        }
    }

    @Test("P27: A second stay in the background takes an assertion of its own")
    func secondStay() async throws {
        for seed in 0..<50 as Range<UInt64> {
            let provider = Provider()
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation))
                let gate = Gate()
                supervisor.add(Probe { _ in try await gate.wait() }, options: Self.mayContinue)
                await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                await supervisor.enterForeground()
                #expect(provider.held.withLock { $0.isEmpty })
                await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                #expect(provider.held.withLock { $0.count } == 1)
                gate.open()
                try await supervisor.drain()
            }
            #expect(provider.held.withLock { $0.isEmpty })
            #expect(provider.taken.withLock { $0 } == 2)
        }
    }
}
