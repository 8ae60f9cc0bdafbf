import Synchronization
import TestSupport
import Testing
import ThreadSupport

@testable import Operations
@testable import OperationsTesting

@Suite("The guarantees of a run, in many seeded orders", .timeLimit(.minutes(60)))
struct OperationGuaranteesTests {
    /// Checks the journal of one run against the promised order; returns `nil` if it is as promised.
    private func violation(in journal: [String], ended state: OperationState) -> String? {
        var open: String?
        var last = 0.0
        var endings = 0
        for entry in journal {
            let isOver = entry.hasSuffix(" over")
            let phase = isOver ? String(entry.dropLast(5)) : entry
            if isOver {
                guard open == phase else { return "\(phase) was overlapped by \(open ?? "nothing")" }
                open = nil
                continue
            }
            if endings > 0 { return "\(entry) after the ending" }
            if phase == "a main" { continue }
            // Progress may come while main runs; main isn't a phase, so phases never overlap each other.
            if let open { return "\(phase) overlaps \(open)" }
            open = phase
            if phase.hasPrefix("a progress "), let fraction = Double(phase.dropFirst(11)) {
                if fraction < last || fraction >= 1 { return "progress went from \(last) to \(fraction)" }
                last = fraction
            }
            if ["a complete", "a fail", "a cancel"].contains(phase) { endings += 1 }
        }
        if let open { return "\(open) never ended" }
        if journal.isEmpty { return state == .cancelled ? nil : "no phases, but \(state)" }
        guard journal[0] == "a start", endings == 1 else { return "\(endings) endings: \(journal)" }
        let expected: [OperationState: String] = [.finished: "a complete", .failed: "a fail", .cancelled: "a cancel"]
        return journal.contains(expected[state] ?? "") ? nil : "\(state), but \(journal)"
    }

    @Test("D1: An operation has a start, progress and exactly one end, in every order, cancelled anywhere")
    func guarantees() async throws {
        var outcomes: [OperationState: Int] = [:]
        let seeds = TestDepth.seeds(quick: 2_000, ci: 5_000, deep: 1_000_000)
        let start = ContinuousClock.now
        var rest = seeds
        while !rest.isEmpty {
            // Simulations share their threads. With a turn for each seed, these short runs would wait for a long run of
            // another test 20,000 times.
            let batch = rest.prefix(50)
            rest = rest.dropFirst(batch.count)
            let states = try await runBlocking(on: SimulationThread.next()) { [self] in
                try batch.map { seed in
                    let journal = Journal()
                    let state = try run(seed, journal)
                    return (state, violation(in: journal.all, ended: state).map { "seed \(seed): \($0)" })
                }
            }
            for (state, violation) in states {
                outcomes[state, default: 0] += 1
                if let violation {
                    Issue.record("\(violation)")
                    return
                }
            }
        }
        // A search that never reaches one of the endings proves nothing about it.
        for state in [OperationState.finished, .failed, .cancelled] { #expect(outcomes[state, default: 0] > 100) }
        let rate = Double(seeds.count) / (start.duration(to: .now) / .seconds(1))
        print("\(seeds.count) orders of a run, \(Int(rate)) a second")
    }

    /// Runs an operation on this thread, and cancels it at a step.
    private func run(_ seed: UInt64, _ journal: Journal) throws -> OperationState {
        var generator = SplitMix64(seed: seed ^ 0xFEED)
        let cancelAt = Int.random(in: 0..<60, using: &generator)
        let fails = Bool.random(using: &generator)
        let reports = Int.random(in: 0...4, using: &generator)
        let pauses = Bool.random(using: &generator)
        let cancel = Locked<(@Sendable () -> Void)?>(nil)
        let run = SimulationRun(seed: seed, limits: Simulation.Limits()) { simulation in
            let supervisor = OperationSupervisor(.init(simulation, width: 1))
            let handle = supervisor.add(
                Probe("a", journal) { context in
                    for report in 0..<reports {
                        context.reportProgress(Double((report * 7) % 5) / 4)
                        await Task.yield()
                        try Task.checkCancellation()
                    }
                    if pauses { try await context.pause(awaiting: "an answer") { await Task.yield() } }
                    if fails { throw ProbeError() }
                }
            )
            cancel.withLock { $0 = { handle.cancel() } }
            supervisor.add(Probe("b") { _ in await Task.yield() })
            _ = await handle.result
            try await supervisor.drain()
            cancel.withLock { $0 = nil }
            return handle.state
        }
        return try run.run { step in if step == cancelAt { cancel.withLock { $0 }?() } }.result.get()
    }

    @Test("F17: An operation that is cancelled at any step ends once, and the supervisor continues")
    func cancelEverywhere() async throws {
        for cancelAt in 0..<40 {
            let journal = Journal()
            let cancel = Mutex<(@Sendable () -> Void)?>(nil)
            try await Simulation.run(
                seed: 1,
                beforeStep: { step in if step == cancelAt { cancel.withLock { $0 }?() } },
                { simulation in
                    let supervisor = OperationSupervisor(.init(simulation, width: 1))
                    let handle = supervisor.add(
                        Probe("a", journal) { context in
                            _ = try await context.temporaryDirectory()
                            for step in 0..<5 {
                                context.reportProgress(Double(step) / 5)
                                await Task.yield()
                            }
                        }
                    )
                    cancel.withLock { $0 = { handle.cancel() } }
                    _ = await handle.result
                    let next = try await supervisor.add(Probe { _ in 5 }).value
                    #expect(next == 5)
                    cancel.withLock { $0 = nil }
                }
            )
            let endings = journal.all.filter { ["a complete", "a cancel"].contains($0) }
            #expect(endings.count == (journal.all.isEmpty ? 0 : 1))
        }
    }
}
