/// Takes the rows of a store as the state from which all edits start.
///
/// No change set has these rows: they reach other devices with the whole store. Memory doesn't grow with their number.
struct Baseline {
    private let state: ReplicaState
    private let store: SQLConnection
    private let names: RowNames

    /// Prepares to take a store.
    ///
    /// - Parameters:
    ///   - store: A connection in a read transaction.
    ///   - state: The replica, in a write transaction.
    ///   - names: The names of the store's rows.
    init(of store: SQLConnection, _ state: ReplicaState, _ names: RowNames) {
        self.store = store
        self.state = state
        self.names = names
    }

    /// Takes all rows of the first baseline into an empty replica.
    func insert() throws {
        try ReplicaSchema.withoutIndexes(state.db) {
            try run(BaselineRows.init)
            for table in state.schema.tables.keys.sorted(by: { $0.precedes($1) }) {
                // In the order of the names, because the table is.
                try state.db.execute(
                    """
                    INSERT OR IGNORE INTO numbers (tbl, name, number)
                    SELECT ?, name, number FROM rows WHERE id BETWEEN ? AND ? AND number IS NOT NULL ORDER BY name
                    """,
                    [state.table(state.schema.numberedTable(table))] + state.identifierBounds(of: table)
                )
            }
        }
    }

    /// Takes the rows that a checkpoint leaves out.
    func fill() throws { try run(CheckpointRows.init) }

    private func run<Rows: StoredRows>(_ rows: (String, ReplicaState) throws -> Rows) throws {
        for table in state.schema.tables.keys.sorted(by: { $0.precedes($1) }) {
            try take(table, into: rows(table, state))
        }
    }

    private func take(_ name: String, into rows: some StoredRows) throws {
        let table = try state.schema.table(name)
        var scan = try StoreScan(table, in: store, names, state.schema)
        // A row with an integer key is found by its name.
        let hasIntegerKey = state.schema.hasIntegerKey(name)
        let plans = table.plans.all.filter { !hasIntegerKey || $0.kind != .parent(table.schema.key.columns) }
        let keys = plans.map(StoreScanKey.init)
        let evaluated = table.plans.evaluatedUniques
        let lookups = try LookupWriter(name, state)
        while try scan.next() {
            let encoded = try scan.number.map { try names.encodedName(ofRow: $0, in: name) } ?? scan.name
            guard try scan.isCounted ? rows.count(encoded) : rows.take(encoded, scan.number, scan.image) else {
                continue
            }
            try scan.write(keys, rowNamed: encoded) { try lookups.insert(key: $0, of: encoded) }
            for index in evaluated {
                guard let key = try state.schema.uniqueKey(index, in: table, scan.cell) else { continue }
                try lookups.insert(key: key.encoded, of: encoded)
            }
        }
        try lookups.finish()
    }
}

/// The rows of a table in a replica that takes them from a store.
private protocol StoredRows {
    /// Takes a row; returns whether the replica doesn't have the keys yet by which it's found.
    func take(_ name: [UInt8], _ number: Int64?, _ image: [UInt8]) throws -> Bool
    /// Counts a row without a key; returns the same.
    func count(_ name: [UInt8]) throws -> Bool
}

/// The rows of a first baseline, which are inserted in the order of the store.
private final class BaselineRows: StoredRows {
    private let table: StoredValue
    private let rowStatement: SQLStatement
    private let counts: CountedRows
    private let inserters = StoredValue.blob(Set<SetID>().encoded)
    private var identifier: Int64

    init(_ table: String, _ state: ReplicaState) throws {
        self.table = try state.table(table)
        identifier = try state.identifiers(of: table).lowerBound
        rowStatement = try state.db.prepare(
            "INSERT INTO rows (id, tbl, name, number, image, inserters) VALUES (?, ?, ?, ?, ?, ?)"
        )
        counts = try CountedRows(table, state)
    }

    func take(_ name: [UInt8], _ number: Int64?, _ image: [UInt8]) throws -> Bool {
        let number = number.map { StoredValue.integer($0) } ?? .null
        identifier += 1
        try rowStatement.execute([.integer(identifier), table, .blob(name), number, .blob(image), inserters])
        return true
    }

