import ByteCoding

/// The state in a replica's database.
final class ReplicaState: StateReader {
    let db: SQLConnection
    private(set) var schema: FoldSchema
    let statements: RowStatements
    private var tables: [String: Int64] = [:]
    private var tableNames: [Int64: String] = [:]
    /// For each table that gives rows their numbers, the tables whose rows have them.
    private var numbered: [String: [StoredValue]] = [:]

    init(_ db: SQLConnection, _ schema: FoldSchema) throws {
        self.db = db
        self.schema = schema
        statements = try RowStatements(db)
        for row in try db.all("SELECT id, name FROM tables") {
            guard let id = row.integer(0), let name = row.text(1) else { continue }
            tables[name] = id
            tableNames[id] = name
        }
        // Here, because later calls may only read.
        for name in schema.tables.keys.sorted(by: { $0.precedes($1) }) {
            let id = try table(name)
            if schema.hasIntegerKey(name) { numbered[schema.numberedTable(name), default: []].append(id) }
        }
    }

    // MARK: Values in the database

    /// The table's number in the database, as a value.
    func table(_ name: String) throws -> StoredValue { .integer(try identifier(of: name)) }

    /// The table's number in the database.
    func identifier(of name: String) throws -> Int64 {
        if let id = tables[name] { return id }
        try db.execute("INSERT INTO tables (name) VALUES (?)", [.text(name)])
        let id = try db.first("SELECT id FROM tables WHERE name = ?", [.text(name)])?.integer(0) ?? 0
        tables[name] = id
        tableNames[id] = name
        return id
    }

    /// The tables whose rows have the numbers of a table's integer key.
    func tablesNumbered(by table: String) -> [StoredValue] { numbered[schema.numberedTable(table)] ?? [] }

    /// The bits of a row's identifier after the number of its table, which has room for as many rows.
    static let identifierBits = 40

    /// The identifiers that rows of a table have in the database.
    func identifiers(of table: String) throws -> ClosedRange<Int64> {
        let id = try identifier(of: table)
        return id << Self.identifierBits...(id + 1) << Self.identifierBits - 1
    }

    /// The first and the last of the identifiers that rows of a table have, as values.
    func identifierBounds(of table: String) throws -> [StoredValue] {
        let identifiers = try identifiers(of: table)
        return [.integer(identifiers.lowerBound), .integer(identifiers.upperBound)]
    }

    func tableName(_ id: Int64?) -> String { id.flatMap { tableNames[$0] } ?? "" }

    /// The table's number, and the row's encoded name, as values.
    func key(_ row: RowReference) throws -> [StoredValue] { [try table(row.table), .blob(row.row.encoded)] }

    /// The same of a row without a key, and the digest of its name.
    func countKey(_ row: RowReference) throws -> [StoredValue] { try key(row) + [Self.digest(row.row.encoded)] }

    /// The table's number, and the row's encoded name.
    func rowKey(_ row: RowReference) throws -> RowKey {
        RowKey(table: try identifier(of: row.table), name: row.row.encoded)
    }

    /// The row that a statement has read: its image and its inserters, in the first columns.
    private func storedRow(_ statement: SQLStatement, in table: FoldSchema.Table) throws -> StoredRow {
        let image = statement.blob(0) ?? []
        try table.check(image)
        // Mostly a row has no inserters any more.
        let inserters = statement.holds([0], 1) ? [] : try Set<SetID>(decoding: statement.blob(1) ?? [])
        return StoredRow(table, image, inserters: inserters)
    }

    // MARK: Reading

    func row(_ row: RowReference) throws -> StoredRow? {
        guard let table = schema.tables[row.table] else { return nil }
        let statement = try statements.row.bind(rowKey(row))
        defer { statement.reset() }
        return try statement.step() ? storedRow(statement, in: table) : nil
    }

