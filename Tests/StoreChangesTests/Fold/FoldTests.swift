import GRDB
import StoreChanges
import TestSupport
import Testing

@Suite("The fold", .timeLimit(.minutes(60)))
struct FoldTests {
    /// Folds sets one after the other in the total order.
    private func fold(
        _ sets: [SyncChangeSet],
        _ schema: FoldSchema
    ) throws -> (content: StateContent, conflicts: [Conflict]) {
        var content = StateContent()
        var conflicts: [Conflict] = []
        let sorted = sets.sorted { $0.header.position < $1.header.position }
        for (index, set) in sorted.enumerated() {
            var schemas = FoldedSchemas()
            schemas.migrations = sorted[..<index].filter {
                set.header.isMigration && $0.header.isMigration && $0.header.schema == set.header.schema
            }
            let reader = StateContentReader(content, schema)
            let (delta, more) = try Fold(schema).apply(set, to: reader, schemas: schemas)
            let former = content
            content.apply(delta)
            var undone = content
            undone.undo(delta)
            #expect(undone == former, "undoing a set gives the state before it")
            conflicts += more
        }
        return (content, conflicts)
    }

    /// Evaluates what a scenario says.
    private struct ScenarioEvaluator: ExpressionEvaluator {
        let scenario: FoldScenario

        func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) throws -> [Cell]? {
            guard let indexKey = scenario.indexKey else {
                return PlainEvaluator().values(of: index, in: table, cells)
            }
            return indexKey(index, table.name, cells)
        }

