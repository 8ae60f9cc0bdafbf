/// What a capture found, divided into sets of a limited size.
///
/// To integrate a set, a device keeps all of its rows in memory. So many changes, as when an app imports rows or fills a new column,
/// become several sets: as if the user had made them one after the other, and the app's store had been valid after each set. So a
/// device that has only some of the sets has a valid state too. Only the set with all changes that must stay together may be larger.
///
/// Until then the changes are in a temporary table.
struct CapturedChanges {
    /// How many changes a set has, and how large their rows are together, unless more must stay together.
    struct Limits {
        var changes = 5_000
        /// In bytes.
        var size = 2 << 20
        /// The same of what is written into the temporary table at once.
        fileprivate var ofRun: (changes: Int, size: Int) { (min(changes, 500), 256 << 10) }
    }

    /// When a change takes effect among all that were captured together.
    private enum Place: Hashable {
        /// Before the others.
        case early
        /// With all that constraints may tie to it.
        case middle
        /// After the others; inserted rows that have greater ranks may refer to those of smaller ones.
        case late(rank: Int)

        var number: Int64 {
            switch self {
            case .early: -2
            case .middle: -1
            case .late(let rank): Int64(rank)
            }
        }
    }

    private let state: ReplicaState
    private let isMigration: Bool
    private let limits: Limits
    private let tables: [String: Table]
    private var runs: [Place: (changes: [Change], size: Int)] = [:]
    private(set) var count = 0
    private var lateRanks: Set<Int> = []
    /// The values by which updated rows find the rows to which they refer from now on.
    private var needed: Set<LookupKey> = []
    /// The tables whose inserted rows must stay together.
    private var undivided: Set<String>
    /// The greatest integer key of the rows that were inserted into a table that refers to itself, by table.
    private var lastNumbers: [String: Int64] = [:]

    var isEmpty: Bool { count == 0 }

    /// What is asked of a table for each of its changes.
    private struct Table {
        /// The columns that a key, a unique index or a foreign key names.
        let constrainedColumns: Set<String>
        let isReferenced: Bool
        let refersToItself: Bool
        /// Greater than those of the tables to which it refers.
        let rank: Int

        init(_ table: FoldSchema.Table) {
            constrainedColumns = table.keyColumns.union(table.uniques.flatMap(\.columns))
                .union(table.references.flatMap(\.key.columns)).union(table.referencedColumns.joined())
            isReferenced = !table.incoming.isEmpty
            refersToItself = table.references.contains { $0.parent == table.schema.name }
            rank = table.ancestors.count { $0 != table.schema.name }
        }
    }

    /// Prepares to hold the changes of a capture.
    ///
    /// - Parameters:
    ///   - state: The replica, in a write transaction.
    ///   - isMigration: Whether they are captured together with a change of the schema.
    ///   - limits: The limits of a set.
    /// - Throws: `DatabaseError`.
    init(_ state: ReplicaState, isMigration: Bool, _ limits: Limits) throws {
        (self.state, self.isMigration, self.limits) = (state, isMigration, limits)
        tables = state.schema.tables.mapValues { Table($0) }
        undivided = state.schema.tablesInCycles
        try state.db.execute("DROP TABLE IF EXISTS temp.captured")
        try state.db.execute("CREATE TEMP TABLE captured (id INTEGER PRIMARY KEY, place INTEGER, bytes BLOB)")
        try state.db.execute("CREATE INDEX temp.captured_places ON captured (place, id)")
    }

    // MARK: Adding