    func count(_ name: [UInt8]) throws -> Bool { try counts.count(name) }
}

/// The rows of a checkpoint, which has the names of all, and only the images of rows that the store holds otherwise than
/// the state.
private struct CheckpointRows: StoredRows {
    private let db: SQLConnection
    private let table: StoredValue
    private let fillStatement: SQLStatement
    private let pendingStatement: SQLStatement
    private let pendingCountStatement: SQLStatement
    private let counts: CountedRows

    init(_ table: String, _ state: ReplicaState) throws {
        db = state.db
        self.table = try state.table(table)
        fillStatement = try state.db.prepare(
            "UPDATE rows SET image = ? WHERE tbl = ? AND name = ? AND typeof(image) = 'integer'"
        )
        pendingStatement = try state.db.prepare("SELECT image IS NOT NULL FROM pending WHERE tbl = ? AND name = ?")
        pendingCountStatement = try state.db.prepare("SELECT 1 FROM pending_counts WHERE tbl = ? AND name = ?")
        counts = try CountedRows(table, state)
    }

    func take(_ name: [UInt8], _ number: Int64?, _ image: [UInt8]) throws -> Bool {
        try fillStatement.execute([.blob(image), table, .blob(name)])
        if db.writtenCount == 1 { return true }
        guard try pendingStatement.firstInteger([table, .blob(name)]) == 1 else {
            throw StoreChangesError.unfitCheckpoint
        }
        return false
    }

    func count(_ name: [UInt8]) throws -> Bool {
        try pendingCountStatement.firstInteger([table, .blob(name)]) == nil && counts.count(name)
    }
}

/// The rows of a table that have no key: how often each occurs.
private final class CountedRows {
    private let table: StoredValue
    private let insertStatement: SQLStatement
    private let findStatement: SQLStatement
    private let againStatement: SQLStatement
    private var identifier: Int64

    init(_ table: String, _ state: ReplicaState) throws {
        self.table = try state.table(table)
        let last = try state.db.first(
            "SELECT max(id) FROM counts WHERE id BETWEEN ? AND ?",
            state.identifierBounds(of: table)
        )
        identifier = try last?.integer(0) ?? state.identifiers(of: table).lowerBound
        insertStatement = try state.db.prepare(
            "INSERT INTO counts (id, tbl, name, digest, count) VALUES (?, ?, ?, ?, 1)"
        )
        findStatement = try state.db.prepare("SELECT id FROM counts WHERE tbl = ? AND digest = ? AND name = ?")
        againStatement = try state.db.prepare("UPDATE counts SET count = count + 1 WHERE id = ?")
    }

    /// Counts a row; returns whether it's the first of its kind.
    func count(_ name: [UInt8]) throws -> Bool {
        let digest = ReplicaState.digest(name)
        if let known = try findStatement.firstInteger([table, digest, .blob(name)]) {
            try againStatement.execute([.integer(known)])
            return false
        }
        identifier += 1
        try insertStatement.execute([.integer(identifier), table, .blob(name), digest])
        return true
    }
}

/// Inserts the keys by which a table's rows are found, all at once and in their order: one after the other they would be
/// written all over the file.
private struct LookupWriter {
    private let table: StoredValue
    private let db: SQLConnection
    private let statement: SQLStatement

    init(_ table: String, _ state: ReplicaState) throws {
        self.table = try state.table(table)
        db = state.db
        try db.execute("CREATE TEMP TABLE IF NOT EXISTS new_lookups (key BLOB, name BLOB)")
        statement = try db.prepare("INSERT INTO new_lookups (key, name) VALUES (?, ?)")
    }

    func insert(key: [UInt8], of name: [UInt8]) throws {
        try statement.execute([.blob(key), .blob(name)])
    }

    func finish() throws {
        try db.execute(
            "INSERT INTO lookups (tbl, key, name) SELECT ?, key, name FROM new_lookups ORDER BY key, name",
            [table]
        )
        try db.execute("DELETE FROM new_lookups")
    }
}