        func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) throws -> Bool {
            scenario.violations[table.name]?(cells) ?? false
        }
    }

    @Test("Each rule gives the state and the conflicts that it promises", arguments: FoldScenarios.all)
    func scenario(_ scenario: FoldScenario) throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: scenario.schema)
            return try StoreSchema(db, rules: scenario.rules)
        }
        let result = try fold(scenario.sets, FoldSchema(schema, evaluator: ScenarioEvaluator(scenario: scenario)))
        let outcome = FoldOutcome(result.content, result.conflicts)
        #expect(outcome.rows == scenario.rows.sorted(by: bytewise))
        #expect(outcome.tombs == scenario.tombs.sorted(by: bytewise))
        #expect(outcome.conflicts == scenario.conflicts.sorted(by: bytewise))
        if let aliases = scenario.aliases { #expect(outcome.aliases == aliases.sorted(by: bytewise)) }
        for (rule, lost) in scenario.lost { #expect(outcome.lost[rule] == [lost]) }
    }

    @Test("Consequences of a refused delete are logged after the deletes that they follow from")
    func refusedConsequences() throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE root (name TEXT NOT NULL PRIMARY KEY, x);
                    CREATE TABLE item (
                        id INTEGER PRIMARY KEY, root TEXT REFERENCES root ON DELETE CASCADE,
                        up INTEGER REFERENCES item ON DELETE CASCADE, down INTEGER REFERENCES item ON DELETE CASCADE
                    );
                    """
            )
            return FoldSchema(try StoreSchema(db))
        }
        func item(_ root: TestCell, _ up: TestCell, _ down: TestCell) -> [String: TestCell] {
            ["root": root, "up": up, "down": down]
        }
        // Item 3 belongs to the root, 1 to 3, 2 to 3 and 1, 4 to 2 and a row that is deleted.
        let items: [(name: TestName, cells: [String: TestCell], parents: [(String, TestName)])] = [
            ("A#1", item(nil, .to("A#3"), nil), [("item", "A#3")]),
            ("A#2", item(nil, .to("A#3"), .to("A#1")), [("item", "A#3"), ("item", "A#1")]),
            ("A#3", item("r", nil, nil), [("root", ["r"])]),
            ("A#4", item(nil, .to("A#2"), .to("A#5")), [("item", "A#2"), ("item", "A#5")]),
            ("A#5", item(nil, nil, nil), []),
        ]
        var first = SyncChangeSet.by("A", 1, at: 1, .insert("root", ["r"], ["x": 1]))
        var last = SyncChangeSet.by("C", 1, at: 3, seeing: ["A": 1], .delete("root", ["r"], knowing: ["x": 1]))
        for (name, cells, parents) in items {
            first = first.adding(.insert("item", name, cells))
            last = last.adding(.delete("item", name, knowing: cells, with: parents))
        }
        let (content, conflicts) = try fold(
            [first, .by("B", 1, at: 2, .insert("root", ["r"], ["x": 1])), last],
            schema
        )
        #expect(
            conflicts.filter { $0.rule == .consequenceRefused }.map(\.row)
                == (["A#3", "A#1", "A#2"] as [TestName]).map { RowReference("item", $0.name) }
        )
        #expect(Set(content.tombs.keys) == Set((["A#4", "A#5"] as [TestName]).map { RowReference("item", $0.name) }))
    }

    /// Counts the values of indexes that it's asked for.
    private final class CountingEvaluator: ExpressionEvaluator {
        private(set) var count = 0

        func values(of index: UniqueIndex, in table: TableSchema, _ cells: [String: Cell]) -> [Cell]? {
            count += 1
            return PlainEvaluator().values(of: index, in: table, cells)
        }

        func violatesCheck(_ table: TableSchema, _ cells: [String: Cell]) -> Bool { false }
    }

    @Test("The values of many rows that are merged because of one index are evaluated a few times for each row")
    func manyEqualValues() throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE user (id INTEGER PRIMARY KEY, phone TEXT, name TEXT);
                    CREATE UNIQUE INDEX i ON user (phone) WHERE name IS NOT NULL;
                    """
            )
            return try StoreSchema(db)
        }
        // The author doesn't have the index yet.
        let count = 100
        var set = SyncChangeSet.by("B", 1, at: 2)
        for number in 1...count {
            let name = TestName(stringLiteral: "B#\(number)")
            let cells: [String: TestCell] = ["phone": "", "name": TestCell(stringLiteral: "\(number)")]
            set = set.adding(.insert("user", name, cells))
        }
        let sets = [.by("A", 1, at: 1, .insert("user", "A#1", ["phone": "", "name": "a"])), set]
        let evaluator = CountingEvaluator()
        let result = try fold(sets, FoldSchema(schema, evaluator: evaluator))
        let expected = try Oracle(schema: schema).fold(sets, over: StateContent())
        #expect(FoldOutcome(result.content, result.conflicts) == FoldOutcome(expected.content, expected.conflicts))
        #expect(result.conflicts.map(\.row) == expected.conflicts.map(\.row))
        #expect(result.conflicts.count == count)
        #expect(evaluator.count < 10 * count)
    }

    @Test("A random history gives what the oracle gives", arguments: OracleRandomTests.schemas)
    func oracle(_ schema: OracleRandomTests.RandomSchema) throws {
        let oracle = try schema.oracle
        let production = try DatabaseQueue().write { db in
            try db.execute(sql: schema.sql)
            return FoldSchema(try StoreSchema(db))
        }
        for seed in OracleRandomTests.seeds {
            let sets = try RandomHistory(oracle, seed: seed).sets
            let expected = try oracle.fold(sets, over: StateContent())
            let result = try fold(sets, production)
            #expect(
                FoldOutcome(result.content, result.conflicts) == FoldOutcome(expected.content, expected.conflicts),
                "seed \(seed)"
            )
        }
    }

    @Test(
        "Sets that no store could have made give what the oracle gives, also if their deletes leave references",
        arguments: OracleRandomTests.schemas,
        [false, true]
    )
    func anySets(_ schema: OracleRandomTests.RandomSchema, leavesReferences: Bool) throws {
        let oracle = try schema.oracle
        let production = try DatabaseQueue().write { db in
            try db.execute(sql: schema.sql)
            return FoldSchema(try StoreSchema(db))
        }
        for seed in OracleRandomTests.seeds {
            var random = RandomSets(oracle.schema, seed: seed, leavesReferences: leavesReferences)
            let sets = random.sets()
            let expected = try oracle.fold(sets, over: StateContent())
            let result = try fold(sets, production)
            #expect(
                FoldOutcome(result.content, result.conflicts) == FoldOutcome(expected.content, expected.conflicts),
                "seed \(seed)"
            )
        }
    }
}