    /// Adds a change.
    ///
    /// - Parameters:
    ///   - change: The change.
    ///   - size: The size of the row, in bytes.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    mutating func append(_ change: Change, size: Int) throws {
        count += 1
        let place = try place(of: change)
        if place == .middle { try need(parentsOf: change) }
        var run = runs.removeValue(forKey: place) ?? ([], 0)
        run.changes.append(change)
        run.size += size
        runs[place] = run
        if run.changes.count >= limits.ofRun.changes || run.size >= limits.ofRun.size { try write(place) }
    }

    private mutating func write(_ place: Place) throws {
        guard let run = runs.removeValue(forKey: place) else { return }
        if case .late(let rank) = place { lateRanks.insert(rank) }
        try state.db.execute(
            "INSERT INTO temp.captured (place, bytes) VALUES (?, ?)",
            [.integer(place.number), .blob(SyncChangeSet(.ofRun, run.changes).encoded)]
        )
    }

    /// Where a change can stand so that all constraints hold after each set.
    ///
    /// `CHECK` constraints don't count: each concerns one row, whose columns stay together.
    private mutating func place(of change: Change) throws -> Place {
        guard let table = tables[change.table], !undivided.contains(change.table) else { return .middle }
        let isCounted = state.schema.isCounted(RowReference(change.table, change.row))
        switch change.edit {
        // A migration's inserts and counts are compared with what other devices did, but not with each other.
        case _ where isMigration && isCounted: return .middle
        // Its unique values may be another row's from then on. Another change may need it gone, or be gone with it.
        case .delete(let row): return table.isReferenced || !row.parents.isEmpty ? .middle : .early
        case .insert where isMigration: return .middle
        // Its unique values and the rows to which it refers are there by then.
        case .insert(let row):
            if table.refersToItself, try !followsItsParents(row, change) { undivided.insert(change.table) }
            return undivided.contains(change.table) ? .middle : .late(rank: table.rank)
        case .update(let cells):
            return table.constrainedColumns.isDisjoint(with: cells.keys) ? .late(rank: table.rank) : .middle
        }
    }

    /// Whether an inserted row comes after the rows of its table to which it refers.
    private mutating func followsItsParents(_ row: InsertedRow, _ change: Change) throws -> Bool {
        guard let number = row.wish, number > lastNumbers[change.table] ?? .min else { return false }
        lastNumbers[change.table] = number
        let numbers = ReplicaNumbers(state)
        for reference in try state.schema.table(change.table).references where reference.parent == change.table {
            let cells = reference.key.columns.map { row.cells[$0] ?? .null }
            guard !cells.contains(.null) else { continue }
            guard cells.count == 1, case .row(let parent) = cells[0] else { return false }
            guard parent != change.row else { continue }
            let parentNumber = try numbers.number(of: RowReference(change.table, parent))
            guard let parentNumber, parentNumber < number else { return false }
        }
        return true
    }

    /// Notes the rows to which a change leads references: if they are inserted, they must not come later.
    private mutating func need(parentsOf change: Change) throws {
        let row = RowReference(change.table, change.row)
        let cells: [String: Cell]
        switch change.edit {
        case .delete: return
        case .insert(let inserted): cells = inserted.cells
        case .update(let updated): cells = updated.mapValues(\.new)
        }
        let table = try state.schema.table(change.table)
        for (index, reference) in table.references.enumerated() {
            let known = reference.key.columns.count { cells[$0] != nil || table.keyColumns.contains($0) }
            let isWritten: Bool = if case .insert = change.edit { true } else { known > 0 }
            guard isWritten else { continue }
            guard known == reference.key.columns.count else {
                undivided.insert(reference.parent)
                continue
            }
            let id = FoldSchema.ReferenceID(table: change.table, index: index)
            guard let child = state.schema.childKey(id, of: row, StoredRow(table, cells)),
                let key = state.schema.parentKey(id, child)
            else { continue }
            needed.insert(key)
        }
    }

    /// All changes, in no order.
    mutating func all() throws -> [Change] {
        for place in Array(runs.keys) { try write(place) }
        var changes: [Change] = []
        try state.db.forEach("SELECT bytes FROM temp.captured ORDER BY id") {
            changes += try SyncChangeSet(decoding: $0.bytes(0) ?? []).changes
        }
        return changes
    }

    // MARK: Dividing

    /// Calls `body` with the changes of each set, in order.
    mutating func forEachSet(_ body: ([Change]) throws -> Void) throws {
        for place in Array(runs.keys) { try write(place) }
        try moveNeededRows()
        var set: [Change] = []
        var room = limits.size
        func endSet() throws {
            if !set.isEmpty { try body(set) }
            (set, room) = ([], limits.size)
        }
        func add(_ changes: [Change], size: Int) throws {
            var rest = changes[...]
            while !rest.isEmpty {
                if set.count >= limits.changes || room < size { try endSet() }
                let fitting = rest.prefix(limits.changes - set.count)
                set += fitting
                rest = rest.dropFirst(fitting.count)
            }
            room -= size
        }
        try forEachRun(of: .early, add)
        var tied: (changes: [Change], size: Int) = ([], 0)
        try forEachRun(of: .middle) { changes, size in
            tied.changes += changes
            tied.size += size
        }
        if set.count + tied.changes.count > limits.changes || room < tied.size { try endSet() }
        set += tied.changes
        room -= tied.size
        for rank in lateRanks.sorted() { try forEachRun(of: .late(rank: rank), add) }
        try endSet()
        try state.db.execute("DROP TABLE temp.captured")
    }

    /// Moves inserted rows to the changes that need them, and the rows that these need.
    ///
    /// Rows are looked at before those to which they may refer.
    private mutating func moveNeededRows() throws {
        guard !needed.isEmpty || !undivided.isEmpty else { return }
        for rank in lateRanks.sorted(by: >) {
            var last = Int64.max
            while let (id, changes) = try lastRun(of: .late(rank: rank), before: last) {
                last = id
                var kept: [Change] = []
                for change in changes.reversed() {
                    guard try isNeeded(change) else {
                        kept.append(change)
                        continue
                    }
                    try need(parentsOf: change)
                    runs[.middle, default: ([], 0)].changes.append(change)
                }
                guard kept.count < changes.count else { continue }
                let bytes = SyncChangeSet(.ofRun, kept.reversed()).encoded
                try state.db.execute("UPDATE temp.captured SET bytes = ? WHERE id = ?", [.blob(bytes), .integer(id)])
                try write(.middle)
            }
        }
    }

    private func isNeeded(_ change: Change) throws -> Bool {
        guard case .insert(let row) = change.edit else { return false }
        if undivided.contains(change.table) { return true }
        let stored = StoredRow(try state.schema.table(change.table), row.cells)
        return state.schema.parentKeys(of: RowReference(change.table, change.row), stored).contains(
            where: needed.contains
        )
    }

    private func lastRun(of place: Place, before last: Int64) throws -> (id: Int64, changes: [Change])? {
        let values = try state.db.first(
            "SELECT id, bytes FROM temp.captured WHERE place = ? AND id < ? ORDER BY id DESC LIMIT 1",
            [.integer(place.number), .integer(last)]
        )
        guard let values, let id = values.integer(0) else { return nil }
        return (id, try SyncChangeSet(decoding: values.bytes(1) ?? []).changes)
    }

    private func forEachRun(of place: Place, _ body: ([Change], Int) throws -> Void) throws {
        try state.db.forEach("SELECT bytes FROM temp.captured WHERE place = ? ORDER BY id", [.integer(place.number)]) {
            let bytes = $0.bytes(0) ?? []
            let changes = try SyncChangeSet(decoding: bytes).changes
            if !changes.isEmpty { try body(changes, bytes.count) }
        }
    }
}

extension FoldSchema {
    /// The tables whose rows may need each other, and those with references that lead to, or are, columns that don't travel:
    /// generated ones.
    fileprivate var tablesInCycles: Set<String> {
        var found: Set<String> = []
        for table in tables.values {
            let name = table.schema.name
            if table.ancestors.contains(where: { $0 != name && tables[$0]?.ancestors.contains(name) == true }) {
                found.insert(name)
            }
            guard table.references.count < table.schema.references.count else { continue }
            found.formUnion([name] + table.schema.references.map(\.parent))
        }
        return found
    }
}

extension SyncChangeSet.Header {
    /// The header of changes that aren't a set yet.
    fileprivate static let ofRun = SyncChangeSet.Header(
        id: SetID(.origin, 1),
        predecessor: .none,
        stamp: Stamp(rawValue: 0),
        seen: [:],
        schema: SchemaVersion(0, .none)
    )
}
