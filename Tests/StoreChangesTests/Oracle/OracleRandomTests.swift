import GRDB
import StoreChanges
import TestSupport
import Testing

@Suite("The oracle of the fold, over random histories")
struct OracleRandomTests {
    static let schemas = [
        FoldScenarios.tags + FoldScenarios.notes + FoldScenarios.labels + FoldScenarios.items
            + "CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES tag ON DELETE CASCADE, body TEXT);",
        FoldScenarios.trees
            + "CREATE TABLE page (id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES file, name TEXT UNIQUE, t);"
            + "CREATE TABLE mark (a INTEGER REFERENCES page ON DELETE SET NULL, b TEXT);",
        """
        CREATE TABLE list (name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, body TEXT, alias TEXT UNIQUE);
        CREATE TABLE entry (
            id INTEGER PRIMARY KEY, list TEXT REFERENCES list ON DELETE CASCADE, place INT, body TEXT,
            up INTEGER REFERENCES entry ON DELETE SET NULL, UNIQUE (list, place)
        );
        CREATE TABLE seat (number INT UNIQUE, list TEXT REFERENCES list ON DELETE CASCADE);
        """,
        """
        CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE, phone INT UNIQUE, body TEXT);
        CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code) ON DELETE SET NULL, body TEXT);
        CREATE TABLE price (
            shop TEXT REFERENCES shop (code) ON DELETE CASCADE, day INT, cents TEXT, PRIMARY KEY (shop, day)
        );
        CREATE TABLE offer (
            id INTEGER PRIMARY KEY, shop TEXT, day INT, body TEXT, UNIQUE (day),
            FOREIGN KEY (shop, day) REFERENCES price ON DELETE RESTRICT
        );
        """,
    ]

    static let seeds = Array(TestDepth.seeds(quick: 60, ci: 400, deep: 20_000))

    @Test("Whatever devices do, constraints hold and no edit is lost", arguments: schemas)
    func histories(_ sql: String) throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try StoreSchema(db)
        }
        let oracle = Oracle(schema: schema)
        for seed in Self.seeds { try check(try RandomHistory(oracle, seed: seed), oracle, seed) }
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
