import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("Exclusion keys", .timeLimit(.minutes(60)))
struct ExclusionKeyTests {
    @Test("Operations with a key in common never run at the same time, in any order")
    func exclusive() async throws {
        for seed in 0..<200 as Range<UInt64> {
            let holders = Locked<[ExclusionKey: Int]>([:])
            let overlaps = Locked(0)
            try await Simulation.run(seed: seed) { simulation in
                var generator = SplitMix64(seed: seed)
                let supervisor = OperationSupervisor(.init(simulation, width: 3))
                for _ in 0..<12 {
                    let keys = Set((["a", "b", "c"] as [ExclusionKey]).filter { _ in Bool.random(using: &generator) })
                    supervisor.add(
                        Probe { _ in
                            overlaps.withLock { overlaps in
                                holders.withLock { holders in
                                    for key in keys {
                                        if holders[key, default: 0] > 0 { overlaps += 1 }
                                        holders[key, default: 0] += 1
                                    }
                                }
                            }
                            await Task.yield()
                            holders.withLock { holders in for key in keys { holders[key, default: 0] -= 1 } }
                        },
                        options: OperationOptions(keys: keys)
                    )
                }
                try await supervisor.drain()
            }
            #expect(overlaps.withLock { $0 } == 0, "seed \(seed)")
        }
    }

    @Test("An operation keeps its keys during a pause: an open prompt blocks its document, and no other")
    func pause() async throws {
        let supervisor = OperationSupervisor(width: 2)
        let gate = Gate()
        let asking = supervisor.add(
            Probe { context in try await context.pause(awaiting: "an answer") { try await gate.wait() } },
            options: OperationOptions(name: "upload", keys: ["document"])
        )
        let next = supervisor.add(Probe { _ in }, options: OperationOptions(keys: ["document"]))
        try await supervisor.add(Probe { _ in }, options: OperationOptions(keys: ["another"])).value
        await gate.arrival()
        #expect(next.state == .waiting)
        let explanation = "\(next.explain())"
        #expect(explanation.contains("upload") && explanation.contains("\"document\""), "\(explanation)")
        #expect("\(asking.explain())".contains("an answer"))
        gate.open()
        try await next.value
    }

    @Test("D2: A child uses its parent's keys while the parent waits for it; other operations wait for both")
    func lending() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let journal = Journal()
        let parent = supervisor.add(
            Probe("parent", journal) { context in
                let child = try context.addChild(
                    Probe("child", journal) { _ in 21 },
                    options: OperationOptions(keys: ["document"])
                )
                return try await child.value * 2
            },
            options: OperationOptions(keys: ["document"])
        )
        supervisor.add(Probe("stranger", journal) { _ in }, options: OperationOptions(keys: ["document"]))
        #expect(try await parent.value == 42)
        try await supervisor.drain()
        let mains = journal.all.filter { $0.hasSuffix("main") }
        #expect(mains == ["parent main", "child main", "stranger main"])
    }

    @Test("A child that needs a key its parent doesn't hold is refused, and the error names the key")
    func foreignKey() async throws {
        let supervisor = OperationSupervisor(width: 1)
        let parent = supervisor.add(
            Probe { context in
                _ = try context.addChild(Probe { _ in }, options: OperationOptions(keys: ["a", "b"]))
            },
            options: OperationOptions(keys: ["a"])
        )
        let error = await #expect(throws: OperationError.self) { try await parent.value }
        #expect(error?.code == .keyNotHeld)
        #expect(error?.description.contains("\"b\"") == true)
    }
}
