/// Brings a replica to a new schema of its store, after the app changed it.
///
/// What the schema adds holds its default in the state as in the store, so it isn't taken for edits. Rows of tables whose
/// keys changed leave the state, and are captured as new ones. A column that was a reference and isn't any more, or has become
/// one, holds its default until the store's values are captured.
struct ReplicaMigration {
    private let log: ReplicaLog
    private var state: ReplicaState { log.state }
    private var db: SQLConnection { state.db }

    init(_ log: ReplicaLog) { self.log = log }

    /// Migrates if the schema isn't the former one.
    ///
    /// - Parameters:
    ///   - store: The store's schema.
    ///   - takesOlder: Whether an older schema than the former one is taken: from then on it's the newest.
    /// - Throws: `DatabaseError`; ``StoreChangesError`` with `newerSchema` or `unsuitableTable`.
    func run(to store: StoreSchema, takesOlder: Bool) throws {
        let schema = state.schema.description
        let bytes = schema.encoded
        let layout = try ReplicaFact.layout.read(db)
        guard layout != bytes else { return }
        var former: SchemaDescription?
        if let layout {
            let replaced = try SchemaDescription(decoding: layout)
            try refuseUnsuitableTables(of: store, after: replaced)
            former = replaced
            if try log.versions.isOlder(than: replaced) {
                guard takesOlder else { throw StoreChangesError.olderSchema }
                try log.versions.forgetOwn()
                former = nil
            }
            try migrate(from: replaced, to: schema)
            try ReplicaFact.migrated.set(db)
            // What the schema adds has to be captured, even if the store's file is as it was.
            try ReplicaFact.status.write(nil, db)
            let again = try log.versions.namesAddedAgain(since: replaced)
            if !again.isEmpty {
                try ReplicaFact.addedAgain.write(Array(again.joined(separator: ", ").utf8), db)
            }
            try log.versions.rememberFormer(SetDigest(of: layout))
        }
        try ReplicaFact.layout.write(bytes, db)
        try log.versions.rememberOwn(after: former)
        try log.readAgain()
        // What the sets are folded by is new.
        try log.markUnjudged()
    }

    private func migrate(from former: SchemaDescription, to schema: SchemaDescription) throws {
        // The store may take rows now that it refused.
        try ReplicaFact.tokenIsOld.set(db)
        let rowColumns = RowColumns(former)
        for (name, table) in former.tables.sorted(by: { $0.key.precedes($1.key) }) {
            func refersElsewhere(_ column: String) -> Bool {
                state.schema.refersElsewhere(column, of: name, since: rowColumns)
            }
            if let new = schema.tables[name], new.keyKind == table.keyKind, new.keyColumns == table.keyColumns,
                !new.keyColumns.contains(where: refersElsewhere)
            {
                if new.columns != table.columns || new.columns.keys.contains(where: refersElsewhere) {
                    try rewrite(name, FormerTable(table, rowColumns))
                }
            } else {
                try forget(name)
            }
        }
        try indexAgain()
        if !schema.isExtension(of: former) { try log.countDigestAgain() }
    }

    /// Refuses a store with a table that synchronized until now, and can't as it's defined now.
    ///
    /// The replica would forget the table's rows. If a later update mended the table, they would be new rows on this device.
    private func refuseUnsuitableTables(of store: StoreSchema, after former: SchemaDescription) throws {
        let names = Set(former.tables.keys.map(\.sqlName))
        let unsuitable = store.reports.filter { report in
            !report.synchronizes && store.columnNames[report.table] != nil && names.contains(report.table.sqlName)
        }
        guard !unsuitable.isEmpty else { return }
        let reasons = unsuitable.map { "\($0.table): \($0.reason ?? "")" }
        throw StoreChangesError(
            .unsuitableTable,
            """
            Since an update of the app, tables can't synchronize that did before. \(reasons.joined(separator: " ")) Nothing \
            was captured, published or written. Update the app to a version that mends these tables, or drops them; then \
            synchronize again, and what was edited meanwhile is published.
            """
        )
    }

    // MARK: Tables

    private func forget(_ table: String) throws {
        let id = try state.table(table)
        for rows in ["rows", "tombs", "counts", "aliases", "pending", "pending_counts", "replaced", "refusals"] {
            try db.execute("DELETE FROM \(rows) WHERE tbl = ?", [id])
        }
        // Undoing a set must not put rows back under their former names.
        try log.undo.rewrite { items in
            items.rows.removeAll { $0.key.table == table }
            items.tombs.removeAll { $0.key.table == table }
            items.aliases.removeAll { $0.key.table == table }
            items.counts.removeAll { $0.key.table == table }
        }
    }

    private func rewrite(_ name: String, _ former: FormerTable) throws {
        let (table, id) = (try state.schema.table(name), try state.table(name))
        for rows in ["rows", "tombs", "pending", "replaced"] {
            var last = StoredValue.blob([])
            while true {
                let page = try db.all(
                    """
                    SELECT name, image FROM \(rows) WHERE tbl = ? AND name > ? AND image IS NOT NULL
                    ORDER BY name LIMIT 500
                    """,
                    [id, last]
                )
                guard let end = page.last else { break }
                for values in page {
                    let image = try image(values.bytes(1) ?? [], former, in: table)
                    try db.execute(
                        "UPDATE \(rows) SET image = ? WHERE tbl = ? AND name = ?",
                        [.blob(image), id, values[0]]
                    )
                }
                last = end[0]
            }
        }
        try rewriteFormerItems(name, former)
        try renameCounted(in: name, former)
    }

