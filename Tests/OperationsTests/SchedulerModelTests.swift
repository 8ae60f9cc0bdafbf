import OperationsTesting
import TestSupport
import Testing

@testable import Operations

@Suite("The scheduler's rules, compared with a model")
struct SchedulerModelTests {
    private func explore(_ seeds: Range<UInt64>, _ shape: SchedulerProgram.Shape) -> (events: Int, grants: Int) {
        var (events, grants) = (0, 0)
        for seed in seeds {
            do {
                var program = SchedulerProgram(seed: seed, shape: shape)
                events += try program.run()
                grants += program.grantCount
            } catch {
                Issue.record("seed \(seed): \(error)")
                break
            }
        }
        return (events, grants)
    }

    @Test("D2, D5: random programs follow the rules at every event, and all of them drain")
    func programs() {
        let seeds = TestDepth.seeds(quick: 2_000, ci: 3_000, deep: 1_000_000)
        let (events, grants) = explore(seeds, SchedulerProgram.Shape())
        // A search with few events and grants would prove little.
        #expect(events > seeds.count * 15 && grants > seeds.count * 3)
    }

    @Test("random programs follow the rules at the 32nd grant, which takes the oldest operation")
    func ageing() {
        _ = explore(TestDepth.seeds(quick: 400, ci: 1_000, deep: 200_000), SchedulerProgram.Shape(warmUp: 20...31))
    }

    @Test("nothing starves in long programs: an eligible operation gets a slot after a bounded number of grants")
    func starvation() {
        _ = explore(
            TestDepth.seeds(quick: 20, ci: 40, deep: 10_000),
            SchedulerProgram.Shape(steps: 400...600, maximum: 25)
        )
    }
}
