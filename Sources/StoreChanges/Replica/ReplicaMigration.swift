/// Brings a replica to a new schema of its store, after the app changed it.
///
/// What the schema adds holds its default in the state as in the store, so it isn't taken for edits. Rows of tables whose
/// keys changed leave the state, and are captured as new ones.
struct ReplicaMigration {
    private let log: ReplicaLog
    private var state: ReplicaState { log.state }
    private var db: SQLConnection { state.db }

    init(_ log: ReplicaLog) { self.log = log }

    /// Migrates if the schema isn't the former one.
    func run(to schema: SchemaDescription) throws {
        let bytes = schema.encoded
        let layout = try ReplicaFact.layout.read(db)
        guard layout != bytes else { return }
        if let layout {
            try migrate(from: try SchemaDescription(decoding: layout), to: schema)
            try ReplicaFact.migrated.writeNumber(1, db)
            try log.versions.rememberFormer(SetDigest(of: layout))
        }
        try ReplicaFact.layout.write(bytes, db)
        try log.versions.rememberOwn()
        try log.readAgain()
    }

    private func migrate(from former: SchemaDescription, to schema: SchemaDescription) throws {
        try refuseOlder(schema, than: former)
        for (name, table) in former.tables.sorted(by: { $0.key.precedes($1.key) }) {
            if let new = schema.tables[name], new.keyKind == table.keyKind, new.keyColumns == table.keyColumns {
                if new.columns.keys != table.columns.keys { try rewrite(name, table) }
            } else {
                try forget(name)
            }
        }
        try indexAgain()
    }

    /// An older app would drop what newer sets wrote.
    private func refuseOlder(_ schema: SchemaDescription, than former: SchemaDescription) throws {
        let digests = [schema.digest, former.digest]
        let numbers = try digests.map {
            try db.first("SELECT number FROM schemas WHERE digest = ?", [.blob($0.rawValue)])?.integer(0)
        }
        guard let number = numbers[0], let formerNumber = numbers[1], number < formerNumber else { return }
        throw StoreChangesError(
            .newerSchema,
            "The store has an older schema than when it was last synchronized. Update the app, then synchronize again."
        )
    }

    // MARK: Tables

    private func forget(_ table: String) throws {
        let id = try state.table(table)
        for rows in ["rows", "tombs", "counts", "aliases", "pending", "pending_counts", "replaced"] {
            try db.execute("DELETE FROM \(rows) WHERE tbl = ?", [id])
        }
    }

    private func rewrite(_ name: String, _ former: SchemaDescription.Table) throws {
        let columns = former.columns.keys.filter { !former.keyColumns.contains($0) }.sorted { $0.precedes($1) }
        let id = try state.table(name)
        for rows in ["rows", "tombs", "pending", "replaced"] {
            // Read at once: a table that is written while it's read may return rows twice.
            for values in try db.all("SELECT name, image FROM \(rows) WHERE tbl = ? AND image IS NOT NULL", [id]) {
                var parser = ByteParser(values.bytes(1) ?? [])
                var cells: [String: Cell] = [:]
                for column in columns { cells[column] = try parser.cell("a stored cell") }
                try db.execute(
                    "UPDATE \(rows) SET image = ? WHERE tbl = ? AND name = ?",
                    [.blob(state.schema.encode(cells, of: name)), id, values[0]]
                )
            }
        }
        for counts in ["counts", "pending_counts"] {
            for values in try db.all("SELECT name FROM \(counts) WHERE tbl = ?", [id]) {
                let row = RowReference(name, try RowName(decoding: values.bytes(0) ?? []))
                guard let renamed = renamed(row, former) else { continue }
                let name = renamed.row.encoded
                let key = [id, values[0]]
                try db.execute("UPDATE \(counts) SET name = ? WHERE tbl = ? AND name = ?", [.blob(name)] + key)
                guard counts == "counts" else { continue }
                try db.execute(
                    "UPDATE counts SET digest = ? WHERE tbl = ? AND name = ?",
                    [ReplicaState.digest(name), id, .blob(name)]
                )
            }
        }
        for entry in try log.entries(.integrated) {
            var items = try log.formerItems(of: entry)
            let counts = items.counts.map { row, count in
                (row.table == name ? renamed(row, former) ?? row : row, count)
            }
            guard counts.contains(where: { items.counts[$0.0] == nil }) else { continue }
            items.counts = Dictionary(counts) { first, _ in first }
            try db.execute(
                "UPDATE sets SET undo = ? WHERE client = ? AND sequence = ? AND digest = ?",
                [.blob(items.encoded)] + log.key(entry.reference)
            )
        }
    }

    /// The new name of a row without a key, which is named by all of its cells; `nil` for other rows.
    private func renamed(_ row: RowReference, _ former: SchemaDescription.Table) -> RowReference? {
        guard let table = state.schema.tables[row.table], case .key(let cells) = row.row,
            cells.count == former.columns.count,
            former.keyColumns.isEmpty || cells.count != former.keyColumns.count
        else { return nil }
        let names = former.columns.keys.sorted { $0.precedes($1) }
        let named = Dictionary(zip(names, cells)) { first, _ in first }
        return RowReference(row.table, .key(table.columns.map { named[$0] ?? table.defaults[$0] ?? .null }))
    }

    // MARK: Indexes

    /// Finds rows by the values of the new schema.
    private func indexAgain() throws {
        try db.execute("DELETE FROM lookups")
        try db.execute("DELETE FROM tomb_lookups")
        for table in state.schema.tables.keys {
            for name in try state.names(of: table) + state.countedNames(of: table) {
                try state.indexAgain(RowReference(table, name))
            }
            for values in try db.all("SELECT name FROM tombs WHERE tbl = ?", [state.table(table)]) {
                try state.indexTombAgain(RowReference(table, try RowName(decoding: values.bytes(0) ?? [])))
            }
        }
    }
}
