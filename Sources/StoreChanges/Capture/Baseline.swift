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
    ///   - state: An empty replica, in a write transaction.
    init(of store: SQLConnection, _ state: ReplicaState) {
        self.store = store
        self.state = state
        names = RowNames(in: store, state, by: .origin)
    }

    /// Takes all rows.
    func run() throws {
        for table in state.schema.tables.keys.sorted(by: { $0.precedes($1) }) { try take(table) }
    }

    private func take(_ name: String) throws {
        let table = try state.schema.table(name)
        var scan = try StoreScan(table, in: store, names, state.schema)
        var identifier = try state.identifiers(of: name).lowerBound
        // A row with an integer key is found by its name.
        let hasIntegerKey = state.schema.hasIntegerKey(name)
        let plans = table.plans.all.filter { !hasIntegerKey || $0.kind != .parent(table.schema.key.columns) }
        let keys = plans.map(StoreScanKey.init)
        let evaluated = table.plans.evaluatedUniques
        let writer = try BaselineWriter(name, state)
        while try scan.next() {
            let encoded = scan.number.map { RowName.numbered(client: .origin, number: $0).encoded } ?? scan.name
            if scan.isCounted {
                if try writer.countAgain(encoded) { continue }
                identifier += 1
                try writer.insertCounted(encoded, at: identifier)
            } else {
                identifier += 1
                try writer.insert(encoded, scan.number, scan.image, at: identifier)
            }
            try scan.write(keys, rowNamed: encoded) { try writer.insert(key: $0, of: encoded) }
            for index in evaluated {
                guard let key = try state.schema.uniqueKey(index, in: table, scan.cell) else { continue }
                try writer.insert(key: key.encoded, of: encoded)
            }
        }
    }
}

/// Inserts the rows of a first baseline into an empty replica.
private struct BaselineWriter {
    private let table: StoredValue
    private let numbers: StoredValue
    private let rowStatement: SQLStatement
    private let keyStatement: SQLStatement
    private let numberStatement: SQLStatement
    private let countStatement: SQLStatement
    private let countedStatement: SQLStatement
    private let countAgainStatement: SQLStatement
    private let inserters = StoredValue.blob(Set<SetID>().encoded)

    init(_ table: String, _ state: ReplicaState) throws {
        self.table = try state.table(table)
        numbers = try state.table(state.schema.numberedTable(table))
        rowStatement = try state.db.prepare(
            "INSERT INTO rows (id, tbl, name, number, image, inserters) VALUES (?, ?, ?, ?, ?, ?)"
        )
        keyStatement = try state.db.prepare("INSERT INTO lookups (tbl, key, name) VALUES (?, ?, ?)")
        countStatement = try state.db.prepare(
            "INSERT INTO counts (id, tbl, name, digest, count) VALUES (?, ?, ?, ?, 1)"
        )
        countedStatement = try state.db.prepare("SELECT id FROM counts WHERE tbl = ? AND digest = ? AND name = ?")
        countAgainStatement = try state.db.prepare("UPDATE counts SET count = count + 1 WHERE id = ?")
        numberStatement = try state.db.prepare("INSERT OR IGNORE INTO numbers (tbl, name, number) VALUES (?, ?, ?)")
    }

    /// Counts a row without a key that was there before; `false` if it wasn't.
    func countAgain(_ name: [UInt8]) throws -> Bool {
        try countedStatement.bind([table, ReplicaState.digest(name), .blob(name)])
        defer { countedStatement.reset() }
        guard try countedStatement.step(), let identifier = countedStatement.integer(0) else { return false }
        try countAgainStatement.execute([.integer(identifier)])
        return true
    }

    func insertCounted(_ name: [UInt8], at identifier: Int64) throws {
        try countStatement.execute([.integer(identifier), table, .blob(name), ReplicaState.digest(name)])
    }

    func insert(_ name: [UInt8], _ number: Int64?, _ image: [UInt8], at identifier: Int64) throws {
        let number = number.map { StoredValue.integer($0) }
        try rowStatement.execute([.integer(identifier), table, .blob(name), number ?? .null, .blob(image), inserters])
        if let number { try numberStatement.execute([numbers, .blob(name), number]) }
    }

    func insert(key: [UInt8], of name: [UInt8]) throws {
        try keyStatement.execute([table, .blob(key), .blob(name)])
    }
}
