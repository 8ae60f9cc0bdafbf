import GRDB
import StoreChanges
import Testing

@Suite("Unique values that are calculated")
struct CalculatedNumbersTests {
    @Test(
        "A table doesn't synchronize whose unique values are calculated from numbers that devices assign",
        arguments: [
            ("UNIQUE INDEX u ON item (list * 1000 + pos)", true),
            ("UNIQUE INDEX u ON item (pos, \"LIST\" << 32 | pos)", true),
            ("UNIQUE INDEX u ON item (coalesce(list, 0) - pos)", true), ("UNIQUE INDEX u ON item (id % 10)", true),
            ("UNIQUE INDEX u ON item (outer)", true), ("UNIQUE INDEX u ON item (list, pos * 2)", false),
            ("UNIQUE INDEX u ON item (ifnull(list, -1), pos)", false), ("INDEX u ON item (list * 1000 + pos)", false),
            ("UNIQUE INDEX u ON item (CASE WHEN list > 0 THEN list ELSE -1 END || '-' || pos)", false),
            ("UNIQUE INDEX u ON item (year * 1000 + pos)", false), ("UNIQUE INDEX u ON item (half, list)", false),
        ]
    )
    func calculatedNumbers(index: String, isExcluded: Bool) throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE list (id INTEGER PRIMARY KEY);
                    CREATE TABLE year (id INTEGER PRIMARY KEY CHECK (id IN (2025, 2026)));
                    CREATE TABLE item (
                        id INTEGER PRIMARY KEY, list INTEGER REFERENCES list, year INT REFERENCES year, pos INT,
                        half INT AS (pos / 2), "inner" INT AS (list * (1000) + pos), 'outer' AS ("inner")
                    );
                    CREATE \(index);
                    """
            )
            return try StoreSchema(db)
        }
        let report = try #require(schema.reports.first { $0.table == "item" })
        #expect(report.synchronizes != isExcluded)
        #expect(report.reason?.contains("themselves unique") == (isExcluded ? true : nil))
        #expect((schema.table("item") == nil) == isExcluded)
        #expect(schema.unsynchronizedReferences.map(\.table) == (isExcluded ? ["item", "item"] : []))
    }
}
