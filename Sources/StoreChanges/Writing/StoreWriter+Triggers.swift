/// The triggers of a store and of the app's connection, as far as it matters what they may write.
struct StoreTriggers {
    /// For each table or view with triggers, the names in their bodies.
    private var namesByTable: [String: Set<String>] = [:]

    init(of store: SQLConnection) throws {
        let triggers = try store.all(
            """
            SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'
            UNION ALL SELECT tbl_name, sql FROM sqlite_temp_schema WHERE type = 'trigger'
            """
        )
        for trigger in triggers { add(trigger.text(1) ?? "", on: trigger.text(0) ?? "") }
    }

    private mutating func add(_ statement: String, on table: String) {
        let body = SQLTokens(statement).tokens.drop { !$0.isKeyword("BEGIN") }
        namesByTable[table.sqlName, default: []].formUnion(body.compactMap(\.identifier?.sqlName))
    }

    func exist(on table: String) -> Bool { namesByTable[table.sqlName] != nil }

    /// The names in the bodies of all triggers.
    var names: Set<String> { namesByTable.values.reduce(into: []) { $0.formUnion($1) } }

    /// The names in the bodies of the triggers that may run when tables are written, and of the triggers that they run.
    func names(after written: some Sequence<String>) -> Set<String> {
        var named: Set<String> = []
        var reached = Array(written).map(\.sqlName)
        while let table = reached.popLast() {
            let new = (namesByTable[table] ?? []).subtracting(named)
            named.formUnion(new)
            reached += new
        }
        return named
    }
}

/// Writing without the triggers of the store and of the app's connection.
extension StoreWriter {
    /// Executes statements that run no triggers.
    ///
    /// - Parameter body: Executes them. If it throws, the transaction has to be rolled back.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func withoutTriggers(_ body: () throws -> Void) throws {
        let runsTriggers = try store.set(.triggers, enabled: false)
        defer { _ = try? store.set(.triggers, enabled: runsTriggers) }
        let temporaryTriggers = try dropTemporaryTriggers()
        try body()
        // Rolling back would create them again, too.
        for statement in temporaryTriggers { try store.execute(statement) }
    }

    /// Drops the temporary triggers on the store's tables, which SQLite runs although triggers are disabled.
    ///
    /// - Returns: The statements that create them again.
    /// - Throws: `DatabaseError`.
    private func dropTemporaryTriggers() throws -> [String] {
        let triggers = try store.all(
            """
            SELECT name, sql FROM sqlite_temp_schema
            WHERE type = 'trigger' AND lower(tbl_name) IN (SELECT lower(name) FROM main.sqlite_schema) ORDER BY rowid
            """
        )
        return try triggers.compactMap { trigger in
            guard let name = trigger.text(0), let statement = trigger.text(1) else { return nil }
            try store.execute("DROP TRIGGER temp.\(name.quotedName)")
            // SQLite stores the statement without the word TEMP.
            return "CREATE TEMP \(statement.dropFirst("CREATE ".count))"
        }
    }
}