    func tomb(_ row: RowReference) throws -> StoredTomb? {
        guard let table = schema.tables[row.table] else { return nil }
        let statement = try statements.tomb.bind(rowKey(row))
        defer { statement.reset() }
        guard try statement.step() else { return nil }
        return StoredTomb(
            row: try storedRow(statement, in: table),
            deleters: try Set<SetID>(decoding: statement.blob(2) ?? [])
        )
    }

    private func finds(_ row: RowReference, _ statement: SQLStatement) throws -> Bool {
        defer { statement.reset() }
        return try statement.bind(rowKey(row)).step()
    }

    func count(_ row: RowReference) throws -> Int? {
        try db.first("SELECT count FROM counts WHERE tbl = ? AND name = ? AND digest = ?", countKey(row))?.integer(0)
            .map(Int.init)
    }

    func alias(_ key: AliasKey) throws -> Alias? {
        let values = [try table(key.table), StoredValue.blob(key.encoded)]
        return try db.first("SELECT name, maker FROM aliases WHERE tbl = ? AND key = ?", values).map {
            var maker = ByteParser($0.bytes(1) ?? [])
            return Alias(row: try $0.rowName(0), maker: try maker.set())
        }
    }

    func hasAliases(_ table: String) throws -> Bool {
        try db.first("SELECT 1 FROM aliases WHERE tbl = ? LIMIT 1", [self.table(table)]) != nil
    }

    func aliases(leadingTo row: RowReference) throws -> [AliasKey] {
        try db.all("SELECT key FROM aliases WHERE tbl = ? AND name = ?", try key(row)).map {
            try AliasKey(table: row.table, decoding: $0.bytes(0) ?? [])
        }
    }

    func aliases(like representative: AliasKey) throws -> [AliasKey] {
        let values = [try table(representative.table), StoredValue.blob(representative.encoded)]
        return try db.all("SELECT key FROM aliases WHERE tbl = ? AND value = ?", values).map {
            try AliasKey(table: representative.table, decoding: $0.bytes(0) ?? [])
        }
    }

    func rows(with key: LookupKey) throws -> [RowName] {
        if let name = schema.name(in: key) {
            return try finds(RowReference(key.table, name), statements.rowExists) ? [name] : []
        }
        guard case .list(let index) = key.kind else { return try names(with: key, in: "lookups") }
        return try db.all(
            "SELECT name FROM lookups WHERE tbl = ? AND key >= ? AND key < ?",
            [table(key.table)] + LookupKey.bounds(of: .unique(index), beginningWith: key.cells)
        ).map { try $0.rowName(0) }
    }

    func clashes(in unique: Int, of table: String) throws -> [RowName] {
        try db.all(
            """
            SELECT min(name) FROM lookups WHERE tbl = ?1 AND key >= ?2 AND key < ?3 GROUP BY key HAVING count(*) > 1
            UNION SELECT name FROM counts WHERE tbl = ?1 AND count > 1
            """,
            [self.table(table)] + LookupKey.bounds(of: .unique(unique))
        ).map { try $0.rowName(0) }
    }

    func tombs(with key: LookupKey) throws -> [RowName] {
        if let name = schema.name(in: key) {
            return try finds(RowReference(key.table, name), statements.tombExists) ? [name] : []
        }
        return try names(with: key, in: "tomb_lookups")
    }

    private func names(with key: LookupKey, in lookups: String) throws -> [RowName] {
        let values = [try table(key.table), StoredValue.blob(key.encoded)]
        return try db.all("SELECT name FROM \(lookups) WHERE tbl = ? AND key = ?", values).map { try $0.rowName(0) }
    }

    /// The names of a table's rows.
    func names(of table: String) throws -> [RowName] {
        try db.all("SELECT name FROM rows WHERE tbl = ?", [self.table(table)]).map { try $0.rowName(0) }
    }

    /// The names of a table's rows without a key.
    func countedNames(of table: String) throws -> [RowName] {
        try db.all("SELECT name FROM counts WHERE tbl = ?", [self.table(table)]).map { try $0.rowName(0) }
    }

