/// Putting right what triggers and `ON CONFLICT REPLACE` did to rows that synchronize, and to search indexes.
extension StoreWriter {
    /// The tables of which more may have changed than was written: every table that a trigger names which may have run, and
    /// every written table with `ON CONFLICT REPLACE`, which deletes rows without an error.
    ///
    /// - Parameter written: The tables that were written.
    /// - Returns: The tables.
    /// - Throws: `DatabaseError`.
    func tablesToPutRight(after written: some Sequence<String>) throws -> [String] {
        let written = Set(written)
        let named = try triggers.names(after: written)
        let tables = state.schema.tables.filter { name, table in
            named.contains(name.sqlName) || table.schema.replacesOnConflict && written.contains(name)
        }
        return tables.keys.sorted { $0.precedes($1) }
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
                former: StoredRow(table.table, row.cells),
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
        for (name, content) in try virtualTables() {
            guard let content else { continue }
            let view = "SELECT 1 FROM sqlite_schema WHERE type = 'view' AND name = ? COLLATE NOCASE"
            let isView = try store.first(view, [.text(content)]) != nil
            // A view may show rows of any table.
            func isAmong(_ tables: Set<String>) -> Bool {
                isView ? !tables.isEmpty : tables.contains { $0.isSameName(as: content) }
            }
            guard isAmong(written), try isAmong(tables) || !triggers.names.contains(name.sqlName) else { continue }
            let rebuild = "INSERT INTO \(name.quotedName) (\(name.quotedName)) VALUES ('rebuild')"
            if try !attempt({ try store.execute(rebuild) }) { stale.append(name) }
        }
        return stale
    }

    /// The virtual tables that only triggers keep up to date: an R*Tree, or a full-text table that holds its own text.
    ///
    /// - Parameter tables: The tables whose triggers didn't run, since they failed or could have ended the transaction.
    /// - Returns: The virtual tables that their triggers name.
    /// - Throws: `DatabaseError`.
    func indexesOfTriggers(of tables: Set<String>) throws -> [String] {
        let named = try triggers.names(after: tables)
        return named.isEmpty
            ? [] : try virtualTables().filter { $0.content == nil && named.contains($0.name.sqlName) }.map(\.name)
    }

    /// The virtual tables, each with the table or view that it indexes, if it's a search index of one.
    private func virtualTables() throws -> [(name: String, content: String?)] {
        try store.all("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%'")
            .map { ($0.text(0) ?? "", SQLTokens($0.text(1) ?? "").contentOfSearchIndex) }
    }
}

extension SQLTokens {
    /// The table or view that a virtual table indexes by the option `content`; `nil` if it isn't a search index, or holds its
    /// text itself.
    var contentOfSearchIndex: String? {
        let tokens = tokens.drop { !$0.isKeyword("USING") }.dropFirst()
        guard tokens.first?.identifier?.sqlName.hasPrefix("fts") == true else { return nil }
        for index in tokens.indices.dropLast(2)
        where tokens[index].isKeyword("CONTENT") && tokens[index + 1] == .symbol("=") {
            return tokens[index + 2].identifier.flatMap { $0.isEmpty ? nil : $0 }
        }
        return nil
    }
}
