/// Finds what the user changed in a store since it was last seen: the difference of the store from its base.
struct Capture {
    private let state: ReplicaState
    private let store: SQLConnection
    private let pending: ReplicaPending
    private let numbers: ReplicaNumbers
    private let names: RowNames
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
        names = RowNames(in: store, state, by: client)
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
    }

    /// Returns the changes, and records the store as it is as the new base.
    mutating func run(allowsDeletions: Bool = false) throws -> [Change] {
        // Tables that give rows their names come first.
        func givesNames(_ table: String) -> Bool { state.schema.numberedTable(table) == table }
        let sorted = state.schema.tables.keys.sorted { $0.precedes($1) }
        let own = try sorted.filter(givesNames).map { try StoreTable($0, in: store, state) }
        let others = try sorted.filter { !givesNames($0) }.map { try StoreTable($0, in: store, state) }
        for table in own {
            for number in try reusedNumbers(of: table) { try names.create(number, in: table.name) }
        }
        for table in own + others { try compare(table, allowsDeletions) }
        let deletedParents = try deletedParents()
        for (row, cells) in deleted {
            let image = state.schema.imageDigest(of: RowState(cells: cells, inserters: []))
            changes.append(
                Change(
                    row.table,
                    row.row,
                    .delete(DeletedRow(image: image, parents: try parents(row, cells, among: deletedParents)))
                )
            )
            try pending.setBase(row, nil)
        }
        return changes
    }

    // MARK: Names

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

    // MARK: Comparing

    private mutating func compare(_ table: StoreTable, _ allowsDeletions: Bool) throws {
        let schema = try state.schema.table(table.name)
        var scan = try StoreScan(schema, in: store, names, state.schema)
        var base = try BaseScan(table.name, state)
        var counts = try CountScan(table.name, state)
        while try scan.next() {
            if scan.isCounted {
                try counts.add(scan.name)
            } else if try !base.isUnchanged(scan) {
                try compare(scan, &base, table)
            }
        }
        try counts.forEachDifference { try compareCounts($0, table) }
        try findDeleted(base, table, allowsDeletions)
    }

    /// Compares a row that isn't the next one of the base, or has other bytes.
    private mutating func compare(_ scan: borrowing StoreScan, _ base: inout BaseScan, _ table: StoreTable) throws {
        let former = try base.row(scan.rowName())
        guard former.image != scan.image else { return }
        let row = StoreTable.Row(
            reference: RowReference(table.name, former.name),
            cells: try state.schema.cells(decoding: scan.image, of: table.name),
            number: scan.number
        )
        let cells = try former.image.map { try state.schema.cells(decoding: $0, of: table.name) }
        guard let change = try change(of: row, from: cells, in: table) else { return }
        changes.append(change)
        try pending.setBase(row.reference, row.cells)
    }

    private func change(of row: StoreTable.Row, from base: [String: Cell]?, in table: StoreTable) throws -> Change? {
        guard let base else {
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

    private mutating func compareCounts(_ difference: CountScan.Difference, _ table: StoreTable) throws {
        let row = RowReference(table.name, difference.name)
        let (count, base) = (difference.count, difference.base)
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

    // MARK: Deletes

    private mutating func findDeleted(_ base: borrowing BaseScan, _ table: StoreTable, _ allowsDeletions: Bool) throws {
        var deletedCount = 0
        try base.forEachMissing { row in
            guard let image = row.image else { return }
            deleted[RowReference(table.name, row.name)] = try state.schema.cells(decoding: image, of: table.name)
            deletedCount += 1
        }
        let count = base.foundCount + deletedCount
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
    private func parents(
        _ row: RowReference,
        _ cells: [String: Cell],
        among deletedParents: [LookupKey: [RowReference]]
    ) throws -> Set<RowReference> {
        let row = (reference: row, state: RowState(cells: cells, inserters: []))
        let keys = try cascades(of: row.reference.table).compactMap {
            state.schema.childKey($0, of: row.reference, row.state)
        }
        return Set(keys.flatMap { deletedParents[$0] ?? [] })
    }

    /// The deleted rows to which references with `ON DELETE CASCADE` can lead, by the keys of these references.
    ///
    /// The base of deleted rows is in memory; the state may have other values by now.
    private func deletedParents() throws -> [LookupKey: [RowReference]] {
        var parents: [LookupKey: [RowReference]] = [:]
        for (row, cells) in deleted {
            let rowState = RowState(cells: cells, inserters: [])
            for id in try state.schema.table(row.table).incoming where try cascades(of: id.table).contains(id) {
                guard let key = state.schema.childKey(id, leadingTo: row, rowState) else { continue }
                parents[key, default: []].append(row)
            }
        }
        return parents
    }

    private func cascades(of table: String) throws -> [FoldSchema.ReferenceID] {
        try state.schema.table(table).references.enumerated().filter { $0.element.key.onDelete == .cascade }
            .map { FoldSchema.ReferenceID(table: table, index: $0.offset) }
    }
}
