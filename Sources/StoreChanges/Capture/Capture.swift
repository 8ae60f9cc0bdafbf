/// Finds what the user changed in a store since it was last seen: the difference of the store from its base.
struct Capture {
    private let state: ReplicaState
    private let store: SQLConnection
    private let pending: ReplicaPending
    private let numbers: ReplicaNumbers
    private let client: ClientID
    private var changes: [Change] = []
    private var deleted: [RowReference: [String: Cell]] = [:]

    /// Prepares a capture.
    ///
    /// - Parameters:
    ///   - store: A connection in a read transaction.
    ///   - state: The replica, in a write transaction.
    ///   - client: This device.
    init(of store: SQLConnection, _ state: ReplicaState, by client: ClientID) {
        self.store = store
        self.state = state
        self.client = client
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
    }

    /// Returns the changes, and records the store as it is as the new base.
    mutating func run(allowsDeletions: Bool = false) throws -> [Change] {
        let tables = try state.schema.tables.keys.sorted { $0.precedes($1) }.map {
            try StoreTable($0, in: store, state)
        }
        // First, so that references to new rows find their names.
        for table in tables where state.schema.numberedTable(table.name) == table.name { try nameRows(of: table) }
        for table in tables where state.schema.numberedTable(table.name) != table.name { try nameStrayRows(of: table) }
        for table in tables { try compare(table, allowsDeletions) }
        for (row, cells) in deleted {
            let image = state.schema.imageDigest(of: RowState(cells: cells, inserters: []))
            changes.append(
                Change(row.table, row.row, .delete(DeletedRow(image: image, parents: try parents(row, cells))))
            )
            try pending.setBase(row, nil)
        }
        return changes
    }

    // MARK: Names

    /// Names the rows with integer keys that the user inserted.
    private func nameRows(of table: StoreTable) throws {
        for number in try reusedNumbers(of: table) { try name(number, in: table) }
        try table.forEachNumber { number in
            guard let known = try numbers.name(of: number, in: table.name),
                try pending.base(RowReference(table.name, known)) != nil
            else { return try name(number, in: table) }
        }
    }

    private func name(_ number: Int64, in table: StoreTable) throws {
        let name = try numbers.createName(in: table.name, by: client)
        try numbers.setNumber(number, of: RowReference(table.name, name))
    }

    /// The numbers that SQLite gave to new rows after it had given them to rows that are gone.
    ///
    /// SQLite does so only with numbers above those of all other rows, and never with `AUTOINCREMENT`. So these rows are
    /// above all that survive. A row survives if a value does that isn't its column's default; where a row has only
    /// one such value, its change is taken for an edit.
    private func reusedNumbers(of table: StoreTable) throws -> [Int64] {
        guard table.reusesNumbers else { return [] }
        let defaults = try table.defaults()
        var reused: [Int64] = []
        var last: Int64?
        while let number = try table.greatestNumber(below: last) {
            last = number
            guard let name = try numbers.name(of: number, in: table.name),
                let base = try pending.base(RowReference(table.name, name))
            else { continue }
            let informative = base.filter { !$0.value.isNull && $0.value != defaults[$0.key] }
            guard informative.count > 1, let row = try table.row(numbered: number),
                informative.allSatisfy({ row.cells[$0.key] != $0.value })
            else { break }
            reused.append(number)
        }
        return reused
    }

    /// Names the rows of a table whose integer key refers to a row that doesn't exist.
    private func nameStrayRows(of table: StoreTable) throws {
        try table.forEachNumber { number in
            if try numbers.name(of: number, in: table.name) == nil { try name(number, in: table) }
        }
    }

    // MARK: Comparing

    private mutating func compare(_ table: StoreTable, _ allowsDeletions: Bool) throws {
        var present: Set<RowName> = []
        var counts: [RowReference: Int] = [:]
        var found: [Change] = []
        try table.forEachRow { row in
            guard !state.schema.isCounted(row.reference) else { return counts[row.reference, default: 0] += 1 }
            present.insert(row.reference.row)
            guard let change = try change(of: row, in: table) else { return }
            found.append(change)
            try pending.setBase(row.reference, row.cells)
        }
        changes += found
        try compareCounts(counts, table)
        try findDeleted(present, table, allowsDeletions)
    }

