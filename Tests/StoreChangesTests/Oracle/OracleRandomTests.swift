import GRDB
import StoreChanges
import TestSupport
import Testing

@Suite("The oracle of the fold, over random histories")
struct OracleRandomTests {
    struct RandomSchema: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var sql: String

        var oracle: Oracle {
            get throws {
                let schema = try DatabaseQueue().write { db in
                    try db.execute(sql: sql)
                    return try StoreSchema(db)
                }
                return Oracle(schema: schema)
            }
        }
    }

    static let schemas = [
        RandomSchema(
            testDescription: "tags: unique names, keys that contain references, integer keys that are references",
            sql: FoldScenarios.tags + FoldScenarios.notes + FoldScenarios.labels + FoldScenarios.items
                + "CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES tag ON DELETE CASCADE, body TEXT);"
        ),
        RandomSchema(
            testDescription: "folders: a tree, CASCADE, NOT NULL, and rows without a key",
            sql: FoldScenarios.trees
                + "CREATE TABLE page (id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES file, name TEXT UNIQUE, t);"
                + "CREATE TABLE mark (a INTEGER REFERENCES page ON DELETE SET NULL, b TEXT);"
        ),
        RandomSchema(
            testDescription: "lists: positions, a key without regard to case, unique values of rows without a key",
            sql: """
                CREATE TABLE list (name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, body TEXT, alias TEXT UNIQUE);
                CREATE TABLE entry (
                    id INTEGER PRIMARY KEY, list TEXT REFERENCES list ON DELETE CASCADE, place INT, body TEXT,
                    up INTEGER REFERENCES entry ON DELETE SET NULL, UNIQUE (list, place)
                );
                CREATE TABLE seat (number INT UNIQUE, list TEXT REFERENCES list ON DELETE CASCADE);
                """
        ),
        RandomSchema(
            testDescription: "shops: references to unique columns, compound references",
            sql: """
                CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE, phone INT UNIQUE, body TEXT);
                CREATE TABLE sale (
                    id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code) ON DELETE SET NULL, body TEXT
                );
                CREATE TABLE price (
                    shop TEXT REFERENCES shop (code) ON DELETE CASCADE, day INT, cents TEXT, PRIMARY KEY (shop, day)
                );
                CREATE TABLE offer (
                    id INTEGER PRIMARY KEY, shop TEXT, day INT, body TEXT, UNIQUE (day),
                    FOREIGN KEY (shop, day) REFERENCES price ON DELETE RESTRICT
                );
                """
        ),
        RandomSchema(
            testDescription: "circles: tables that refer to each other, SET DEFAULT, and two parents",
            sql: """
                CREATE TABLE team (
                    id INTEGER PRIMARY KEY, name TEXT UNIQUE, leader INTEGER REFERENCES person ON DELETE SET DEFAULT, t
                );
                CREATE TABLE person (
                    id INTEGER PRIMARY KEY, team INTEGER REFERENCES team ON DELETE CASCADE, mail TEXT UNIQUE, t
                );
                CREATE TABLE member (
                    person INTEGER REFERENCES person ON DELETE CASCADE, team INTEGER REFERENCES team ON DELETE CASCADE,
                    role TEXT, PRIMARY KEY (person, team)
                ) WITHOUT ROWID;
                CREATE TABLE badge (
                    id INTEGER PRIMARY KEY, person INTEGER, team INTEGER, t, UNIQUE (person, team),
                    FOREIGN KEY (person, team) REFERENCES member ON DELETE SET NULL
                );
                """
        ),
        RandomSchema(
            testDescription: "authors: keys that contain a position in a list, with the list and without it",
            sql: """
                CREATE TABLE work (id INTEGER PRIMARY KEY, title TEXT UNIQUE);
                CREATE TABLE author (
                    work INTEGER NOT NULL REFERENCES work ON DELETE CASCADE, name TEXT NOT NULL, place INT NOT NULL, t,
                    PRIMARY KEY (work, name, place), UNIQUE (work, place)
                );
                CREATE TABLE line (
                    work INTEGER REFERENCES work ON DELETE CASCADE, word TEXT NOT NULL, place INT NOT NULL, t,
                    PRIMARY KEY (word, place), UNIQUE (work, place)
                );
                CREATE TABLE quote (
                    id INTEGER PRIMARY KEY, word TEXT, place INT, t, FOREIGN KEY (word, place) REFERENCES line ON DELETE SET NULL
                );
                """
        ),
    ]

    static let seeds = Array(TestDepth.seeds(quick: 4, ci: 10, deep: 20_000))

    @Test("Whatever devices do, constraints hold and no edit is lost", arguments: schemas)
    func histories(_ schema: RandomSchema) throws {
        let oracle = try schema.oracle
        for seed in Self.seeds { try check(try RandomHistory(oracle, seed: seed), oracle, seed) }
    }

    @Test("Sets that no store could have made keep the constraints too, and integrating them ends", arguments: schemas)
    func anySets(_ schema: RandomSchema) throws {
        let oracle = try schema.oracle
        for seed in Self.seeds {
            var random = RandomSets(oracle.schema, seed: seed)
            var content = StateContent()
            for set in random.sets() {
                content = try oracle.fold([set], over: content).content
                let view = Oracle.Integration(oracle, set, over: content)
                #expect(view.firstClash()?.rows.map(\.row) == nil, "seed \(seed)")
                #expect(view.danglingReferences == [], "seed \(seed)")
                #expect(Set(content.rows.keys).isDisjoint(with: content.tombs.keys), "seed \(seed)")
                #expect(content.aliases.filter { content.rows[$0.key.row] != nil }.isEmpty, "seed \(seed)")
            }
        }
    }

    @Test("Random histories meet every rule that needs no mark, CHECK or re-insertion")
    func coverage() throws {
        var missing: Set<Conflict.Rule> = [
            .overwritten, .deletedEdited, .deleteRefused, .consequenceRefused, .editOfDeleted, .merged, .takenBack,
            .moved,
            .broughtBack, .referenceCleared, .deletedWithParent, .leftOut, .countBelowZero,
        ]
        let oracles = try Self.schemas.map { try $0.oracle }
        for seed in UInt64(0)..<40 {
            for oracle in oracles where !missing.isEmpty {
                let history = try RandomHistory(oracle, seed: seed)
                missing.subtract(try oracle.fold(history.sets, over: StateContent()).conflicts.map(\.rule))
            }
        }
        #expect(missing == [])
    }

    private func check(_ history: RandomHistory, _ oracle: Oracle, _ seed: UInt64) throws {
        let sets = history.sets
        let (content, conflicts) = try oracle.fold(sets, over: StateContent())
        guard let last = sets.max(by: { $0.header.position < $1.header.position }) else { return }
        let view = Oracle.Integration(oracle, last, over: content)
        #expect(view.firstClash()?.rows.map(\.row) == nil, "seed \(seed)")
        #expect(view.danglingReferences == [], "seed \(seed)")
        #expect(view.forbiddenNulls == [], "seed \(seed)")
        #expect(Set(content.rows.keys).isDisjoint(with: content.tombs.keys), "seed \(seed)")

        let reversed = try oracle.fold(sets.reversed(), over: StateContent())
        #expect(reversed.content == content && reversed.conflicts == conflicts, "seed \(seed)")
        let earlier = try oracle.fold(sets.filter { $0 != last }, over: StateContent())
        let stepwise = try oracle.fold([last], over: earlier.content)
        #expect(stepwise.content == content && earlier.conflicts + stepwise.conflicts == conflicts, "seed \(seed)")

        let logged = Set(conflicts.flatMap(\.lost.values).compactMap(\.historyText))
        let present = content.texts
        for (text, removers) in history.removals where removers.isEmpty && !present.contains(text) {
            #expect(logged.contains(text), "seed \(seed): \(String(decoding: text, as: UTF8.self)) is lost")
        }
    }
}

extension AliasKey {
    /// The row that has the former name; of a row of another name if the alias is one of other columns.
    fileprivate var row: RowReference {
        if case .row(let name) = cells.first, columns.count == 1 { return RowReference(table, name) }
        return RowReference(table, .key(cells))
    }
}
