import GRDB
import GRDBSQLite

/// Reads the tables of a database.
struct SchemaReader {
    /// A table of the database's list.
    struct ListedTable {
        var name: String
        /// `table`, `view`, `virtual` or `shadow`.
        var kind: String
        var isWithoutRowID: Bool
        var isStrict: Bool

        /// Whether it has rows of its own; those of a virtual table are in other tables.
        var hasRows: Bool { kind == "table" || kind == "shadow" }
    }

    private let db: Database
    /// An empty database, where only SQLite's own functions and collations are known, and GRDB's.
    private let scratch: DatabaseQueue
    private let rules: SyncRules
    /// The statement that creates each table or index.
    private let statements: [String: String]
    private let excludedTables: Set<String>
    private let isOfCoreData: Bool
    private let meaningfulKeys: Set<String>
    private let tablesOfUnknownModules: [String]

    init(_ db: Database, _ rules: SyncRules) throws {
        self.db = db
        scratch = try DatabaseQueue(configuration: ScratchEvaluator.configuration)
        self.rules = rules
        // A trigger may have the name of a table or an index.
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL"
        )
        statements = Dictionary(rows.map { ($0[0], $0[1]) }) { first, _ in first }
        isOfCoreData = StoreSchema.isOfCoreData(tables: statements.keys)
        excludedTables = Set(rules.excludedTables.map(\.sqlName))
        meaningfulKeys = Set(rules.meaningfulKeys.map(\.sqlName))
        tablesOfUnknownModules = try Self.tablesOfUnknownModules(db, statements)
    }

    /// All tables but SQLite's own, and this package's, which tells a store from its copies.
    func list() throws -> [ListedTable] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT name, type, wr, strict FROM pragma_table_list
                WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name != ?
                """,
            arguments: [StoreToken.table]
        ).map {
            ListedTable(
                name: $0[0],
                kind: isOfUnknownModule($0[0]) ? "shadow" : $0[1],
                isWithoutRowID: $0[2],
                isStrict: $0[3]
            )
        }
    }

    /// Whether a table may belong to a virtual table whose module SQLite doesn't know here: it isn't listed as that.
    private func isOfUnknownModule(_ table: String) -> Bool {
        tablesOfUnknownModules.contains { table.sqlName.hasPrefix($0 + "_") }
    }

    /// The virtual tables, of which SQLite doesn't know here what other tables belong to them.
    private static func tablesOfUnknownModules(_ db: Database, _ statements: [String: String]) throws -> [String] {
        let virtual = statements.compactMapValues { statement -> String? in
            let tokens = SQLTokens(statement).tokens
            guard tokens.dropFirst().first?.isKeyword("VIRTUAL") == true,
                let using = tokens.firstIndex(where: { $0.isKeyword("USING") }), using + 1 < tokens.count
            else { return nil }
            return tokens[using + 1].name?.sqlName
        }
        guard !virtual.isEmpty else { return [] }
        let known = Set(try String.fetchAll(db, sql: "SELECT name FROM pragma_module_list").map(\.sqlName))
        return virtual.filter { !known.contains($0.value) }.map(\.key.sqlName)
    }

    // MARK: Tables that don't synchronize

    /// Why a table doesn't synchronize whatever it holds; `nil` if it may.
    func exclusion(of table: ListedTable) throws -> String? {
        switch table.kind {
        case "view": return "A view holds no rows of its own."
        case "virtual":
            if let problem = try problem(ofVirtualTable: table.name) {
                return """
                    It's a virtual table that needs what only the app has (\(problem)). It's out of date after other devices' \
                    edits until the app rebuilds it, or synchronizes through its own connection.
                    """
            }
            return """
                A virtual table is kept by its module. Triggers keep it up to date; otherwise an FTS table with content= is \
                rebuilt.
                """
        case "shadow": return "It belongs to a virtual table."
        default: break
        }
        let name = table.name.sqlName
        if excludedTables.contains(name) { return "The document's rules exclude it." }
        if isOfCoreData {
            return
                "The store belongs to Core Data, whose stores can't be synchronized record by record. Push and pull them whole."
        }
        if try isBookkeeping(name) { return "It records which migrations this device's app has run." }
        return nil
    }

    /// Why SQLite can't use a virtual table here, as for lack of its module or tokenizer; `nil` if it can.
    private func problem(ofVirtualTable name: String) throws -> String? {
        do {
            _ = try db.makeStatement(sql: "SELECT * FROM \(name.quotedName)")
            return nil
        } catch let error as DatabaseError {
            return error.message ?? "\(error.resultCode)"
        }
    }

    /// How migrators name the columns of a table of migrations, besides times.
    private static let migratorColumns: Set = [
        "batch", "checksum", "description", "down", "filename", "hash", "id", "key", "migration", "migration_id",
        "migration_name", "name", "status", "success", "timestamp", "up", "version",
    ]

    private func isBookkeeping(_ name: String) throws -> Bool {
        if name == "migrations" {
            // Another app may have a table of birds' migrations.
            let columns = try String.fetchAll(db, sql: "SELECT lower(name) FROM pragma_table_info('migrations')")
            return columns.allSatisfy { column in
                Self.migratorColumns.contains(column) || column.hasSuffix("_at") || column.hasSuffix("_on")
            }
        }
        let names: Set = [
            "aerich", "alembic_version", "android_metadata", "ar_internal_metadata", "atlas_schema_revisions",
            "databasechangelog", "databasechangeloglock", "doctrine_migration_versions", "flyway_schema_history",
            "goose_db_version", "knex_migrations_lock", "kysely_migration", "kysely_migration_lock", "migratehistory",
            "phinxlog", "refinery_schema_history", "room_master_table", "schema_version", "sequelizemeta",
            "__efmigrationshistory", "__efmigrationslock",
        ]
        return name.hasPrefix("grdb_") || name.hasSuffix("_migrations") || names.contains(name)
    }

    /// Why a table doesn't synchronize although it holds rows of its own; `nil` if it does.
    ///
    /// Other devices may not have the app's functions and collations. To find them, the table and its indexes are created in
    /// the empty database. GRDB's collations are known there, but merging doesn't compare by them.
    func exclusion(of table: TableSchema) throws -> String? {
        let names = table.columns.map(\.name) + table.generatedColumns
        if Set(names).count < names.count {
            return "Two columns have names of the same characters in two Unicode forms. Rename one."
        }
        if !table.isWithoutRowID, TableSchema.rowIdentifier(besides: table.columns.map(\.name)) == nil {
            return "Columns have all the names by which SQLite knows a row: rowid, oid and _rowid_. Rename one."
        }
        let indexes = try String.fetchAll(
            db,
            sql:
                "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE AND sql IS NOT NULL",
            arguments: [table.name]
        )
        do {
            try scratch.write { scratch in
                for statement in [statements[table.name] ?? ""] + indexes { try scratch.execute(sql: statement) }
            }
            return try uniqueCollation(of: table).map { Self.reason("its unique values are compared by \($0)") }
        } catch let error as DatabaseError {
            return Self.reason(error.message ?? error.resultCode.description)
        }
    }

    private static func reason(_ problem: String) -> String {
        "It needs what only the app has (\(problem)). Use SQLite's own functions and collations to synchronize it."
    }

    /// A collation of a unique index that isn't SQLite's own; `nil` if there is none.
    private func uniqueCollation(of table: TableSchema) throws -> String? {
        try String.fetchAll(
            db,
            sql: """
                SELECT coll FROM pragma_index_list(?) AS list, pragma_index_xinfo(list.name)
                WHERE list."unique" AND key AND coll IS NOT NULL
                """,
            arguments: [table.name]
        ).first { Collation(name: $0) == nil }
    }

    // MARK: A table

    func table(_ listed: ListedTable) throws -> TableSchema {
        let tokens = SQLTokens(statements[listed.name] ?? "")
        let info = try Row.fetchAll(
            db,
            sql: "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)",
            arguments: [listed.name]
        )
        let columns = try info.filter { ($0["hidden"] as Int) == 0 }.map { try column($0, of: listed) }
        let primaryKey = info.filter { ($0["pk"] as Int) > 0 }.sorted { ($0["pk"] as Int) < ($1["pk"] as Int) }
            .map { $0["name"] as String }
        var table = TableSchema(
            name: listed.name,
            columns: columns,
            key: .none,
            uniques: [],
            references: try references(of: listed.name),
            checks: [],
            generatedColumns: info.filter { [2, 3].contains($0["hidden"] as Int) }.map { $0["name"] },
            statement: tokens.statement,
            isWithoutRowID: listed.isWithoutRowID,
            replacesOnConflict: Self.replacesOnConflict(tokens)
        )
        let (uniques, hasKeyIndex) = try uniques(of: table)
        table.uniques = uniques
        let number = hasKeyIndex || table.isWithoutRowID ? nil : primaryKey.first
        table.checks =
            CheckConstraint.all(in: tokens, of: table, numberedBy: number)
            + info.filter { $0["notnull"] && table.generates($0["name"]) }
            .compactMap { CheckConstraint(requiring: $0["name"], of: table) }
        table.key = key(of: table, primaryKey, numberedBy: number)
        return table
    }

    /// The names of a table's columns, the generated ones too.
    func columnNames(of table: String) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [table])
    }

    private func column(_ info: Row, of table: ListedTable) throws -> ColumnSchema {
        let (name, type): (String, String) = (info["name"], info["type"])
        return ColumnSchema(
            name: name,
            type: type,
            affinity: Affinity(type: type, isStrict: table.isStrict),
            collation: try collation(of: name, in: table.name),
            isNotNull: info["notnull"] || table.isWithoutRowID && (info["pk"] as Int) > 0,
            defaultValue: info["dflt_value"]
        )
    }

    /// The collation, which no pragma tells; an unknown one is found later, when the table is created elsewhere.
    private func collation(of column: String, in table: String) throws -> Collation {
        var name: UnsafePointer<CChar>?
        let code = sqlite3_table_column_metadata(db.sqliteConnection, "main", table, column, nil, &name, nil, nil, nil)
        guard code == SQLITE_OK, let name else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        return Collation(name: String(cString: name)) ?? .binary
    }

    private func key(of table: TableSchema, _ primaryKey: [String], numberedBy number: String?) -> TableKey {
        if let column = number {
            let isFixed = table.checks.contains { $0.fixes(column) }
            return meaningfulKeys.contains(table.name.sqlName) || isFixed
                ? .meaningful(column: column) : .integer(column: column)
        }
        func sorted(_ columns: [String]) -> [String] { Set(columns).sorted { $0.precedes($1) } }
        if !primaryKey.isEmpty { return .natural(columns: sorted(primaryKey)) }
        // Every device must choose the same one: the shortest, and the first of several.
        let candidates = table.uniques.filter { $0.condition == nil }.compactMap(\.columns)
            .filter { $0.allSatisfy { table.column($0)?.isNotNull == true } }.map(sorted)
        let best = candidates.min { first, second in
            first.count == second.count
                ? first.lexicographicallyPrecedes(second) { $0.precedes($1) } : first.count < second.count
        }
        return best.map { .natural(columns: $0) } ?? .none
    }

    // MARK: Foreign keys

    /// The foreign keys of a table that doesn't synchronize; none if it has no rows of its own.
    ///
    /// SQLite accepts foreign keys that lead to no column. They are left out.
    func unsynchronizedReferences(of table: ListedTable) throws -> [UnsynchronizedReference] {
        guard table.kind == "table" else { return [] }
        return try references(of: table.name).filter { key in
            let names = try columnNames(of: key.parent).map(\.sqlName)
            let parentNames = key.parentColumns.map(\.sqlName)
            return parentNames.count == key.columns.count && Set(names).isSuperset(of: parentNames)
        }.map { UnsynchronizedReference(table: table.name, key: $0) }
    }

    private func references(of table: String) throws -> [ForeignKey] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, "table", "from", "to", on_delete FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq
                """,
            arguments: [table]
        )
        var references: [(id: Int, key: ForeignKey)] = []
        for row in rows {
            let id: Int = row["id"]
            if references.last?.id != id {
                let action = ForeignKey.Action(rawValue: row["on_delete"]) ?? .noAction
                references.append(
                    (id, ForeignKey(columns: [], parent: row["table"], parentColumns: [], onDelete: action))
                )
            }
            references[references.count - 1].key.columns.append(row["from"])
            if let column: String = row["to"] { references[references.count - 1].key.parentColumns.append(column) }
        }
        let declared = try references.map(\.key).map(completed)
        let added = try rules.references.filter { $0.table.isSameName(as: table) }.map {
            try completed(
                ForeignKey(
                    columns: $0.columns,
                    parent: $0.parent,
                    parentColumns: $0.parentColumns ?? [],
                    onDelete: .noAction
                )
            )
        }
        return declared + added
    }

    /// The reference with the parent's primary key, if it names no columns.
    private func completed(_ reference: ForeignKey) throws -> ForeignKey {
        guard reference.parentColumns.isEmpty else { return reference }
        var reference = reference
        reference.parentColumns = try Self.primaryKey(of: reference.parent, in: db)
        return reference
    }

    /// The columns of a table's primary key, in its order; none if it declares none.
    static func primaryKey(of table: String, in db: Database) throws -> [String] {
        let sql = "SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0 ORDER BY pk"
        return try String.fetchAll(db, sql: sql, arguments: [table])
    }

    // MARK: Unique indexes

    /// Returns the unique indexes, and whether one of them is the primary key's.
    private func uniques(of table: TableSchema) throws -> ([UniqueIndex], hasKeyIndex: Bool) {
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT name, origin FROM pragma_index_list(?) WHERE \"unique\" ORDER BY seq DESC",
            arguments: [table.name]
        )
        let indexes = try rows.map { try unique($0["name"], of: table) }
        return (indexes, rows.contains { ($0["origin"] as String) == "pk" })
    }

    private func unique(_ name: String, of table: TableSchema) throws -> UniqueIndex {
        let definition = IndexDefinition(SQLTokens(statements[name] ?? ""))
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno",
            arguments: [name]
        )
        let terms = rows.enumerated().map { index, row in
            let column: String? = row["name"]
            return UniqueIndex.Term(
                column: column,
                expression: column?.quotedName ?? definition?.expression(at: index) ?? "NULL",
                collation: Collation(name: row["coll"]) ?? .binary
            )
        }
        var unique = UniqueIndex(terms: terms, condition: definition?.condition, kind: .identity)
        unique.kind = kind(of: unique, in: table)
        return unique
    }

    /// What a clash means: what the rules say, else a position if the index ends with an integer and another column refers
    /// to a list's row.
    private func kind(of unique: UniqueIndex, in table: TableSchema) -> UniqueIndex.Kind {
        if let kind = rules.kind(of: unique, in: table) { return kind }
        guard let columns = unique.columns, let last = columns.last else { return .identity }
        func isReference(_ column: String) -> Bool {
            table.references.contains { $0.columns.contains { $0.isSameName(as: column) } }
        }
        let isPosition =
            table.column(last)?.affinity == .integer && !isReference(last)
            && columns.dropLast().contains(where: isReference)
        return isPosition ? .position : .identity
    }

    // MARK: Statements

    private static func replacesOnConflict(_ tokens: SQLTokens) -> Bool {
        tokens.tokens.indices.dropLast(2).contains { index in
            tokens.tokens[index].isKeyword("ON") && tokens.tokens[index + 1].isKeyword("CONFLICT")
                && tokens.tokens[index + 2].isKeyword("REPLACE")
        }
    }
}
