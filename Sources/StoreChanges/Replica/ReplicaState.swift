import ByteCoding

/// The state in a replica's database.
final class ReplicaState: StateReader {
    let db: SQLConnection
    let schema: FoldSchema
    private var tables: [String: Int64] = [:]
    private var tableNames: [Int64: String] = [:]
    /// For each table that gives rows their numbers, the tables whose rows have them.
    private var numbered: [String: [StoredValue]] = [:]

    init(_ db: SQLConnection, _ schema: FoldSchema) throws {
        self.db = db
        self.schema = schema
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

    /// The table's number in the database.
    func table(_ name: String) throws -> StoredValue {
        if let id = tables[name] { return .integer(id) }
        try db.execute("INSERT INTO tables (name) VALUES (?)", [.text(name)])
        let id = try db.first("SELECT id FROM tables WHERE name = ?", [.text(name)])?.integer(0) ?? 0
        tables[name] = id
        tableNames[id] = name
        return .integer(id)
    }

    /// The tables whose rows have the numbers of a table's integer key.
    func tablesNumbered(by table: String) -> [StoredValue] { numbered[schema.numberedTable(table)] ?? [] }

    /// The identifiers that rows of a table have in the database; a table has room for 2⁴⁰ rows.
    func identifiers(of table: String) throws -> ClosedRange<Int64> {
        guard case .integer(let id) = try self.table(table) else { return 0...0 }
        return id << 40...(id + 1) << 40 - 1
    }

    private func identifierBounds(of table: String) throws -> [StoredValue] {
        let identifiers = try identifiers(of: table)
        return [.integer(identifiers.lowerBound), .integer(identifiers.upperBound)]
    }

    func tableName(_ id: Int64?) -> String { id.flatMap { tableNames[$0] } ?? "" }

    func key(_ row: RowReference) throws -> [StoredValue] { [try table(row.table), .blob(row.row.encoded)] }

    private func rowState(_ values: [StoredValue], of table: String) throws -> RowState {
        RowState(
            cells: try schema.cells(decoding: values.bytes(0) ?? [], of: table),
            inserters: try Set<SetID>(decoding: values.bytes(1) ?? [])
        )
    }

    // MARK: Reading

    func row(_ row: RowReference) throws -> RowState? {
        try db.first("SELECT image, inserters FROM rows WHERE tbl = ? AND name = ?", try key(row))
            .map { try rowState($0, of: row.table) }
    }

    func tomb(_ row: RowReference) throws -> Tomb? {
        try db.first("SELECT image, inserters, deleters FROM tombs WHERE tbl = ? AND name = ?", try key(row)).map {
            Tomb(row: try rowState($0, of: row.table), deleters: try Set<SetID>(decoding: $0.bytes(2) ?? []))
        }
    }

    func count(_ row: RowReference) throws -> Int? {
        let values = try key(row) + [Self.digest(row.row.encoded)]
        return try db.first("SELECT count FROM counts WHERE tbl = ? AND name = ? AND digest = ?", values)?.integer(0)
            .map(Int.init)
    }

    func alias(_ key: AliasKey) throws -> Alias? {
        let values = [try table(key.table), StoredValue.blob(key.encoded)]
        return try db.first("SELECT name, maker FROM aliases WHERE tbl = ? AND key = ?", values).map {
            var maker = ByteParser($0.bytes(1) ?? [])
            return Alias(row: try RowName(decoding: $0.bytes(0) ?? []), maker: try maker.set())
        }
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
        if let name = name(in: key) { return try row(RowReference(key.table, name)) == nil ? [] : [name] }
        return try names(with: key, in: "lookups")
    }

    func tombs(with key: LookupKey) throws -> [RowName] {
        if let name = name(in: key) { return try tomb(RowReference(key.table, name)) == nil ? [] : [name] }
        return try names(with: key, in: "tomb_lookups")
    }

    /// The name of which a key consists: a row with an integer key is found by its name already.
    private func name(in key: LookupKey) -> RowName? {
        guard case .parent(let columns) = key.kind, schema.hasIntegerKey(key.table),
            schema.isKey(columns[0], of: key.table),
            columns.count == 1, case .row(let name) = key.cells[0]
        else { return nil }
        return name
    }

    private func names(with key: LookupKey, in lookups: String) throws -> [RowName] {
        let values = [try table(key.table), StoredValue.blob(key.encoded)]
        return try db.all("SELECT name FROM \(lookups) WHERE tbl = ? AND key = ?", values).map {
            try RowName(decoding: $0.bytes(0) ?? [])
        }
    }

    /// The names of a table's rows.
    func names(of table: String) throws -> [RowName] {
        try db.all("SELECT name FROM rows WHERE tbl = ?", [self.table(table)]).map {
            try RowName(decoding: $0.bytes(0) ?? [])
        }
    }

    /// The names of a table's rows without a key.
    func countedNames(of table: String) throws -> [RowName] {
        try db.all("SELECT name FROM counts WHERE tbl = ?", [self.table(table)]).map {
            try RowName(decoding: $0.bytes(0) ?? [])
        }
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
    ///   - state: The row as it will be.
    /// - Throws: `DatabaseError`.
    func replace(_ row: RowReference, _ former: RowState?, by state: RowState?) throws {
        let (key, before) = (try key(row), former.map { schema.encode($0.cells, of: row.table) })
        let after = state.map { schema.encode($0.cells, of: row.table) }
        try ReplicaPending(self).keep(key, before, after)
        guard former != state else { return }
        if before != after {
            try index(
                row,
                "lookups",
                from: try former.map { try schema.lookupKeys(of: row, $0) },
                to: try state.map { try schema.lookupKeys(of: row, $0) }
            )
        }
        guard let state, let after else { return try db.execute("DELETE FROM rows WHERE tbl = ? AND name = ?", key) }
        let values: [StoredValue] = [.blob(after), .blob(state.inserters.encoded)]
        guard former == nil else {
            return try db.execute("UPDATE rows SET image = ?, inserters = ? WHERE tbl = ? AND name = ?", values + key)
        }
        try insert(row, values)
    }

    private func isIndexed(_ key: LookupKey) -> Bool { name(in: key) == nil }

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

    private func index(_ row: RowReference, _ lookups: String, from former: [LookupKey]?, to present: [LookupKey]?)
        throws
    {
        let (former, present) = (Set((former ?? []).filter(isIndexed)), Set((present ?? []).filter(isIndexed)))
        let name = StoredValue.blob(row.row.encoded)
        for key in former.subtracting(present) {
            let values = [try table(row.table), .blob(key.encoded), name]
            try db.execute("DELETE FROM \(lookups) WHERE tbl = ? AND key = ? AND name = ?", values)
        }
        for key in present.subtracting(former) {
            let values = [try table(row.table), .blob(key.encoded), name]
            try db.execute("INSERT OR IGNORE INTO \(lookups) (tbl, key, name) VALUES (?, ?, ?)", values)
        }
    }

    func write(_ row: RowReference, tomb: Tomb?) throws {
        let former = try self.tomb(row)
        try index(
            row,
            "tomb_lookups",
            from: former.map { schema.tombKeys(of: row, $0.row) },
            to: tomb.map { schema.tombKeys(of: row, $0.row) }
        )
        guard let tomb else { return try db.execute("DELETE FROM tombs WHERE tbl = ? AND name = ?", try key(row)) }
        try db.execute(
            "INSERT OR REPLACE INTO tombs (tbl, name, image, inserters, deleters) VALUES (?, ?, ?, ?, ?)",
            try key(row) + [
                .blob(schema.encode(tomb.row.cells, of: row.table)), .blob(tomb.row.inserters.encoded),
                .blob(tomb.deleters.encoded),
            ]
        )
    }

    func write(_ row: RowReference, count: Int?) throws {
        let former = try self.count(row)
        let keys = try schema.lookupKeys(of: row, .counted)
        try index(row, "lookups", from: former == nil ? nil : keys, to: count == nil ? nil : keys)
        let values = try key(row) + [Self.digest(row.row.encoded)]
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
        let present = schema.isCounted(row) ? .counted : try self.row(row)
        try index(row, "lookups", from: nil, to: try present.map { try schema.lookupKeys(of: row, $0) })
    }

    func indexTombAgain(_ row: RowReference) throws {
        try index(row, "tomb_lookups", from: nil, to: try tomb(row).map { schema.tombKeys(of: row, $0.row) })
    }

    // MARK: Everything

    /// All of the state, for tests and small documents.
    func content() throws -> StateContent {
        var content = StateContent()
        func reference(_ values: [StoredValue]) throws -> RowReference {
            RowReference(tableName(values.integer(0)), try RowName(decoding: values.bytes(1) ?? []))
        }
        for values in try db.all("SELECT tbl, name FROM rows") {
            let row = try reference(values)
            content.rows[row] = try self.row(row)
        }
        for values in try db.all("SELECT tbl, name FROM tombs") {
            let row = try reference(values)
            content.tombs[row] = try tomb(row)
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
