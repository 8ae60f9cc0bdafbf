import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Operations while the app is in the background", .timeLimit(.minutes(30)))
struct BackgroundTests {
    /// Hands out assertions and counts them, as UIApplication would.
    final class Provider: BackgroundActivityProvider {
        let held = Locked<Set<Int>>([])
        let taken = Locked(0)
        let expire = Locked<(@Sendable () -> Void)?>(nil)

        func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int? {
            expire.withLock { $0 = expired }
            let identifier = taken.withLock { count in
                count += 1
                return count
            }
            held.withLock { _ = $0.insert(identifier) }
            await Task.yield()
            return identifier
        }

        func endActivity(_ identifier: Int) async {
            let wasHeld = held.withLock { $0.remove(identifier) != nil }
            #expect(wasHeld, "an assertion was given back twice")
        }
    }

    @Test("P27 P28: only what may continue starts, under one assertion, which is given back in the foreground")
    func background() async throws {
        for seed in 0..<200 as Range<UInt64> {
            let provider = Provider()
            try await Simulation.run(seed: seed) { simulation in
                let supervisor = OperationSupervisor(.init(simulation, isSuspended: true))
                let ordinary = supervisor.add(Probe { _ in })
                let upload = supervisor.add(
                    Probe { context in context.mayContinueInBackground },
                    options: OperationOptions(mayContinueInBackground: true)
                )
                await supervisor.enterBackground(grace: .seconds(30), provider: provider)
                supervisor.isSuspended = false
                #expect(try await upload.value)
                #expect(ordinary.state == .ready)
                #expect(provider.held.withLock { $0.count } == 1)
                await supervisor.enterForeground()
                try await ordinary.value
            }
            #expect(provider.held.withLock { $0.isEmpty })
        }
    }

    @Test("P27: when the grace or the assertion ends, what runs is cancelled and the assertion is given back")
    func expiry() async throws {
        for systemLosesPatience in [true, false] {
            let provider = Provider()
            try await Simulation.run(seed: 3) { simulation in
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
                let isEarly = simulation.clock.now.duration(to: simulation.clock.now) == .zero
                #expect(isEarly)
            }
            #expect(provider.held.withLock { $0.isEmpty })
        }
    }

    @Test("P27: the end of the grace starts nothing that only waited for the end of what it cancels")
    func expiryStartsNothing() async throws {
        try await Simulation.run(seed: 1) { simulation in
            let supervisor = OperationSupervisor(.init(simulation))
            let journal = Journal()
            let options = OperationOptions(mayContinueInBackground: true, keys: ["a"])
            supervisor.add(Probe { _ in try await Gate().wait() }, options: options)
            let waiting = supervisor.add(Probe { _ in }, options: options)
            let dependentOptions = OperationOptions(mayContinueInBackground: true)
            supervisor.add(Probe("dependent", journal) { _ in }, after: [waiting.ending], options: dependentOptions)
            await supervisor.enterBackground(grace: .seconds(1))
            try await supervisor.drain()
            #expect(journal.all.isEmpty)
        }
    }
}
