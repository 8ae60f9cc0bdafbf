/// Finds what the user changed in a store since it was last seen: the difference of the store from its base.
struct Capture {
    let state: ReplicaState
    private let store: SQLConnection
    private let pending: ReplicaPending
    private let numbers: ReplicaNumbers
    private let names: RowNames
    private var changes: CapturedChanges
    /// Whether the capture includes a change; it includes all unless the user has said otherwise.
    private let includes: (Change) throws -> Bool
    /// The deleted rows that are noted once all tables are compared, as ``isNotedLast(_:)`` says.
    ///
    /// Their cells aren't kept in memory: until then, the base has them. A row may be there twice.
    var deleted: [RowReference] = []
    /// The deleted rows without a key that are noted then, and how many of each; their names have all of their cells.
    private var deletedCounts: [(row: RowReference, count: Int)] = []
    /// The rows whose integer keys SQLite has given to new rows, by table and number.
    private var formerRows: [String: [Int64: RowName]] = [:]
    /// The integer keys whose rows came or went, by table.
    private var movedNumbers: [String: [Int64]] = [:]

    /// Prepares a capture.
    ///
    /// - Parameters:
    ///   - store: A connection in a transaction.
    ///   - state: The replica, in a write transaction.
    ///   - client: This device.
    ///   - changes: Where the changes go.
    ///   - writtenAgain: A row that the user has just restored.
    ///   - includes: Whether the capture includes a change.
    /// - Throws: `DatabaseError`.
    init(
        of store: SQLConnection,
        _ state: ReplicaState,
        by client: ClientID,
        into changes: CapturedChanges,
        writtenAgain: RowWrittenAgain? = nil,
        where includes: @escaping (Change) throws -> Bool = { _ in true }
    ) throws {
        self.store = store
        self.state = state
        self.changes = changes
        self.includes = includes
        names = try RowNames(in: store, state, by: client, writtenAgain: writtenAgain)
        pending = ReplicaPending(state)
        numbers = ReplicaNumbers(state)
    }

