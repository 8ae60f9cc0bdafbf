import OperationsTesting
import TestSupport
import Testing

@testable import Operations

@Suite("The scheduler's rules, compared with a model")
struct SchedulerModelTests {
    /// What the programs of some seeds did, all together.
    private struct Coverage {
        var events = 0
        var grants = 0
        /// The number of programs that reached the grant that takes the oldest operation, the 32nd.
        var aged = 0
    }

    private func explore(_ seeds: Range<UInt64>, _ shape: SchedulerProgram.Shape) -> Coverage {
        var coverage = Coverage()
        for seed in seeds {
            do {
                var program = SchedulerProgram(seed: seed, shape: shape)
                coverage.events += try program.run()
                coverage.grants += program.grantCount
                if program.state.grantCount >= SchedulerState.ageingInterval { coverage.aged += 1 }
            } catch {
                Issue.record("seed \(seed): \(error)")
                break
            }
        }
        return coverage
    }

    @Test("D2, D5: Random programs follow the rules at every event, and all of them drain")
    func programs() {
        let seeds = TestDepth.seeds(quick: 2_000, ci: 3_000, deep: 1_000_000)
        let coverage = explore(seeds, SchedulerProgram.Shape())
        // A search with few events and grants would prove little.
        #expect(coverage.events > seeds.count * 15 && coverage.grants > seeds.count * 3, "\(coverage)")
    }

    @Test("Random programs follow the rules at the 32nd grant, which takes the oldest operation")
    func ageing() {
        let seeds = TestDepth.seeds(quick: 400, ci: 1_000, deep: 200_000)
        let coverage = explore(seeds, SchedulerProgram.Shape(warmUp: 20...31))
        #expect(coverage.aged > seeds.count / 2, "\(coverage)")
    }

    @Test("Nothing starves in long programs: an eligible operation gets a slot after a bounded number of grants")
    func starvation() {
        let seeds = TestDepth.seeds(quick: 20, ci: 40, deep: 10_000)
        let coverage = explore(seeds, SchedulerProgram.Shape(steps: 400...600, maximum: 25))
        // On average, a program has more grants than the interval after which the oldest operation gets one.
        #expect(coverage.grants > seeds.count * SchedulerState.ageingInterval, "\(coverage)")
    }
}
