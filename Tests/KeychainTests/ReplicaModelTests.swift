import TestSupport
import Testing

@Suite("Synchronizable items on four devices", .timeLimit(.minutes(60)))
struct ReplicaModelTests {
    @Test("K8: After any order of edits, blitzes, joining, old files and crashes, all devices agree with the model")
    func convergence() throws {
        var collected = 0
        let seeds = TestDepth.seeds(quick: 60, ci: 90, deep: 15_000)
        for seed in seeds {
            var fixture = ReplicaFixture(seed: seed)
            for _ in 0..<100 { try fixture.step() }
            try fixture.settle()
            collected += fixture.collected
        }
        #expect(collected > 3 * seeds.count, "only \(collected) tombstones were removed")
    }
}
