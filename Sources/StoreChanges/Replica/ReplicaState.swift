/// The state in a replica's database.
final class ReplicaState: StateReader {
    let db: SQLConnection
    let schema: FoldSchema
    private var tables: [String: Int64] = [:]
    private var tableNames: [Int64: String] = [:]

    init(_ db: SQLConnection, _ schema: FoldSchema) throws {
        self.db = db
        self.schema = schema
        for row in try db.all("SELECT id, name FROM tables") {
            guard let id = row.integer(0), let name = row.text(1) else { continue }
            tables[name] = id
            tableNames[id] = name
        }
        // Here, because later calls may only read.
        for name in schema.tables.keys.sorted(by: { $0.precedes($1) }) { _ = try table(name) }
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
        try db.first("SELECT count FROM counts WHERE tbl = ? AND name = ?", try key(row))?.integer(0).map(Int.init)
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

    func rows(with key: LookupKey) throws -> [RowName] { try names(with: key, in: "lookups") }

    func tombs(with key: LookupKey) throws -> [RowName] { try names(with: key, in: "tomb_lookups") }

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

    // MARK: Writing

    /// Writes or removes a row, with the keys by which it's found.
    func write(_ row: RowReference, _ state: RowState?) throws {
        let former = try self.row(row)
        try index(
            row,
            "lookups",
            from: try former.map { try schema.lookupKeys(of: row, $0) },
            to: try state.map { try schema.lookupKeys(of: row, $0) }
        )
        guard let state else { return try db.execute("DELETE FROM rows WHERE tbl = ? AND name = ?", try key(row)) }
        try db.execute(
            "INSERT OR REPLACE INTO rows (tbl, name, image, inserters) VALUES (?, ?, ?, ?)",
            try key(row) + [.blob(schema.encode(state.cells, of: row.table)), .blob(state.inserters.encoded)]
        )
    }

    private func index(_ row: RowReference, _ lookups: String, from former: [LookupKey]?, to present: [LookupKey]?)
        throws
    {
        let (former, present) = (Set(former ?? []), Set(present ?? []))
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
        guard let count else { return try db.execute("DELETE FROM counts WHERE tbl = ? AND name = ?", try key(row)) }
        try db.execute(
            "INSERT OR REPLACE INTO counts (tbl, name, count) VALUES (?, ?, ?)",
            try key(row) + [.integer(Int64(count))]
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