    /// Gives rows without a key the names that they have by the new columns; rows that became equal are counted together.
    private func renameCounted(in table: String, _ former: FormerTable) throws {
        let pending = ReplicaPending(state)
        var counts: [RowReference: (present: Int, base: Int)] = [:]
        let names = try db.all(
            "SELECT name FROM counts WHERE tbl = ?1 UNION SELECT name FROM pending_counts WHERE tbl = ?1",
            [state.table(table)]
        )
        for values in names {
            let row = RowReference(table, try values.rowName(0))
            guard let renamed = renamed(row, former) else { continue }
            counts[renamed, default: (0, 0)].present += try state.count(row) ?? 0
            counts[renamed, default: (0, 0)].base += try pending.baseCount(row)
            try db.execute("DELETE FROM counts WHERE tbl = ? AND name = ? AND digest = ?", try state.countKey(row))
            try db.execute("DELETE FROM pending_counts WHERE tbl = ? AND name = ?", try state.key(row))
        }
        // The new keys are found afterwards.
        for (row, count) in counts.sorted(by: { $0.key < $1.key }) {
            if count.present > 0 { try state.write(row, count: count.present) }
            try pending.changeBaseCount(row, count.base)
        }
    }

    /// Brings what undoing sets puts back to the new columns of a table.
    private func rewriteFormerItems(_ name: String, _ former: FormerTable) throws {
        guard let table = state.schema.tables[name] else { return }
        func rewritten(_ row: StoredRow) throws -> StoredRow {
            StoredRow(table, try image(row.image, former, in: table), inserters: row.inserters)
        }
        var counts = try FormerCounts(of: name, state) { renamed($0, former) ?? $0 }
        try log.undo.rewrite { items in
            counts.rewrite(&items)
            for index in items.rows.indices where items.rows[index].key.table == name {
                items.rows[index].item = try items.rows[index].item.map(rewritten)
            }
            for index in items.tombs.indices where items.tombs[index].key.table == name {
                items.tombs[index].item = try items.tombs[index].item.map {
                    StoredTomb(row: try rewritten($0.row), deleters: $0.deleters)
                }
            }
        }
    }

    /// The image of a row as the new columns have it.
    private func image(
        _ image: [UInt8],
        _ former: FormerTable,
        in table: FoldSchema.Table
    ) throws -> [UInt8] {
        var parser = ByteParser(image)
        var cells: [String: Cell] = [:]
        for column in former.columns where !former.table.keyColumns.contains(column) {
            let cell = try parser.cell("a stored cell")
            // What the store has in place of a cell that means nothing any more is captured afterwards.
            guard state.schema.hasSameMeaning(cell, in: column, of: table.schema.name, since: former.rowColumns) else {
                continue
            }
            cells[column] = table.stored(cell, in: column)
        }
        return table.encode(cells)
    }

    /// The new name of a row without a key, which is named by all of its cells; `nil` for other rows.
    private func renamed(_ row: RowReference, _ former: FormerTable) -> RowReference? {
        guard let table = state.schema.tables[row.table], case .key(let cells) = row.row,
            cells.count == former.columns.count, former.table.isCounted(cells)
        else { return nil }
        let name = state.schema.nameOfCounted(cells, of: former.columns, in: table, since: former.rowColumns)
        return RowReference(row.table, name)
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
                try state.indexTombAgain(RowReference(table, try values.rowName(0)))
            }
        }
    }
}

/// A table as it was.
private struct FormerTable {
    /// All columns, in ascending order of their names.
    let columns: [String]
    let table: SchemaDescription.Table
    /// What the columns of all tables referred to.
    let rowColumns: RowColumns

    init(_ table: SchemaDescription.Table, _ rowColumns: RowColumns) {
        columns = table.columnNames
        self.table = table
        self.rowColumns = rowColumns
    }
}

/// How often rows without a key occurred before each set, while they get the names that they have by new columns.
///
/// Rows that become equal are counted together, also the ones that a set didn't change.
private struct FormerCounts {
    private let table: String
    private let rename: (RowReference) -> RowReference
    /// The counts by former names, before the sets that were read.
    private var counts: [RowReference: Int] = [:]
    /// The former names of rows that become equal.
    private var names: [RowReference: Set<RowReference>] = [:]

    init(of table: String, _ state: ReplicaState, _ rename: @escaping (RowReference) -> RowReference) throws {
        (self.table, self.rename) = (table, rename)
        for name in try state.countedNames(of: table) {
            let row = RowReference(table, name)
            set(row, try state.count(row))
        }
    }

    private mutating func set(_ row: RowReference, _ count: Int?) {
        counts[row] = count
        names[rename(row), default: []].insert(row)
    }

    /// Renames what undoing a set puts back; the last set has to come first.
    mutating func rewrite(_ items: inout FormerItems) {
        let former = items.counts.filter { $0.key.table == table }
        items.counts.removeAll { $0.key.table == table }
        for (row, count) in former { set(row, count) }
        for row in Set(former.map { rename($0.key) }).sorted() {
            let count = (names[row] ?? []).reduce(0) { $0 + (counts[$1] ?? 0) }
            items.counts.append((row, count == 0 ? nil : count))
        }
    }
}

extension StoreChangesError {
    fileprivate static let olderSchema = StoreChangesError(
        .newerSchema,
        """
        The store has an older schema than when it was last synchronized. Update the app on this device. If the newest app \
        has taken a change of its schema back, synchronize with --rebuild.
        """
    )
}
