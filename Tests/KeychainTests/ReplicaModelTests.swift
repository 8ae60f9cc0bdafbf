import Testing

@Suite("Synchronizable items on four devices", .timeLimit(.minutes(60)))
struct ReplicaModelTests {
    @Test("K8: after any order of edits, blitzes, joining, old files and crashes, all devices agree with the model")
    func convergence() throws {
        var collected = 0
        for seed in seeds(300) {
            var fixture = ReplicaFixture(seed: seed)
            for _ in 0..<100 { try fixture.step() }
            try fixture.settle()
            collected += fixture.collected
        }
        #expect(collected > 1_000, "only \(collected) tombstones were removed")
    }
}