    /// Eight bytes of the digest of a row's name, by which rows without a key are found.
    static func digest(_ name: [UInt8]) -> StoredValue {
        let digest = SetDigest(of: name).rawValue
        return .integer(Int64(bitPattern: UInt64(littleEndianBytes: digest[..<8])))
    }

    // MARK: Writing

    /// Writes or removes a row, with the keys by which it's found, and keeps what the store has of it.
    ///
    /// - Parameters:
    ///   - row: The row.
    ///   - former: The row as it is.
    ///   - new: The row as it will be.
    /// - Throws: `DatabaseError`.
    func replace(_ row: RowReference, _ former: StoredRow?, by new: StoredRow?) throws {
        let key = try rowKey(row)
        try ReplicaPending(self).keep(key, former?.image, new?.image)
        guard former != new else { return }
        try index(key, "lookups", changes: schema.changedKeys(of: row, from: former, to: new))
        guard let new else { return try statements.deleteRow.bind(key).run() }
        guard former == nil else {
            let update = statements.updateRow
            try update.bind(key)
            try update.bind(new.image, at: 3)
            try update.bind(new.inserters.encoded, at: 4)
            return try update.run()
        }
        try insert(row, [.blob(new.image), .blob(new.inserters.encoded)])
    }

    /// Inserts a row behind all others of its table.
    private func insert(_ row: RowReference, _ values: [StoredValue]) throws {
        let bounds = try identifierBounds(of: row.table)
        let hasNumber = schema.hasIntegerKey(row.table)
        let number = try hasNumber ? ReplicaNumbers(self).number(of: row).map { StoredValue.integer($0) } : nil
        try db.execute(
            """
            INSERT INTO rows (id, tbl, name, image, inserters, number) VALUES (
                (SELECT ifnull(max(id), ?) + 1 FROM rows WHERE id BETWEEN ? AND ?), ?, ?, ?, ?, ?
            )
            """,
            [bounds[0]] + bounds + key(row) + values + [number ?? .null]
        )
    }

    private func index(
        _ row: RowKey,
        _ lookups: String,
        changes: (lost: [LookupKey], gained: [LookupKey])
    ) throws {
        for key in changes.lost where isStored(key) {
            let values: [StoredValue] = [.integer(row.table), .blob(key.encoded), .blob(row.name)]
            try db.execute("DELETE FROM \(lookups) WHERE tbl = ? AND key = ? AND name = ?", values)
        }
        for key in changes.gained where isStored(key) {
            let values: [StoredValue] = [.integer(row.table), .blob(key.encoded), .blob(row.name)]
            try db.execute("INSERT OR IGNORE INTO \(lookups) (tbl, key, name) VALUES (?, ?, ?)", values)
        }
    }

    /// Whether a key is stored: another one is a row's name, or how a unique index's keys begin.
    private func isStored(_ key: LookupKey) -> Bool {
        if case .list = key.kind { return false }
        return schema.name(in: key) == nil
    }

    func write(_ row: RowReference, tomb: StoredTomb?) throws {
        let former = try self.tomb(row)
        let lost = former.map { schema.tombKeys(of: row, $0.row) } ?? []
        let gained = tomb.map { schema.tombKeys(of: row, $0.row) } ?? []
        try index(
            rowKey(row),
            "tomb_lookups",
            changes: (lost.filter { !gained.contains($0) }, gained.filter { !lost.contains($0) })
        )
        guard let tomb else { return try db.execute("DELETE FROM tombs WHERE tbl = ? AND name = ?", try key(row)) }
        try db.execute(
            "INSERT OR REPLACE INTO tombs (tbl, name, image, inserters, deleters) VALUES (?, ?, ?, ?, ?)",
            try key(row) + [
                .blob(tomb.row.image), .blob(tomb.row.inserters.encoded), .blob(tomb.deleters.encoded),
            ]
        )
    }

