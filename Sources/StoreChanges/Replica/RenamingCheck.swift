import Foundation

/// Finds out whether an update of the app renames what the document's rules name.
///
/// The rules would apply to nothing then: the rows of an excluded table would be published, and numbers of other rows would
/// lead to wrong ones. For this, the replica remembers the names that the store had.
struct RenamingCheck {
    /// The names of columns, by table.
    private typealias Names = [String: [String]]

    private let rules: SyncRules
    private let schema: StoreSchema
    private var present: Names { schema.columnNames }

    /// Prepares to compare names with those of a store.
    init(_ rules: SyncRules, in schema: StoreSchema) { (self.rules, self.schema) = (rules, schema) }

    /// Remembers the store's names, unless what the rules name has another one now.
    ///
    /// - Parameter db: The replica.
    /// - Throws: `DatabaseError`; ``StoreChangesError`` with `invalidRules`.
    func remember(in db: SQLConnection) throws {
        guard rules != .none else { return }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Strings and lists of them can always be encoded.
        let bytes = (try? encoder.encode(present)).map(Array.init)
        let former = try ReplicaFact.names.read(db)
        guard former != bytes else { return }
        if let former, let names = try? JSONDecoder().decode(Names.self, from: Data(former)) {
            try refuseRenamed(since: names)
        }
        try ReplicaFact.names.write(bytes, db)
    }

    private func refuseRenamed(since former: Names) throws {
        let tables = rules.references.flatMap { [$0.table, $0.parent] } + rules.uniques.map(\.table)
        for table in rules.excludedTables + rules.meaningfulKeys + tables {
            try refuseRenamed(table: table, since: former)
        }
        for rule in rules.references {
            // A column that declares its foreign key needs no rule.
            let declared = schema.table(rule.table)?.references.flatMap(\.columns) ?? []
            try refuseRenamed(rule.columns, of: rule.table, since: former, unlessAmong: declared)
            try refuseRenamed(rule.parentColumns ?? [], of: rule.parent, since: former)
        }
        for rule in rules.uniques { try refuseRenamed(rule.columns, of: rule.table, since: former) }
    }

    /// Refuses a new table with the columns of a table that is gone, unless it doesn't synchronize by its kind or by the rules.
    private func refuseRenamed(table: String, since former: Names) throws {
        guard let columns = Self.columns(of: table, in: former), Self.columns(of: table, in: present) == nil else {
            return
        }
        let excluded = schema.reports.filter { !$0.synchronizes && !$0.isUnsuitable }.map(\.table)
        let successor = present.filter { name, others in
            Self.columns(of: name, in: former) == nil && !excluded.contains(name)
                && Set(others.map(\.sqlName)) == Set(columns.map(\.sqlName))
        }.keys.min { $0.precedes($1) }
        guard let successor else { return }
        throw Self.renamed("table \(table)", "table \(successor) is new and has the same columns")
    }

    private func refuseRenamed(
        _ columns: [String],
        of table: String,
        since former: Names,
        unlessAmong unaffected: [String] = []
    ) throws {
        guard let left = Self.columns(of: table, in: former), let present = Self.columns(of: table, in: present) else {
            return
        }
        func has(_ columns: [String], _ column: String) -> Bool { columns.contains { $0.isSameName(as: column) } }
        let new = present.filter { !has(left, $0) && !has(unaffected, $0) }
        guard let successor = new.first, let gone = columns.first(where: { has(left, $0) && !has(present, $0) })
        else { return }
        throw Self.renamed("column \(gone) of \(table)", "column \(successor) is new")
    }

    private static func columns(of table: String, in names: Names) -> [String]? {
        names.first { $0.key.isSameName(as: table) }?.value
    }

    private static func renamed(_ named: String, _ successor: String) -> StoreChangesError {
        StoreChangesError(
            .invalidRules,
            """
            The document's rules name the \(named), which an update of the app has removed, or renamed: the \(successor). The \
            rules wouldn't apply to that. Nothing was captured, published or written. Rename it back in the app, or begin \
            another document with rules of the new names.
            """
        )
    }
}
