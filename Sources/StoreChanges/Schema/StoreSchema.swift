package import GRDB

/// The schema of a store: what of it synchronizes, and what doesn't and why.
public struct StoreSchema: Hashable, Sendable {
    /// The tables that synchronize, in the order of their names.
    public private(set) var tables: [TableSchema]
    /// Where each of them is, by its name as SQLite compares it.
    private var indexes: [String: Int]
    /// What there is to say of each table of the store, in the order of their names.
    public var reports: [TableReport]
    /// The foreign keys of tables that don't synchronize.
    package var unsynchronizedReferences: [UnsynchronizedReference] = []
    /// The names of the columns of each table of the file that has rows of its own, whether it synchronizes or not.
    private(set) var columnNames: [String: [String]] = [:]

    /// The table of a name.
    public func table(_ name: String) -> TableSchema? { indexes[name.sqlName].map { tables[$0] } }

    private static func indexes(of tables: [TableSchema]) -> [String: Int] {
        Dictionary(zip(tables.map(\.name.sqlName), tables.indices)) { first, _ in first }
    }

    /// Whether a store with these tables belongs to Core Data.
    package static func isOfCoreData(tables: some Sequence<String>) -> Bool {
        Set(["z_primarykey", "z_metadata"]).isSubset(of: tables.map(\.sqlName))
    }

    /// Reads the schema of a database, and none of its rows.
    ///
    /// - Parameters:
    ///   - db: A connection, whose functions and collations aren't used: other devices may not have them.
    ///   - rules: What the schema doesn't say.
    /// - Throws: `DatabaseError`.
    package init(_ db: Database, rules: SyncRules = .none) throws {
        let reader = try SchemaReader(db, rules)
        (tables, indexes, reports) = ([], [:], [])
        let list = try reader.list().sorted { $0.name.precedes($1.name) }
        let counts = list.reduce(into: [:]) { $0[$1.name, default: 0] += 1 }
        for listed in list {
            if listed.hasRows { columnNames[listed.name] = try reader.columnNames(of: listed.name) }
            let clash =
                counts[listed.name] == 1
                ? nil : "Another table has a name of the same characters in another Unicode form."
            if let reason = try clash ?? reader.exclusion(of: listed) {
                try exclude(listed, because: reason, isUnsuitable: false, reader)
                continue
            }
            let table = try reader.table(listed)
            if let reason = try reader.exclusion(of: table) {
                try exclude(listed, because: reason, reader)
            } else {
                tables.append(table)
            }
        }
        indexes = Self.indexes(of: tables)
        // Without a table, columns of other tables may refer to other rows.
        while try excludeUnfitTables(of: list, reader) {}
        let likelyParents = LikelyParents(of: self)
        reports += tables.map { TableReport($0, SchemaQuestions($0, self).all(likelyParents, rules)) }
        reports.sort { $0.table.precedes($1.table) }
    }

    /// Reports a table that doesn't synchronize, and notes its foreign keys.
    private mutating func exclude(
        _ listed: SchemaReader.ListedTable,
        because reason: String,
        isUnsuitable: Bool = true,
        _ reader: SchemaReader
    ) throws {
        reports.append(TableReport(listed.name, excludedBecause: reason, isUnsuitable: isUnsuitable))
        unsynchronizedReferences += try reader.unsynchronizedReferences(of: listed)
    }

    /// Excludes the tables whose keys, references or unique values can't be merged, and returns whether there were any.
    private mutating func excludeUnfitTables(of list: [SchemaReader.ListedTable], _ reader: SchemaReader) throws -> Bool
    {
        let rowColumns = RowColumns(SchemaDescription(self))
        var unfit: Set<String> = []
        for listed in list {
            guard let table = table(listed.name),
                let reason = SchemaQuestions(table, self).exclusion(rowColumns)
            else { continue }
            unfit.insert(table.name)
            try exclude(listed, because: reason, reader)
        }
        tables.removeAll { unfit.contains($0.name) }
        indexes = Self.indexes(of: tables)
        return !unfit.isEmpty
    }

    /// Adds the questions that the rows raise; it may take as long as reading a table.
    package mutating func askAboutRows(in db: Database) throws {
        for index in reports.indices {
            guard let table = table(reports[index].table) else { continue }
            reports[index].questions += try SchemaQuestions(table, self).about(rowsIn: db)
        }
    }
}

/// What `storesync check` says of a table.
public struct TableReport: Hashable, Sendable {
    /// The table's name.
    public var table: String
    /// How its rows are named; `nil` if it doesn't synchronize.
    public var key: TableKey?
    /// Whether the table synchronizes.
    public var synchronizes: Bool
    /// Why it doesn't.
    public var reason: String?
    /// What only the app's author can answer, each with what to do about it.
    public var questions: [String]
    /// Whether the table's own definition keeps its rows from synchronizing, as by a function that only the app has.
    package var isUnsuitable = false

    init(_ table: String, excludedBecause reason: String, isUnsuitable: Bool) {
        self.table = table
        self.synchronizes = false
        self.reason = reason
        self.isUnsuitable = isUnsuitable
        self.questions = []
    }

    init(_ table: TableSchema, _ questions: [String]) {
        self.table = table.name
        self.synchronizes = true
        self.questions = questions
        self.key = table.key
    }
}
