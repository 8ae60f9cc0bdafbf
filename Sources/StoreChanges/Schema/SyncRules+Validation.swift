package import Foundation
package import GRDB

extension SyncRules {
    /// Checks that a store has what the rules name: with a misspelt name, a table would travel that its author excludes.
    ///
    /// Blocks.
    ///
    /// - Parameter store: The store.
    /// - Throws: ``StoreChangesError``, with `invalidRules` for a name that the store doesn't have.
    package func validate(forStoreAt store: URL) throws {
        guard self != .none else { return }
        try StoreSchema.requireStore(at: store)
        do {
            try UntouchedStore(store).read(validate)
        } catch let error as DatabaseError {
            throw StoreChangesError(error, storeAt: store)
        }
    }

    /// Checks that a store has what the rules name.
    ///
    /// - Parameter db: The store.
    /// - Throws: ``StoreChangesError`` with `invalidRules`; `DatabaseError`.
    package func validate(_ db: Database) throws {
        let names = RuledNames(db)
        for table in excludedTables + meaningfulKeys { try names.requireTable(table) }
        for reference in references {
            try names.requireColumns(reference.columns, of: reference.table)
            try names.requireColumns(reference.parentColumns ?? [], of: reference.parent)
            try names.requireAsManyColumns(reference)
        }
        for unique in uniques {
            try names.requireColumns(unique.columns, of: unique.table)
            try names.requireUniqueIndex(of: unique.columns, of: unique.table)
        }
        try requirePositions(in: db)
    }

    /// Checks that rows can move in the lists of which the rules say that an index is a position.
    private func requirePositions(in db: Database) throws {
        let positions = uniques.filter { $0.kind == .position }
        guard !positions.isEmpty else { return }
        let schema = try StoreSchema(db, rules: self)
        for rule in positions {
            guard let table = schema.table(rule.table) else { continue }
            let obstacles = table.uniques.filter(rule.names).map(table.obstacle)
            guard let obstacle = obstacles.first, let obstacle, !obstacles.contains(nil) else { continue }
            throw StoreChangesError(
                .invalidRules,
                """
                The rules take (\(rule.columns.joined(separator: ", "))) of \(table.name) for a position in a list. Its rows \
                can't move to the list's end. \(obstacle) Remove the rule, or make a list's columns and an integer unique.
                """
            )
        }
    }
}

/// The names that rules may use.
private struct RuledNames {
    let db: Database

    init(_ db: Database) { self.db = db }

    func requireTable(_ table: String) throws {
        let tables = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_list WHERE schema = 'main'")
        guard !tables.contains(where: { $0.isSameName(as: table) }) else { return }
        throw invalid("a table “\(table)”")
    }

    func requireColumns(_ columns: [String], of table: String) throws {
        try requireTable(table)
        let all = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [table])
        if let unknown = columns.first(where: { column in !all.contains { $0.isSameName(as: column) } }) {
            throw invalid("a column “\(unknown)” of \(table)")
        }
    }

    /// Checks that a reference leads to as many columns as it has: otherwise it would be ignored.
    func requireAsManyColumns(_ reference: SyncRules.Reference) throws {
        let parentColumns = try reference.parentColumns ?? SchemaReader.primaryKey(of: reference.parent, in: db)
        guard reference.columns.isEmpty || reference.columns.count != parentColumns.count else { return }
        let isNamed = reference.parentColumns != nil
        throw StoreChangesError(
            .invalidRules,
            """
            The rules take (\(reference.columns.joined(separator: ", "))) of \(reference.table) for a reference to \
            (\(parentColumns.joined(separator: ", "))) of \(reference.parent)\(isNamed ? "" : ", its primary key"). Name as many \
            columns of \(reference.parent) under “parentColumns” as under “columns”.
            """
        )
    }

    func requireUniqueIndex(of columns: [String], of table: String) throws {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT list.name, info.name FROM pragma_index_list(?) AS list, pragma_index_info(list.name) AS info
                WHERE list."unique"
                """,
            arguments: [table]
        )
        let indexes = Dictionary(grouping: rows) { $0[0] as String }.values.map {
            Set($0.map { ($0[1] as String?)?.sqlName })
        }
        guard !indexes.contains(Set(columns.map { .some($0.sqlName) })) else { return }
        throw invalid("a unique index of \(columns.joined(separator: ", ")) of \(table)")
    }

    private func invalid(_ what: String) -> StoreChangesError {
        StoreChangesError(.invalidRules, "The rules name \(what), which the store doesn't have. Check the spelling.")
    }
}
