import GRDB
import Synchronization

/// The schema that a store had when it was last read.
///
/// Reading a schema takes dozens of statements, and one synchronization opens its store several times. A store whose tables,
/// indexes, views and triggers were created by the same statements has the same schema.
package final class SchemaMemory: Sendable {
    private struct Memory {
        let statements: [[StoredValue]]
        let rules: SyncRules
        let schema: StoreSchema
    }

    private let last = Mutex<Memory?>(nil)

    package init() {}

    /// Returns the schema of a store.
    ///
    /// - Parameters:
    ///   - store: The store, in a transaction.
    ///   - rules: What the schema doesn't say.
    /// - Returns: The schema.
    /// - Throws: `DatabaseError`.
    func schema(of store: Database, _ rules: SyncRules) throws -> StoreSchema {
        let statements = try Self.statements(of: store)
        if let memory = last.withLock({ $0 }), memory.statements == statements, memory.rules == rules {
            return memory.schema
        }
        let schema = try StoreSchema(store, rules: rules)
        last.withLock { $0 = Memory(statements: statements, rules: rules, schema: schema) }
        return schema
    }

    /// Whether a store has another schema than the schema that was read last.
    func isOutdated(for store: Database) throws -> Bool {
        let statements = try Self.statements(of: store)
        return last.withLock { $0.map { $0.statements != statements } ?? false }
    }

    private static func statements(of store: Database) throws -> [[StoredValue]] {
        try SQLConnection(store).all("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    }
}
