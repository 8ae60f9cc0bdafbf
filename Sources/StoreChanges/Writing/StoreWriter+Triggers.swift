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
