/// Putting right what triggers and `ON CONFLICT REPLACE` did to rows that synchronize, and to search indexes.
extension StoreWriter {
    /// The tables of which more may have changed than was written: every table that a trigger names in its body, and every
    /// table with `ON CONFLICT REPLACE`, which deletes rows without an error.
    func tablesToPutRight() throws -> [String] {
        let named = try namesInTriggers()
        let tables = state.schema.tables.filter { named.contains($0.key.sqlName) || $0.value.schema.replacesOnConflict }
        return tables.keys.sorted { $0.precedes($1) }
    }

    /// All names in the bodies of triggers.
    private func namesInTriggers() throws -> Set<String> {
        let triggers = try store.all(
            """
            SELECT sql FROM sqlite_schema WHERE type = 'trigger'
            UNION ALL SELECT sql FROM sqlite_temp_schema WHERE type = 'trigger'
            """
        )
        var named: Set<String> = []
        for trigger in triggers.compactMap({ $0.text(0) }) {
            let body = SQLTokens(trigger).tokens.drop { !$0.isKeyword("BEGIN") }
            for case .word(let name) in body { named.insert(name.sqlName) }
            for case .quoted(let name) in body { named.insert(name.sqlName) }
            for case .text(let name) in body { named.insert(name.sqlName) }
        }
        return named
    }

    /// Writes the rows of a table that aren't as the state has them, and returns whether there were any.
    func putRight(_ name: String, mayRollBack: Bool) throws -> Bool {
        let table = try table(name)
        let refused = try ReplicaRefusals(state).names(of: name)
        var wrong: [Target] = []
        var isChanged = false
        var present: Set<RowName> = []
        var counts: [RowReference: Int] = [:]
        try table.forEachRow { row in
            guard !state.schema.isCounted(row.reference) else { return counts[row.reference, default: 0] += 1 }
            present.insert(row.reference.row)
            let target = Target(
                row: row.reference,
                former: StoredRow(try state.schema.table(name), row.cells),
                present: try state.row(row.reference)
            )
            guard target.former?.image != target.present?.image, !refused.contains(row.reference.row) else { return }
            // A row that stays keeps its number, by which other tables may know it.
            if try mayRollBack || target.present == nil || !tries(target) { wrong.append(target) }
            isChanged = true
        }
        for row in try state.names(of: name) where !present.contains(row) && !refused.contains(row) {
            isChanged = true
            let reference = RowReference(name, row)
            wrong.append(Target(row: reference, former: nil, present: try state.row(reference)))
        }
        var wrongCounts: [(row: RowReference, former: Int)] = []
        for row in Set(counts.keys).union(try state.countedNames(of: name).map { RowReference(name, $0) }).sorted() {
            let former = counts[row] ?? 0
            guard try former != state.count(row) ?? 0, !refused.contains(row.row) else { continue }
            wrongCounts.append((row, former))
        }
        let surplus = try rowIdentifiersOfSurplus(of: wrongCounts)
        for (row, former) in wrongCounts { try deleteSurplus(of: row, from: former, at: surplus[row]) }
        try writeTogether(wrong)
        try collectRefusals(wrongCounts, row: { $0.row }) { try insertMissing(of: $0.row, from: $0.former) }
        return try table.deleteUnnamedRows() || isChanged || !wrongCounts.isEmpty
    }

    /// Rebuilds the search indexes that triggers didn't keep up to date.
    ///
    /// - Parameters:
    ///   - tables: The tables whose triggers didn't run.
    ///   - written: All tables that were written. Where no trigger names an index of one, the app itself keeps it up to date.
    /// - Returns: The indexes that can't be rebuilt here, because only the app has their tokenizer or another function.
    /// - Throws: `DatabaseError`.
    func rebuildSearchIndexes(of tables: Set<String>, among written: some Sequence<String>) throws -> [String] {
        let written = tables.union(written)
        guard !written.isEmpty else { return [] }
        var stale: [String] = []
        lazy var named = Result { try namesInTriggers() }
        let statements = try store.all(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%USING fts%'"
        )
        for values in statements {
            guard let name = values.text(0), let statement = values.text(1),
                let content = SearchIndex.content(of: SQLTokens(statement))
            else { continue }
            let view = "SELECT 1 FROM sqlite_schema WHERE type = 'view' AND name = ? COLLATE NOCASE"
            let isView = try store.first(view, [.text(content)]) != nil
            // A view may show rows of any table.
            func isAmong(_ tables: Set<String>) -> Bool {
                isView ? !tables.isEmpty : tables.contains { $0.isSameName(as: content) }
            }
            guard isAmong(written), try isAmong(tables) || !named.get().contains(name.sqlName) else { continue }
            let rebuild = "INSERT INTO \(name.quotedName) (\(name.quotedName)) VALUES ('rebuild')"
            if try !attempt({ try store.execute(rebuild) }) { stale.append(name) }
        }
        return stale
    }
}

/// A full-text index of SQLite.
enum SearchIndex {
    /// The table or view that an index was created for with the option `content`; `nil` if it holds its text itself.
    static func content(of tokens: SQLTokens) -> String? {
        for index in tokens.tokens.indices.dropLast(2)
        where tokens.tokens[index].isKeyword("CONTENT") && tokens.tokens[index + 1] == .symbol("=") {
            switch tokens.tokens[index + 2] {
            case .word(let name), .quoted(let name), .text(let name): return name.isEmpty ? nil : name
            case .symbol, .other: return nil
            }
        }
        return nil
    }
}