    private func change(of row: StoreTable.Row, in table: StoreTable) throws -> Change? {
        guard let base = try pending.base(row.reference) else {
            let dangling = try table.danglingColumns(row)
            let inserted = InsertedRow(
                cells: row.cells,
                wish: row.number,
                dangling: dangling
            )
            return Change(table.name, row.reference.row, .insert(inserted))
        }
        var columns = Set(row.cells.filter { base[$0.key] != $0.value }.keys)
        guard !columns.isEmpty else { return nil }
        // Columns of one constraint travel together, so that every value of them satisfied it somewhere.
        for group in try state.schema.table(table.name).checkGroups where !group.isDisjoint(with: columns) {
            columns.formUnion(group.intersection(row.cells.keys))
        }
        let dangling = try table.danglingColumns(row)
        let replaced = try replaced(row.reference)
        var cells: [String: UpdatedCell] = [:]
        for column in columns {
            let (new, old) = (row.cells[column] ?? .null, base[column] ?? .null)
            cells[column] = UpdatedCell(
                from: OldCell(old),
                to: new,
                isDangling: dangling.contains(column),
                putsBack: new != old && replaced?[column] == new
            )
        }
        return Change(table.name, row.reference.row, .update(cells))
    }

    /// What the last write replaced in a row.
    private func replaced(_ row: RowReference) throws -> [String: Cell]? {
        try state.db.first("SELECT image FROM replaced WHERE tbl = ? AND name = ?", try state.key(row))?.bytes(0)
            .map { try state.schema.cells(decoding: $0, of: row.table) }
    }

    private mutating func compareCounts(_ counts: [RowReference: Int], _ table: StoreTable) throws {
        let known = try baseNames("counts", "pending_counts", table).map { RowReference(table.name, $0) }
        for row in Set(counts.keys).union(known).sorted() {
            let (count, base) = (counts[row] ?? 0, try pending.baseCount(row))
            guard count != base else { continue }
            let dangling = try table.danglingColumns(StoreTable.Row(reference: row, cells: [:], number: nil))
            for _ in base..<max(base, count) {
                changes.append(Change(table.name, row.row, .insert(InsertedRow(cells: [:], dangling: dangling))))
            }
            let image = state.schema.imageDigest(of: .counted)
            for _ in count..<max(base, count) {
                changes.append(Change(table.name, row.row, .delete(DeletedRow(image: image))))
            }
            try pending.setBaseCount(row, count)
        }
    }

    /// The names of the state and of pending rows.
    private func baseNames(_ rows: String, _ pending: String, _ table: StoreTable) throws -> Set<RowName> {
        let id = try state.table(table.name)
        let names = try state.db.all(
            "SELECT name FROM \(rows) WHERE tbl = ? UNION SELECT name FROM \(pending) WHERE tbl = ?",
            [id, id]
        )
        return Set(try names.map { try RowName(decoding: $0.bytes(0) ?? []) })
    }

    // MARK: Deletes

    private mutating func findDeleted(_ present: Set<RowName>, _ table: StoreTable, _ allowsDeletions: Bool) throws {
        var (count, deletedCount) = (0, 0)
        for name in try baseNames("rows", "pending", table) {
            let row = RowReference(table.name, name)
            guard let base = try pending.base(row) else { continue }
            count += 1
            guard !present.contains(name) else { continue }
            deleted[row] = base
            deletedCount += 1
        }
        guard allowsDeletions || count <= 100 || deletedCount * 2 <= count else {
            throw StoreChangesError(
                .massDeletion,
                """
                \(deletedCount) of \(count) rows of \(table.name) are gone since the last synchronization. If they were \
                deleted on purpose, allow deletions; otherwise restore the store.
                """
            )
        }
    }

    /// The deleted rows to which a deleted row referred with `ON DELETE CASCADE`.
    private func parents(_ row: RowReference, _ cells: [String: Cell]) throws -> Set<RowReference> {
        var parents: Set<RowReference> = []
        let row = (reference: row, state: RowState(cells: cells, inserters: []))
        for (index, reference) in try state.schema.table(row.reference.table).references.enumerated()
        where reference.key.onDelete == .cascade {
            let id = FoldSchema.ReferenceID(table: row.reference.table, index: index)
            guard let child = state.schema.childKey(id, of: row.reference, row.state) else { continue }
            // The base of deleted rows is in memory; the state may have other values by now.
            for parent in deleted where parent.key.table == reference.parent {
                let parentState = RowState(cells: parent.value, inserters: [])
                if state.schema.childKey(id, leadingTo: parent.key, parentState) == child { parents.insert(parent.key) }
            }
        }
        return parents
    }
}
