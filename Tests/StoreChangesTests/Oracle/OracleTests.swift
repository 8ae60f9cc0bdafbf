import GRDB
import StoreChanges
import Testing

@Suite("The oracle of the fold")
struct OracleTests {
    @Test("Each rule gives the state and the conflicts that it promises", arguments: FoldScenarios.all)
    func scenario(_ scenario: FoldScenario) throws {
        let outcome = try outcome(of: scenario, scenario.sets)
        #expect(outcome.rows == scenario.rows.sorted(by: bytewise))
        #expect(outcome.tombs == scenario.tombs.sorted(by: bytewise))
        #expect(outcome.conflicts == scenario.conflicts.sorted(by: bytewise))
        if let aliases = scenario.aliases { #expect(outcome.aliases == aliases.sorted(by: bytewise)) }
        for (rule, lost) in scenario.lost { #expect(outcome.lost[rule] == [lost]) }
    }

    @Test("The order in which sets arrive changes nothing", arguments: FoldScenarios.all)
    func order(_ scenario: FoldScenario) throws {
        #expect(try outcome(of: scenario, scenario.sets.reversed()) == outcome(of: scenario, scenario.sets))
    }

    private func outcome(of scenario: FoldScenario, _ sets: [SyncChangeSet]) throws -> FoldOutcome {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: scenario.schema)
            return try StoreSchema(db, rules: scenario.rules)
        }
        let violatesCheck: Oracle.CheckViolation = { scenario.violations[$0.table]?($1) ?? false }
        let oracle =
            if let indexKey = scenario.indexKey {
                Oracle(schema: schema, violatesCheck: violatesCheck, indexKey: indexKey)
            } else {
                Oracle(schema: schema, violatesCheck: violatesCheck)
            }
        let result = try oracle.fold(sets, over: StateContent())
        return FoldOutcome(result.content, result.conflicts)
    }
}
