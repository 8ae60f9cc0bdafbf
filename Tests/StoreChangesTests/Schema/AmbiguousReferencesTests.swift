import GRDB
import StoreChanges
import Testing

@Suite("Columns with several foreign keys", .timeLimit(.minutes(60)))
struct AmbiguousReferencesTests {
    private func schema(_ sql: String, _ rules: SyncRules = .none) throws -> StoreSchema {
        try DatabaseQueue().write { db in
            try db.execute(sql: sql)
            return try StoreSchema(db, rules: rules)
        }
    }

    @Test(
        "A table doesn't synchronize if a column would hold rows of two tables, or rows and values that mean something",
        arguments: [
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES p2", true),
            ("FOREIGN KEY (x) REFERENCES detail, FOREIGN KEY (x) REFERENCES p2", true),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES code", true),
            ("FOREIGN KEY (x) REFERENCES year, FOREIGN KEY (x) REFERENCES p1", true),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES p1 (code)", true),
            ("FOREIGN KEY (x, y) REFERENCES pair, FOREIGN KEY (x) REFERENCES p2", true),
            ("FOREIGN KEY (x, y) REFERENCES pair, FOREIGN KEY (y) REFERENCES p2", true),
            ("FOREIGN KEY (x, y) REFERENCES pair, FOREIGN KEY (x) REFERENCES p1", false),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES p1 (id)", false),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES detail", false),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (y) REFERENCES p2", false),
            ("FOREIGN KEY (x) REFERENCES year, FOREIGN KEY (x) REFERENCES code", false),
            ("FOREIGN KEY (x) REFERENCES p1, FOREIGN KEY (x) REFERENCES artist", false),
        ]
    )
    func severalTables(foreignKeys: String, isExcluded: Bool) throws {
        let schema = try schema(
            """
            CREATE TABLE p1 (id INTEGER PRIMARY KEY, code INT UNIQUE);
            CREATE TABLE p2 (id INTEGER PRIMARY KEY);
            CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES p1);
            CREATE TABLE year (id INTEGER PRIMARY KEY CHECK (id IN (2025, 2026)));
            CREATE TABLE code (code INT PRIMARY KEY);
            CREATE TABLE pair (a INT REFERENCES p1, b INT, PRIMARY KEY (a, b));
            CREATE TABLE artist (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE swiftLocalizedCompare);
            CREATE TABLE item (k TEXT PRIMARY KEY NOT NULL, x INT, y INT, \(foreignKeys));
            """
        )
        let report = try #require(schema.reports.first { $0.table == "item" })
        #expect(report.synchronizes != isExcluded)
        #expect(report.reason?.contains("Give each foreign key columns of its own") == (isExcluded ? true : nil))
        #expect(
            schema.reports.filter { !$0.synchronizes }.map(\.table) == (isExcluded ? ["artist", "item"] : ["artist"])
        )
    }

    @Test("Rules that give the numbers of all these tables a meaning let the table synchronize")
    func meaningfulKeys() throws {
        let sql = """
            CREATE TABLE p1 (id INTEGER PRIMARY KEY);
            CREATE TABLE p2 (id INTEGER PRIMARY KEY);
            CREATE TABLE item (k TEXT PRIMARY KEY NOT NULL, x INT REFERENCES p1 REFERENCES p2);
            """
        let reason = try #require(try schema(sql).reports.first { $0.table == "item" }?.reason)
        #expect(reason.hasPrefix("By foreign keys, x has values of p1 and p2, but numbers of p1 and p2 differ"))
        #expect(try schema(sql, SyncRules(meaningfulKeys: ["p1"])).table("item") == nil)
        #expect(try schema(sql, SyncRules(meaningfulKeys: ["p1", "p2"])).table("item") != nil)
    }

    @Test("An integer key that refers to values with a meaning has a meaning too, or its table doesn't synchronize")
    func ownKey() throws {
        let sql = """
            CREATE TABLE year (id INTEGER PRIMARY KEY CHECK (id IN (2025, 2026)));
            CREATE TABLE goal (id INTEGER PRIMARY KEY REFERENCES year);
            """
        let reason = try #require(try schema(sql).reports.first { $0.table == "goal" }?.reason)
        #expect(reason.hasPrefix("By foreign keys, id has values of year, but numbers of goal differ"))
        #expect(try schema(sql, SyncRules(meaningfulKeys: ["goal"])).table("goal") != nil)
    }

    @Test("Without a table that doesn't synchronize, the keys of others may refer to each other alone")
    func remainingTables() throws {
        let sql = """
            CREATE TABLE person (id INTEGER PRIMARY KEY);
            CREATE TABLE husband (id INTEGER PRIMARY KEY REFERENCES wife REFERENCES person);
            CREATE TABLE wife (id INTEGER PRIMARY KEY REFERENCES husband);
            """
        #expect(try schema(sql).tables.map(\.name) == ["husband", "person", "wife"])
        #expect(try schema(sql + "CREATE UNIQUE INDEX u ON person (id * 2)").tables.isEmpty)
    }

    @Test("A row stays in its store whose column has the number of a row in each of two tables")
    func synchronized() throws {
        let devices = try DevicePair(
            """
            CREATE TABLE p1 (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE p2 (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE item (k TEXT PRIMARY KEY NOT NULL, x INTEGER REFERENCES p1 REFERENCES p2);
            """
        )
        let rows = "INSERT INTO p1 VALUES (5, 'a'); INSERT INTO p2 VALUES (5, 'b'); INSERT INTO item VALUES ('c', 5)"
        #expect(try devices.laptop.edit(rows))
        try devices.exchange()
        #expect(try devices.laptop.rows("SELECT x FROM item") == ["5"])
        for table in ["p1", "p2"] { #expect(try devices.phone.rows("SELECT id FROM \(table)") == ["5"]) }
    }
}
