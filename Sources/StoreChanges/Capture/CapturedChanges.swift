/// What a capture found, divided into sets of a limited size.
///
/// To integrate a set, a device keeps all of its rows in memory. So many changes, as when an app imports rows or fills a new
/// column, become several sets: as if the user had made them one after the other, and the app's store had been valid after
/// each set. So a device that has only some of the sets has a valid state too. Only the set with all changes that must stay
/// together may be larger.
///
/// The changes wait in a temporary table until the capture has ended, and are written there in runs. Without changes there is
/// no table.
struct CapturedChanges {
    /// How many changes a set has, and how large their rows are together, unless more must stay together.
    struct Limits {
        var changes = 5_000
        /// In bytes.
        var size = 2 << 20
        /// The same for a run of changes, which is written at once.
        fileprivate var ofRun: (changes: Int, size: Int) { (min(changes, 500), 256 << 10) }
    }

    /// When a change takes effect among all that were captured together.
    private enum Phase: Hashable {
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

    /// Changes of a phase that are written together.
    private struct Run {
        var changes: [Change] = []
        /// How large their rows are together, in bytes.
        var size = 0
    }

    private let state: ReplicaState
    private let isMigration: Bool
    private let limits: Limits
    private let tables: [String: Table]
    private var runs: [Phase: Run] = [:]
    private(set) var isEmpty = true
    /// Whether the temporary table exists.
    private var isStored = false
    private var lateRanks: Set<Int> = []
    /// The values by which references find rows that must be there after the changes that stay together.
    private var needed: Set<LookupKey> = []
    /// The tables whose inserted rows must stay together.
    private var undivided: Set<String>

    /// What decides when changes of a table take effect.
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
    init(_ state: ReplicaState, isMigration: Bool, _ limits: Limits) {
        (self.state, self.isMigration, self.limits) = (state, isMigration, limits)
        tables = state.schema.tables.mapValues { Table($0) }
        undivided = state.schema.tablesInCycles
    }

    private mutating func createTable() throws {
        guard !isStored else { return }
        // Of a capture that failed, or whose changes are captured again.
        try state.db.execute("DROP TABLE IF EXISTS temp.captured")
        try state.db.execute(
            "CREATE TEMP TABLE captured (id INTEGER PRIMARY KEY, phase INTEGER, size INTEGER, bytes BLOB)"
        )
        try state.db.execute("CREATE INDEX temp.captured_phases ON captured (phase, id)")
        isStored = true
    }

    // MARK: Adding

    /// Adds a change.
    ///
    /// - Parameters:
    ///   - change: The change; it's released before it's written.
    ///   - former: The row before; `nil` if it's new.
    ///   - present: The row from then on; `nil` if it's gone.
    /// - Throws: `DatabaseError` and ``StoreChangesError``.
    mutating func append(
        _ change: consuming Change,
        from former: consuming StoredRow?,
        to present: StoredRow?
    ) throws {
        isEmpty = false
        let phase = try phase(of: change, to: present)
        if phase == .middle { try noteNeeds(of: change, from: former, to: present) }
        let size = max(former?.image.count ?? 0, present?.image.count ?? 0)
        _ = consume former
        var run = runs.removeValue(forKey: phase) ?? Run()
        run.changes.append(consume change)
        run.size += size
        let isFull = run.changes.count >= limits.ofRun.changes || run.size >= limits.ofRun.size
        runs[phase] = consume run
        if isFull { try write(phase) }
    }

    /// Adds a change that is captured again, to the state as it is.
    mutating func append(repeated change: Change) throws {
        let (row, table) = (change.reference, try state.schema.table(change.table))
        let former = state.schema.isCounted(row) ? StoredRow(countedIn: table) : try state.row(row)
        switch change.edit {
        case .delete: try append(change, from: former, to: nil)
        case .insert: try append(change, from: nil, to: inserted(change))
        case .update(let cells):
            var present = former ?? StoredRow(table, [:])
            present.write(cells.mapValues(\.new))
            try append(change, from: former, to: present)
        }
    }

    private mutating func write(_ phase: Phase) throws {
        guard let run = runs.removeValue(forKey: phase) else { return }
        if case .late(let rank) = phase { lateRanks.insert(rank) }
        try createTable()
        let size = Int64(run.size)
        let bytes = SyncChangeSet(.ofRun, (consume run).changes).encoded
        try state.db.execute(
            "INSERT INTO temp.captured (phase, size, bytes) VALUES (?, ?, ?)",
            [.integer(phase.number), .integer(size), .blob(consume bytes)]
        )
    }

    private mutating func writeAll() throws {
        for phase in Array(runs.keys) { try write(phase) }
    }

    /// When a change can take effect so that all constraints hold after each set.
    ///
    /// `CHECK` constraints don't count: each concerns one row, whose columns stay together.
    private mutating func phase(of change: Change, to present: StoredRow?) throws -> Phase {
        guard let table = tables[change.table], !undivided.contains(change.table) else { return .middle }
        let row = change.reference
        let isCounted = state.schema.isCounted(row)
        switch change.edit {
        // A migration's inserts and counts are compared with what other devices did, but not with each other.
        case _ where isMigration && isCounted: return .middle
        // Its unique values may be another row's from then on. Another change may need it gone, or be gone with it.
        case .delete(let deleted): return table.isReferenced || !deleted.parents.isEmpty ? .middle : .early
        case .insert where isMigration: return .middle
        // Its unique values and the rows to which it refers are there by then.
        case .insert(let inserted):
            if table.refersToItself, try !followsItsParents(row, present, except: inserted.dangling) {
                undivided.insert(change.table)
            }
            return undivided.contains(change.table) ? .middle : .late(rank: table.rank)
        case .update(let cells):
            return table.constrainedColumns.isDisjoint(with: cells.keys) ? .late(rank: table.rank) : .middle
        }
    }