    func write(_ row: RowReference, count: Int?) throws {
        let former = try self.count(row)
        let counted = StoredRow(countedIn: try schema.table(row.table))
        try index(
            rowKey(row),
            "lookups",
            changes: schema.changedKeys(
                of: row,
                from: former == nil ? nil : counted,
                to: count == nil ? nil : counted
            )
        )
        let values = try countKey(row)
        guard let count else {
            return try db.execute("DELETE FROM counts WHERE tbl = ? AND name = ? AND digest = ?", values)
        }
        guard former == nil else {
            return try db.execute(
                "UPDATE counts SET count = ? WHERE tbl = ? AND name = ? AND digest = ?",
                [.integer(Int64(count))] + values
            )
        }
        let bounds = try identifierBounds(of: row.table)
        try db.execute(
            """
            INSERT INTO counts (id, tbl, name, digest, count) VALUES (
                (SELECT ifnull(max(id), ?) + 1 FROM counts WHERE id BETWEEN ? AND ?), ?, ?, ?, ?
            )
            """,
            [bounds[0]] + bounds + values + [.integer(Int64(count))]
        )
    }

    func write(_ key: AliasKey, _ alias: Alias?) throws {
        let values = [try table(key.table), StoredValue.blob(key.encoded)]
        guard let alias else { return try db.execute("DELETE FROM aliases WHERE tbl = ? AND key = ?", values) }
        var maker = ByteWriter()
        maker.set(alias.maker)
        try db.execute(
            "INSERT OR REPLACE INTO aliases (tbl, key, value, name, maker) VALUES (?, ?, ?, ?, ?)",
            values + [.blob(schema.representative(key).encoded), .blob(alias.row.encoded), .blob(maker.bytes)]
        )
    }

    /// Adds the keys by which a row is found that isn't indexed yet.
    func indexAgain(_ row: RowReference) throws {
        let present = schema.isCounted(row) ? StoredRow(countedIn: try schema.table(row.table)) : try self.row(row)
        try index(rowKey(row), "lookups", changes: schema.changedKeys(of: row, from: nil, to: present))
    }

    /// Finds rows by the unique indexes of other earlier schemas than before.
    func prepare(for earlier: [SchemaDescription]) throws {
        for (name, table) in schema.tables {
            for (index, unique) in table.uniques.enumerated() where !unique.isPresent {
                try db.execute(
                    "DELETE FROM lookups WHERE tbl = ? AND key >= ? AND key < ?",
                    [self.table(name)] + LookupKey.bounds(of: .unique(index))
                )
            }
        }
        schema = schema.with(earlier: earlier)
        for (name, table) in schema.tables where !table.uniques.allSatisfy(\.isPresent) {
            for row in try names(of: name) + countedNames(of: name) { try indexAgain(RowReference(name, row)) }
        }
    }

    /// Reads which earlier schemas the state is prepared for: another process may have prepared it for others.
    func readEarlier(_ earlier: [SchemaDescription]) {
        if schema.earlier.map(\.description) != earlier { schema = schema.with(earlier: earlier) }
    }

    func indexTombAgain(_ row: RowReference) throws {
        let keys = try tomb(row).map { schema.tombKeys(of: row, $0.row) } ?? []
        try index(rowKey(row), "tomb_lookups", changes: ([], keys))
    }

    // MARK: Everything

    /// All of the state, for tests and small documents.
    func content() throws -> StateContent {
        var content = StateContent()
        func reference(_ values: [StoredValue]) throws -> RowReference {
            RowReference(tableName(values.integer(0)), try values.rowName(1))
        }
        for values in try db.all("SELECT tbl, name FROM rows") {
            let row = try reference(values)
            content.rows[row] = try self.row(row).map(RowState.init)
        }
        for values in try db.all("SELECT tbl, name FROM tombs") {
            let row = try reference(values)
            content.tombs[row] = try tomb(row).map(Tomb.init)
        }
        for values in try db.all("SELECT tbl, name FROM counts") {
            let row = try reference(values)
            content.counts[row] = try count(row)
        }
        for values in try db.all("SELECT tbl, key FROM aliases") {
            let key = try AliasKey(table: tableName(values.integer(0)), decoding: values.bytes(1) ?? [])
            content.aliases[key] = try alias(key)
        }
        return content
    }
}