    /// Returns the changes, and records the store as it is as the new base.
    ///
    /// - Parameters:
    ///   - time: When the store was last written, in milliseconds since 1970.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    ///   - pages: The store's pages, which tell which rows may have changed; `nil` if all rows are compared.
    /// - Returns: The changes.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    mutating func run(
        at time: UInt64,
        allowsDeletions: Bool,
        since pages: RememberedPages? = nil
    ) throws -> CapturedChanges {
        names.time = time
        // Tables that give rows their names come first.
        func givesNames(_ table: String) -> Bool { state.schema.numberedTable(table) == table }
        let sorted = state.schema.tables.keys.sorted { $0.precedes($1) }
        let own = try sorted.filter(givesNames).map { try StoreTable($0, in: store, state) }
        let others = try sorted.filter { !givesNames($0) }.map { try StoreTable($0, in: store, state) }
        for table in own {
            for (number, row) in try reusedNumbers(of: table) {
                formerRows[table.name, default: [:]][number] = row
                movedNumbers[table.name, default: []].append(number)
                try names.create(number, in: table.name)
            }
        }
        // If a row has its name from another table, its page doesn't tell whether the name is the same.
        let pages = others.isEmpty ? pages : nil
        var compared: [String: ChangedRows] = [:]
        for table in own + others {
            let rows = pages?.changes(of: table.name) ?? .all
            compared[table.name] = rows
            try compare(rows, of: table, allowsDeletions)
        }
        for table in own {
            try compare(rowsReferringToMovedNumbers(in: table, but: compared), of: table, allowsDeletions)
        }
        let deletedParents = try deletedParents()
        for row in deleted {
            guard let stored = try base(ofDeleted: row) else { continue }
            try noteDeleted(row, stored, parents: try parents(row, stored, among: deletedParents))
        }
        for (row, count) in deletedCounts { try noteDeleted(row, count: count) }
        return changes
    }

    private mutating func note(
        _ change: consuming Change,
        from former: consuming StoredRow? = nil,
        to present: StoredRow? = nil
    ) throws {
        guard try includes(change) else { return }
        try changes.append(change, from: former, to: present)
    }

    private mutating func noteDeleted(_ row: RowReference, _ stored: StoredRow, parents: Set<RowReference>) throws {
        let left = try rowsReferring(to: row, stored)
        let deleted = DeletedRow(image: stored.digest, parents: parents, left: left)
        try note(Change(row.table, row.row, .delete(deleted)), from: stored)
        try pending.setBase(row, nil)
    }

    private mutating func noteDeleted(_ row: RowReference, count: Int) throws {
        let stored = StoredRow(countedIn: try state.schema.table(row.table))
        let left = try pending.baseCount(row) == 0 ? rowsReferring(to: row, stored) : []
        let deleted = DeletedRow(image: stored.digest, left: left)
        for _ in 0..<count { try note(Change(row.table, row.row, .delete(deleted)), from: stored) }
    }

    /// The store's rows that still refer to a deleted row, once all tables are compared.
    private func rowsReferring(to row: RowReference, _ stored: StoredRow) throws -> Set<RowReference> {
        var rows: Set<RowReference> = []
        for id in try state.schema.table(row.table).incoming {
            guard let key = state.schema.childKey(id, leadingTo: row, stored) else { continue }
            let table = try StoreTable(id.table, in: store, state)
            for name in try state.rows(with: key) {
                let child = RowReference(id.table, name)
                if !rows.contains(child), try isLeft(id, of: child, in: table, key) { rows.insert(child) }
            }
        }
        return rows
    }

    /// Whether a row of the store has a reference, and no row has taken the place of the deleted one to which it led.
    private func isLeft(
        _ id: FoldSchema.ReferenceID,
        of child: RowReference,
        in table: StoreTable,
        _ key: LookupKey
    ) throws -> Bool {
        let stored: StoredRow
        if state.schema.isCounted(child) {
            // The base has the store's counts by now. In the store, SQLite might have to read the whole table.
            guard try pending.baseCount(child) > 0 else { return false }
            stored = StoredRow(countedIn: table.table)
        } else {
            guard let row = try table.row(child), row.reference == child else { return false }
            stored = StoredRow(table.table, row.cells)
        }
        let columns = Set(table.table.references[id.index].key.columns)
        return try state.schema.childKey(id, of: child, stored) == key
            && table.danglingColumns(child, stored, among: columns).isSuperset(of: columns)
    }

    // MARK: Names

    /// The numbers that SQLite gave to new rows after it had given them to rows that are gone.
    ///
    /// SQLite does so only with numbers above those of all other rows, and never with `AUTOINCREMENT`. So these rows are
    /// above all that survive. A row survives if a value does that isn't its column's default; where a row has only
    /// one such value, its change is taken for an edit.
    private func reusedNumbers(of table: StoreTable) throws -> [(number: Int64, former: RowName)] {
        guard table.reusesNumbers else { return [] }
        let defaults = table.table.defaults
        var reused: [(number: Int64, former: RowName)] = []
        var last: Int64?
        while let number = try table.greatestNumber(below: last) {
            last = number
            guard let name = try numbers.name(of: number, in: table.name),
                let base = try pending.base(RowReference(table.name, name))
            else { continue }
            let informative = table.table.cells(base).filter {
                !$0.value.isNull && $0.value != defaults[$0.key]
            }
            guard informative.count > 1, let row = try table.row(numbered: number),
                informative.allSatisfy({ row.cells[$0.key] != $0.value })
            else { break }
            reused.append((number, name))
        }
        return reused
    }

    // MARK: Comparing

    /// How many rows of a table are new, and how many are gone.
    struct RowCounts {
        var inserted = 0
        var deleted = 0
    }

    /// Compares rows of a table.
    private mutating func compare(_ rows: ChangedRows, of table: StoreTable, _ allowsDeletions: Bool) throws {
        var base = try BaseScan(table.name, state)
        var rowCounts = RowCounts()
        switch rows {
        case .all:
            var scan = try StoreScan(table.table, in: store, names, state.schema)
            var counted = try CountScan(table.name, state)
            var (countedRows, missingRows) = (0, 0)
            try compare(&scan, &base, table, &rowCounts) {
                try counted.add($0)
                countedRows += 1
            }
            try counted.forEachDifference {
                missingRows += $0.base - $0.count
                try compareCounts($0, table)
            }
            try base.forEachMissing { try addDeleted($0, table, &rowCounts) }
            // An update of a row without a key is a delete and an insert.
            rowCounts.deleted += max(missingRows, 0)
            let formerCount = base.foundCount + countedRows + rowCounts.deleted
            try refuseMassDeletion(rowCounts, outOf: formerCount, table, allowsDeletions)
        case .ranges(let ranges, _):
            guard !ranges.isEmpty else { return }
            var scan = try StoreScan(table.table, in: store, names, state.schema, isOfRanges: true)
            let former = formerRows[table.name] ?? [:]
            for range in ranges {
                let formerCount = base.foundCount + rowCounts.inserted
                try scan.choose(range)
                base.leap()
                try compare(&scan, &base, table, &rowCounts) { _ in }
                let count = base.foundCount + rowCounts.inserted - formerCount
                try base.forEachMissing(in: range, present: count, former: former) {
                    try addDeleted($0, table, &rowCounts)
                }
            }
            // Most rows weren't compared, so they aren't gone.
            guard rowCounts.deleted > base.foundCount else { return }
            let count = try table.count() - rowCounts.inserted + rowCounts.deleted
            try refuseMassDeletion(rowCounts, outOf: count, table, allowsDeletions)
        }
    }

    private mutating func compare(
        _ scan: inout StoreScan,
        _ base: inout BaseScan,
        _ table: StoreTable,
        _ rowCounts: inout RowCounts,
        counting count: ([UInt8]) throws -> Void
    ) throws {
        while try scan.next() {
            if scan.isCounted {
                try count(scan.name)
            } else if try !base.isUnchanged(scan), try compare(scan, &base, table) {
                rowCounts.inserted += 1
            }
        }
    }

    private mutating func addDeleted(_ row: BaseScan.Row, _ table: StoreTable, _ rowCounts: inout RowCounts) throws {
        guard let image = row.image else { return }
        try table.table.check(image)
        let reference = RowReference(table.name, row.name)
        if isNotedLast(table.table) {
            deleted.append(reference)
        } else {
            try noteDeleted(reference, StoredRow(table.table, image), parents: [])
        }
        rowCounts.deleted += 1
        guard table.integerKey != nil, let number = try numbers.number(of: reference) else { return }
        movedNumbers[table.name, default: []].append(number)
    }

    /// The rows of a table that weren't compared, and that refer to integer keys whose rows came or went.
    ///
    /// Such a reference holds another value than it did, in a page that is as it was.
    private func rowsReferringToMovedNumbers(
        in table: StoreTable,
        but compared: [String: ChangedRows]
    ) throws -> ChangedRows {
        guard case .ranges(let ranges, _) = compared[table.name] else { return .ranges([], leafCount: 0) }
        var rows: Set<Int64> = []
        for column in table.table.columns {
            guard let parent = state.schema.rowTable(of: column, in: table.name),
                let numbers = movedNumbers[parent]?.sorted(), !numbers.isEmpty
            else { continue }
            guard table.integerKey != nil else {
                guard try !table.refers(column, toOneOf: numbers) else { return .all }
                continue
            }
            rows.formUnion(try table.numbers(ofRowsWhere: column, isOneOf: numbers))
        }
        var index = 0
        let others = rows.sorted().filter { row in
            while index < ranges.count, ranges[index].upperBound < row { index += 1 }
            return index == ranges.count || !ranges[index].contains(row)
        }
        return .ranges(others.map { $0...$0 }, leafCount: others.count)
    }

    /// Compares a row that isn't the next one of the base, or has other bytes; returns whether it's new.
    private mutating func compare(
        _ scan: borrowing StoreScan,
        _ base: inout BaseScan,
        _ table: StoreTable
    ) throws -> Bool {
        let schema = table.table
        let former = try base.row(scan.rowName())
        guard former.image != scan.image else { return false }
        let row = RowReference(table.name, former.name)
        let stored = StoredRow(schema, scan.image)
        let isNew = former.image == nil
        let edit: Edit
        let base = try (consume former).image.map { try StoredRow(checking: $0, in: schema) }
        if let base {
            edit = .update(try updatedCells(row, stored, from: base, table))
        } else {
            let dangling = try table.danglingColumns(row, stored, among: Set(schema.columns))
            edit = .insert(InsertedRow(cells: stored.cells, wish: scan.number, dangling: dangling))
            if let number = scan.number { movedNumbers[table.name, default: []].append(number) }
        }
        try note(Change(table.name, row.row, consume edit), from: consume base, to: stored)
        try pending.setBase(row, stored.image)
        return isNew
    }

    private func updatedCells(
        _ row: RowReference,
        _ stored: StoredRow,
        from base: StoredRow,
        _ table: StoreTable
    ) throws -> [String: UpdatedCell] {
        var columns = Set(stored.changedColumns(from: base))
        // Columns of one constraint travel together, so that every value of them satisfied it somewhere.
        for group in stored.table.checkGroups where !group.isDisjoint(with: columns) {
            columns.formUnion(group.intersection(stored.table.valueColumns))
        }
        let dangling = try table.danglingColumns(row, stored, among: columns)
        let replaced = try replaced(row, stored.table)
        var cells: [String: UpdatedCell] = [:]
        for column in columns {
            let putsBack = replaced?.holdsSame(column, as: stored) == true && !stored.holdsSame(column, as: base)
            cells[column] = UpdatedCell(
                from: base.oldCell(column) ?? .cell(.null),
                to: stored.cell(column) ?? .null,
                isDangling: dangling.contains(column),
                putsBack: putsBack
            )
        }
        return cells
    }

    /// What the last write replaced in a row.
    private func replaced(_ row: RowReference, _ table: FoldSchema.Table) throws -> StoredRow? {
        try state.db.first("SELECT image FROM replaced WHERE tbl = ? AND name = ?", try state.key(row))?.bytes(0)
            .map { try StoredRow(checking: $0, in: table) }
    }

    private mutating func compareCounts(_ difference: CountScan.Difference, _ table: StoreTable) throws {
        let row = RowReference(table.name, difference.name)
        let (count, base) = (difference.count, difference.base)
        let stored = StoredRow(countedIn: table.table)
        let dangling = try table.danglingColumns(row, stored, among: Set(table.table.columns))
        for _ in base..<max(base, count) {
            let insert = InsertedRow(cells: [:], dangling: dangling)
            try note(Change(table.name, row.row, .insert(insert)), to: stored)
        }
        try pending.setBaseCount(row, count)
        guard count < base else { return }
        if table.table.incoming.isEmpty {
            try noteDeleted(row, count: base - count)
        } else {
            deletedCounts.append((row, base - count))
        }
    }
}