    /// Whether the rows of its own table to which an inserted row refers were there before, or were captured before it.
    private func followsItsParents(_ row: RowReference, _ stored: StoredRow?, except dangling: Set<String>) throws
        -> Bool
    {
        // Rows without a key come in another order than the store has them.
        guard let stored, !state.schema.isCounted(row) else { return false }
        let table = try state.schema.table(row.table)
        let pending = ReplicaPending(state)
        for reference in table.references
        where reference.parent == row.table && dangling.isDisjoint(with: reference.key.columns) {
            let cells = reference.key.columns.map { state.schema.cell($0, of: row, stored) }
            guard !cells.contains(where: \.isNull) else { continue }
            guard let parent = try state.schema.row(reference, cells) else {
                // It leads to the key, but doesn't hold the number of a row; or it leads to other columns.
                if reference.key.parentColumns == table.schema.key.columns { continue }
                return false
            }
            guard try parent == row || pending.base(parent) != nil else { return false }
        }
        return true
    }

    /// Notes which rows must be there after the changes that stay together, if they are inserted rows.
    ///
    /// They are the rows to which a change leads references, and the rows that take a value from a row to which references led.
    private mutating func noteNeeds(of change: Change, from former: StoredRow?, to present: StoredRow?) throws {
        let row = change.reference
        if let former {
            let kept = present.map { state.schema.parentKeys(of: row, $0) } ?? []
            needed.formUnion(Set(state.schema.parentKeys(of: row, former)).subtracting(kept))
        }
        guard let present else { return }
        for (index, reference) in try state.schema.table(change.table).references.enumerated() {
            if case .update(let cells) = change.edit, cells.keys.allSatisfy({ !reference.key.columns.contains($0) }) {
                continue
            }
            let id = FoldSchema.ReferenceID(table: change.table, index: index)
            guard let child = state.schema.childKey(id, of: row, present),
                let key = state.schema.parentKey(id, child)
            else { continue }
            needed.insert(key)
        }
    }

    /// All changes, in no order.
    mutating func all() throws -> [Change] {
        guard !isEmpty else { return [] }
        try writeAll()
        var changes: [Change] = []
        try state.db.forEach("SELECT bytes FROM temp.captured ORDER BY id") {
            changes += try SyncChangeSet(decoding: $0.bytes(0) ?? []).changes
        }
        return changes
    }

    // MARK: Dividing

    /// Calls `body` with the changes of each set, in order.
    mutating func forEachSet(_ body: ([Change]) throws -> Void) throws {
        guard !isEmpty else { return }
        try writeAll()
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
    /// Rows are visited before the rows to which they may refer.
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
                    try noteNeeds(of: change, from: nil, to: try inserted(change))
                    runs[.middle, default: Run()].changes.append(change)
                }
                guard kept.count < changes.count else { continue }
                let bytes = SyncChangeSet(.ofRun, kept.reversed()).encoded
                try state.db.execute("UPDATE temp.captured SET bytes = ? WHERE id = ?", [.blob(bytes), .integer(id)])
                try write(.middle)
            }
        }
    }

    private func isNeeded(_ change: Change) throws -> Bool {
        guard let row = try inserted(change) else { return false }
        if undivided.contains(change.table) { return true }
        return state.schema.parentKeys(of: change.reference, row).contains(where: needed.contains)
    }

    /// The row that a change inserts; `nil` if it's another change.
    private func inserted(_ change: Change) throws -> StoredRow? {
        guard case .insert(let row) = change.edit else { return nil }
        let table = try state.schema.table(change.table)
        return state.schema.isCounted(change.reference) ? StoredRow(countedIn: table) : StoredRow(table, row.cells)
    }

    private func lastRun(of phase: Phase, before last: Int64) throws -> (id: Int64, changes: [Change])? {
        let values = try state.db.first(
            "SELECT id, bytes FROM temp.captured WHERE phase = ? AND id < ? ORDER BY id DESC LIMIT 1",
            [.integer(phase.number), .integer(last)]
        )
        guard let values, let id = values.integer(0) else { return nil }
        return (id, try SyncChangeSet(decoding: values.bytes(1) ?? []).changes)
    }

    private func forEachRun(of phase: Phase, _ body: ([Change], Int) throws -> Void) throws {
        let ids = "SELECT id FROM temp.captured WHERE phase = ? ORDER BY id"
        for id in try state.db.all(ids, [.integer(phase.number)]) {
            // Only its changes stay in memory while the set before it is stored.
            let run = try run(id)
            if !run.changes.isEmpty { try body(run.changes, run.size) }
        }
    }

    private func run(_ id: [StoredValue]) throws -> Run {
        let values = try state.db.first("SELECT bytes, size FROM temp.captured WHERE id = ?", id) ?? [.null, .null]
        let bytes = values.bytes(0) ?? []
        let changes = try SyncChangeSet(decoding: bytes).changes
        return Run(changes: changes, size: max(bytes.count, Int(values.integer(1) ?? 0)))
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
