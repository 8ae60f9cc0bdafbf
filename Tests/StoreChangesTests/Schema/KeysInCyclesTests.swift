import GRDB
import StoreChanges
import Testing

@Suite("Integer keys that refer to integer keys")
struct KeysInCyclesTests {
    @Test("Tables whose integer keys refer to each other don't synchronize, unless their numbers mean something")
    func keysInCycle() throws {
        func schema(_ rules: SyncRules = .none) throws -> StoreSchema {
            try DatabaseQueue().write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE husband (id INTEGER PRIMARY KEY REFERENCES wife);
                        CREATE TABLE wife (id INTEGER PRIMARY KEY REFERENCES husband);
                        CREATE TABLE address (id INTEGER PRIMARY KEY REFERENCES husband);
                        CREATE TABLE child (id INTEGER PRIMARY KEY REFERENCES child, husband INTEGER REFERENCES husband);
                        CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES child);
                        """
                )
                return try StoreSchema(db, rules: rules)
            }
        }
        let excluded = try schema().reports.filter { !$0.synchronizes }
        #expect(excluded.map(\.table) == ["address", "husband", "wife"])
        #expect(excluded.allSatisfy { $0.reason?.contains("Remove a foreign key") == true })
        let all = try schema(SyncRules(meaningfulKeys: ["address", "husband", "wife"]))
        #expect(all.tables.map(\.name) == ["address", "child", "detail", "husband", "wife"])
    }
}
